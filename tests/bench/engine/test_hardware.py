"""Step times: the tabulated figures of the model, computed independently, and what must hold between them."""

import pytest

from breakeven_bench.engine.hardware import (
    NO_DRAFTER,
    PROFILES,
    draft_model_drafter,
    eagle_drafter,
    lookup_drafter,
    step_s,
)

TP4 = PROFILES["a100-tp4-bf16"]
CONTEXT = 1000


def plain_s(hardware, batch, prefill=0):
    return step_s(hardware, NO_DRAFTER, batch + prefill, batch * CONTEXT, 0, batch)


def speculative_s(hardware, batch, drafts, prefill=0):
    tokens = batch * (drafts + 1) + prefill
    return step_s(hardware, eagle_drafter(hardware), tokens, batch * CONTEXT, drafts, batch)


@pytest.mark.parametrize(
    ("batch", "step_ms"), [(1, 23.1), (8, 23.7), (16, 24.3), (32, 25.5), (64, 28.0), (128, 34.8), (256, 60.9)]
)
def test_a_plain_step_on_four_a100_takes_as_long_as_tabulated(batch, step_ms):
    assert plain_s(TP4, batch) * 1000 == pytest.approx(step_ms, abs=0.05)


@pytest.mark.parametrize(
    ("drafts", "ratios"),
    [
        (1, [1.09, 1.09, 1.10, 1.10, 1.11, 1.12, 1.15, 1.21, 1.44, 1.64]),
        (2, [1.12, 1.13, 1.14, 1.16, 1.18, 1.21, 1.34, 1.57, 2.01, 2.32]),
        (3, [1.16, 1.17, 1.18, 1.21, 1.25, 1.34, 1.64, 1.99, 2.60, 3.01]),
        (5, [1.23, 1.25, 1.27, 1.34, 1.49, 1.76, 2.33, 2.87, 3.77, 4.38]),
        (7, [1.30, 1.33, 1.36, 1.51, 1.85, 2.26, 3.04, 3.75, 4.95, 5.75]),
    ],
)
def test_verifying_drafts_costs_the_tabulated_ratio_at_every_batch_size(drafts, ratios):
    batches = (1, 4, 8, 16, 24, 32, 48, 64, 96, 128)
    measured = [speculative_s(TP4, batch, drafts) / plain_s(TP4, batch) for batch in batches]
    assert measured == pytest.approx(ratios, abs=0.006)


def test_weights_of_eight_bits_that_multiply_at_sixteen_leave_half_the_room_to_speculate():
    hardware = PROFILES["a100-tp2-fp8"]
    ratios = [speculative_s(hardware, batch, 5) / plain_s(hardware, batch) for batch in (8, 16, 32, 64)]
    assert ratios == pytest.approx([1.29, 1.67, 2.75, 4.27], abs=0.01)


def test_on_h100_the_model_gives_the_published_speed_ups():
    hardware = PROFILES["h100-tp4-bf16"]
    length = 2.26  # the acceptance length behind the published numbers
    speed_ups = [length * plain_s(hardware, batch) / speculative_s(hardware, batch, 3) for batch in (1, 16, 64, 128)]
    assert speed_ups == pytest.approx([1.90, 1.74, 1.42, 1.00], rel=0.05)


@pytest.mark.parametrize("hardware", PROFILES.values(), ids=PROFILES)
def test_more_tokens_more_context_and_more_drafts_never_shorten_a_step(hardware):
    for batch in (1, 8, 64, 256):
        assert hardware.forward_s(batch + 1, 0) > hardware.forward_s(batch, 0)
        assert hardware.forward_s(batch, 4096) > hardware.forward_s(batch, 0)
        assert speculative_s(hardware, batch, 4) > speculative_s(hardware, batch, 3)


def test_prefill_in_the_step_makes_speculation_relatively_cheaper():
    without = speculative_s(TP4, 16, 5) / plain_s(TP4, 16)
    beside_a_prompt = speculative_s(TP4, 16, 5, prefill=512) / plain_s(TP4, 16, prefill=512)
    assert beside_a_prompt < without


def test_an_engine_that_speculates_with_no_draft_still_pays_the_overhead():
    assert speculative_s(TP4, 64, 0) - plain_s(TP4, 64) == pytest.approx(1.2e-3)


def test_half_the_machine_with_half_the_bytes_per_weight_steps_as_fast_when_idle():
    assert plain_s(PROFILES["a100-tp2-int8"], 1) == pytest.approx(plain_s(TP4, 1), rel=0.01)


def test_a_draft_model_costs_its_weights_for_every_draft_and_a_lookup_costs_none():
    weights_s = 16.1e9 / (4 * 2039e9 * 0.85)
    assert draft_model_drafter(TP4).step_s(3, 0) == pytest.approx(3 * (weights_s + 1e-3) + 1.2e-3)
    assert lookup_drafter(TP4).step_s(3, 10) == pytest.approx(1.2e-3)


def test_every_profile_is_found_by_its_name_and_holds_several_long_contexts():
    for name, hardware in PROFILES.items():
        assert hardware.name == name
        assert hardware.kv_cache_tokens > 10 * 8192


@pytest.mark.parametrize("hardware", PROFILES.values(), ids=list(PROFILES))
def test_at_the_corner_reading_weights_and_multiplying_take_equally_long(hardware):
    weights_s = 69.5e9 * hardware.bytes_per_weight / (hardware.tensor_parallel * hardware.bandwidth * 0.85)
    matmul_s = 2 * 69.5e9 * hardware.corner_tokens / (hardware.tensor_parallel * hardware.compute * 0.75)
    assert matmul_s == pytest.approx(weights_s)
