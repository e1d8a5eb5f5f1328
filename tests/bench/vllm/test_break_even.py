"""When speculation stops paying, by the model: bounds, directions, and figures computed elsewhere."""

from dataclasses import replace

import pytest

from breakeven_bench.engine.hardware import PROFILES
from breakeven_bench.vllm.break_even import BATCH_LIMIT, best_schedule, break_even_batch, expected_tokens, speed_up

BF16 = PROFILES["a100-tp4-bf16"]
INT8 = PROFILES["a100-tp2-int8"]
FP8 = PROFILES["a100-tp2-fp8"]


def test_a_drafter_that_costs_more_than_it_can_give_never_pays():
    assert break_even_batch(replace(BF16, drafter_s=1.0), 3, 0.9) == 0


def test_a_gain_that_never_ends_in_reach_has_no_break_even():
    # One GPU that multiplies for nothing: verification is free.
    assert break_even_batch(replace(BF16, compute=1e18), 3, 0.8) is None


def test_no_draft_is_no_change():
    assert speed_up(BF16, 0, 17, 0.5) == 1.0


@pytest.mark.parametrize(
    ("acceptance", "drafts", "tokens"), [(0.0, 3, 1.0), (1.0, 3, 4.0), (0.5, 2, 1.75), (0.81, 5, 3.78), (0.64, 5, 2.59)]
)
def test_a_verification_yields_the_sum_of_its_chances(acceptance, drafts, tokens):
    assert expected_tokens(acceptance, drafts) == pytest.approx(tokens, abs=0.01)


@pytest.mark.parametrize(
    ("acceptance", "batch", "gain"), [(0.81, 1, 3.07), (0.81, 32, 2.15), (0.64, 64, 0.90), (0.38, 128, 0.37)]
)
def test_four_gpus_in_bf16_gain_what_the_model_said_when_it_was_fitted(acceptance, batch, gain):
    assert speed_up(BF16, 5, batch, acceptance) == pytest.approx(gain, abs=0.01)


def test_the_break_even_batch_is_the_last_that_gains():
    edge = break_even_batch(BF16, 5, 0.64)
    assert edge is not None
    assert speed_up(BF16, 5, edge, 0.64) >= 1 > speed_up(BF16, 5, edge + 1, 0.64)


def test_three_drafts_pay_for_longer_than_five():
    for hardware in (BF16, INT8, FP8):
        for acceptance in (0.38, 0.55, 0.64):
            three, five = (break_even_batch(hardware, drafts, acceptance) for drafts in (3, 5))
            assert three is not None
            assert five is not None
            assert three > five


def test_weights_multiplied_at_half_the_rate_stop_paying_at_half_the_batch():
    slow, fast = break_even_batch(FP8, 3, 0.64), break_even_batch(INT8, 3, 0.64)
    assert slow is not None
    assert fast is not None
    assert slow / fast == pytest.approx(0.5, abs=0.05)


def test_the_default_batch_of_vllm_is_beyond_any_gain_at_the_usual_temperature():
    assert all((break_even_batch(each, 3, 0.64) or 0) < BATCH_LIMIT for each in (BF16, INT8, FP8))


@pytest.mark.parametrize("hardware", [BF16, INT8, FP8], ids=lambda hardware: hardware.name)
def test_a_schedule_covers_every_batch_once_and_never_drafts_more_for_more(hardware):
    schedule = best_schedule(hardware, 0.64)
    batches = [batch for first, last, _ in schedule for batch in range(first, last + 1)]
    assert batches == list(range(1, 129))
    drafts = [each for _, _, each in schedule]
    assert drafts == sorted(set(drafts), reverse=True)
    assert drafts[0] == 3


def test_a_schedule_stops_drafting_where_even_one_draft_loses():
    first, last, drafts = best_schedule(FP8, 0.64)[-1]
    assert (last, drafts) == (128, 0)
    assert speed_up(FP8, 1, first, 0.64) < 1 <= speed_up(FP8, 1, first - 1, 0.64)
