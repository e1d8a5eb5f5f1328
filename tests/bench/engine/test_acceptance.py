"""Acceptance of drafts: what temperature, cuts, kind of text and drafting mode do to it, and that luck follows it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_bench.engine.acceptance import (
    ACCEPTANCE_MAX,
    Workload,
    accepted_drafts,
    conditional_acceptance,
    draft_coverage,
    effective_temperature,
    workload_named,
)
from breakeven_bench.engine.speculation import DraftSampling, Method
from breakeven_policies.prior import PRIOR, expected_acceptance_length
from tests.bench.engine.engines import chance

GREEDY, PROBABILISTIC = DraftSampling.GREEDY, DraftSampling.PROBABILISTIC
TEMPERATURES = st.floats(0, 2)
USER_MIX = {
    Workload.SHORT_QA: 150,
    Workload.SUMMARIZATION: 100,
    Workload.CODE: 80,
    Workload.CREATIVE: 50,
    Workload.TRANSLATION: 70,
    Workload.STRUCTURED: 50,
}


@pytest.mark.parametrize("name", [None, "", "poetry", 5, 1.5, True, ["code_generation"], {"a": 1}])
def test_a_name_that_means_nothing_is_a_neutral_workload(name):
    assert workload_named(name) is Workload.NEUTRAL


@pytest.mark.parametrize("workload", list(Workload))
def test_a_workload_is_found_by_its_name(workload):
    assert workload_named(workload.value) is workload


@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, 0), (1.0, -1), (1.0, 64), (1.0, 100_000)])
def test_without_a_cut_the_temperature_is_what_it_is(top_p, top_k):
    assert effective_temperature(1.5, top_p, top_k) == 1.5


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5, 2.0])
def test_top_k_of_one_is_greedy_at_any_temperature(temperature):
    assert effective_temperature(temperature, 1.0, 1) == 0.0


def test_a_small_top_p_is_nearly_greedy():
    assert effective_temperature(1.5, 0.05, 0) < 0.02


def test_a_usual_top_p_hardly_changes_the_temperature():
    assert effective_temperature(1.0, 0.9, 0) == pytest.approx(0.85, abs=0.01)


@pytest.mark.slow
@given(TEMPERATURES, st.floats(0.01, 1), st.integers(1, 200))
def test_a_second_cut_never_makes_a_request_hotter(temperature, top_p, top_k):
    both = effective_temperature(temperature, top_p, top_k)
    assert both == min(effective_temperature(temperature, top_p, 0), effective_temperature(temperature, 1.0, top_k))
    assert 0.0 <= both <= temperature


@pytest.mark.parametrize("point", PRIOR)
def test_greedy_drafts_of_neutral_text_are_accepted_as_the_prior_says(point):
    assert conditional_acceptance(point.temperature, Workload.NEUTRAL, GREEDY) == pytest.approx(point.acceptance)


def test_probabilistic_drafts_lose_almost_nothing_where_greedy_ones_lose_half():
    kept = {
        sampling: conditional_acceptance(1.5, Workload.NEUTRAL, sampling)
        / conditional_acceptance(0.0, Workload.NEUTRAL, sampling)
        for sampling in DraftSampling
    }
    assert kept[GREEDY] < 0.5
    assert 0.9 < kept[PROBABILISTIC] < 1.0


@given(TEMPERATURES, st.sampled_from(Workload), st.sampled_from(DraftSampling))
def test_acceptance_is_a_probability_whatever_is_asked_for(temperature, workload, sampling):
    assert 0.0 < conditional_acceptance(temperature, workload, sampling) <= ACCEPTANCE_MAX


def test_code_is_easier_to_draft_than_stories():
    by_workload = {workload: conditional_acceptance(0.7, workload, GREEDY) for workload in Workload}
    assert max(by_workload, key=by_workload.__getitem__) is Workload.CODE
    assert min(by_workload, key=by_workload.__getitem__) is Workload.CREATIVE


def test_over_the_users_prompt_mix_the_kinds_of_text_cancel_out():
    neutral = conditional_acceptance(0.7, Workload.NEUTRAL, GREEDY)
    mixed = sum(share * conditional_acceptance(0.7, workload, GREEDY) for workload, share in USER_MIX.items())
    assert mixed / sum(USER_MIX.values()) == pytest.approx(neutral, rel=0.01)


def test_only_prompt_lookup_has_steps_without_a_draft():
    for workload in Workload:
        assert draft_coverage(Method.EAGLE3, workload) == draft_coverage(Method.DRAFT_MODEL, workload) == 1.0
        assert 0.0 < draft_coverage(Method.NGRAM, workload) < 0.5
    assert draft_coverage(Method.NGRAM, Workload.SUMMARIZATION) > draft_coverage(Method.NGRAM, Workload.CREATIVE)


def test_nothing_is_accepted_where_acceptance_is_zero():
    assert accepted_drafts(5, 0.0, 0.999) == 0


@pytest.mark.slow
@given(st.integers(0, 16), st.floats(0.001, ACCEPTANCE_MAX), st.floats(0, 1, exclude_max=True))
def test_at_least_j_drafts_are_accepted_with_probability_a_to_the_j(drafts, acceptance, ticket):
    accepted = accepted_drafts(drafts, acceptance, ticket)
    assert 0 <= accepted <= drafts
    luck = 1.0 - ticket
    assert luck <= acceptance**accepted * (1 + 1e-9)
    assert accepted == drafts or luck >= acceptance ** (accepted + 1) * (1 - 1e-9)


@pytest.mark.parametrize("acceptance", [0.38, 0.55, 0.81])
def test_the_mean_length_of_many_steps_is_the_expected_one(acceptance):
    luck = chance(1)
    steps = 20_000
    mean = 1 + sum(accepted_drafts(5, acceptance, luck()) for _ in range(steps)) / steps
    assert mean == pytest.approx(expected_acceptance_length(acceptance, 5), rel=0.015)
