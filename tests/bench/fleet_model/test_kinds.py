"""Engine kinds: how many drafts at which batch, and step times that are those of the hardware model."""

import pytest

from breakeven_bench.engine.hardware import PROFILES, eagle_drafter, step_s
from breakeven_bench.fleet_model.kinds import PROFILE, SEQUENCES_MAX, STEP_TOKENS_MAX, KindName, engine_kind


@pytest.mark.parametrize(("name", "drafts"), [(KindName.PLAIN, 0), (KindName.K3, 3), (KindName.K5, 5)])
def test_a_fixed_engine_drafts_alike_at_every_batch(name, drafts):
    kind = engine_kind(name)
    assert kind.drafts_by_batch == (drafts,) * (SEQUENCES_MAX + 1)
    assert kind.draft_tokens == drafts


def test_a_dynamic_engine_drafts_less_in_a_larger_batch_and_nothing_in_a_full_one():
    drafts = engine_kind(KindName.DYNAMIC).drafts_by_batch
    assert len(drafts) == SEQUENCES_MAX + 1
    assert list(drafts) == sorted(drafts, reverse=True)
    assert (drafts[1], drafts[-1]) == (5, 0)


def test_a_step_takes_what_the_hardware_model_says():
    hardware = PROFILES[PROFILE]
    expected = step_s(hardware, eagle_drafter(hardware), 32, 8_000, 3, 8)
    assert engine_kind(KindName.K3).decode_step_s(8, 8_000) == pytest.approx(expected)


def test_a_token_of_a_prompt_costs_its_share_of_a_step_full_of_them():
    kind = engine_kind(KindName.PLAIN)
    whole_s = kind.step_s(STEP_TOKENS_MAX, 0, 0, 1)
    assert (STEP_TOKENS_MAX - 1) * kind.prompt_token_s == pytest.approx(whole_s - kind.decode_step_s(1, 0))


def test_a_full_step_of_every_kind_is_tabulated():
    for name in KindName:
        kind = engine_kind(name)
        assert kind.step_s(STEP_TOKENS_MAX, 0, kind.draft_tokens, 1) > kind.decode_step_s(1, 0)
        assert kind.decode_step_s(SEQUENCES_MAX, 0) > 0
