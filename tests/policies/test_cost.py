"""The cost of one request on one backend, term by term, against the formula written out."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven_policies.cost import Job, Objective, terms
from breakeven_policies.curve import FLAT, KNOTS, Curve, profile_of
from breakeven_policies.decision import AcceptanceSource
from breakeven_policies.learned import BATCH_MAX, Acceptance

STEPS = Curve(tuple(0.02 + 0.0002 * knot for knot in KNOTS))
OVERALL = Acceptance(2.5, 2.5, 50.0, AcceptanceSource.REQUESTS)
SLOTS = 64
PROFILE = profile_of(STEPS, FLAT, OVERALL, 0.0003, slots=SLOTS)
JOB = Job(prompt_tokens=200.0, output_tokens=150.0, output_tokens_mean=180.0)


@pytest.mark.parametrize("there", [0, 1, 7, 40, 63, 64, 65, 200])
@pytest.mark.parametrize("backlog", [0.0, 1000.0])
def test_the_terms_are_those_of_the_formula(there: int, backlog: float) -> None:
    def time_per_token(batch: int) -> float:
        return STEPS.at(batch) / 2.5

    batch = min(there, SLOTS - 1)
    token_s = STEPS.at(batch + 1) / 3.0
    harm = max(0.0, batch * (1 - time_per_token(batch) / time_per_token(batch + 1)))
    queue_s = backlog * 0.0003 + max(0, there + 1 - SLOTS) * 180.0 * time_per_token(SLOTS) / SLOTS
    found = terms(PROFILE, 3.0, JOB, float(there), backlog)
    assert found.batch == batch
    assert found.queue_s == pytest.approx(queue_s)
    assert found.prefill_s == pytest.approx(200 * 0.0003)
    assert found.prefill_harm_s == pytest.approx(200 * 0.0003 * batch)
    assert found.decode_s == pytest.approx(150 * token_s)
    assert found.decode_harm_s == pytest.approx(150 * token_s * harm)
    assert found.total_s == pytest.approx(queue_s + 200 * 0.0003 * (1 + batch) + 150 * token_s * (1 + harm))
    assert found.own_s + found.harm_s == pytest.approx(found.total_s)


def test_a_flat_curve_harms_nobody() -> None:
    found = terms(profile_of(FLAT, FLAT, None, 0.001), 2.0, Job(100.0, 10.0, 10.0), 3.0, 0.0)
    assert (found.decode_s, found.decode_harm_s, found.prefill_s) == (5.0, 0.0, 0.1)


def test_a_full_pool_never_looks_cheap() -> None:
    room, full = (terms(PROFILE, 3.0, JOB, there, 0.0).total_s for there in (50.0, 500.0))
    assert full > 2 * room


def test_where_the_slots_are_unknown_a_batch_has_its_bound_all_the_same() -> None:
    unknown = profile_of(STEPS, FLAT, OVERALL, 0.0003)
    assert terms(unknown, 3.0, JOB, 10.0**6, 0.0).batch == BATCH_MAX - 1
    assert terms(unknown, 3.0, JOB, 10.0**6, 0.0).queue_s > 1000


def test_fewer_drafts_in_a_larger_batch_leave_less_of_the_acceptance() -> None:
    share = Curve(tuple(1.0 if knot < 32 else 0.0 for knot in KNOTS))
    profile = profile_of(STEPS, share, OVERALL, 0.0003)
    assert terms(profile, 3.0, JOB, 5.0, 0.0).acceptance_length == 3.0
    assert terms(profile, 3.0, JOB, 100.0, 0.0).acceptance_length == 1.0


def test_several_sequences_join_with_all_of_them() -> None:
    one, four = (terms(PROFILE, 3.0, JOB, 10.0, 0.0, sequences) for sequences in (1, 4))
    assert four.step_s == pytest.approx(STEPS.at(14))
    assert four.decode_harm_s > one.decode_harm_s
    assert terms(PROFILE, 3.0, JOB, 10.0, 0.0, SLOTS + 10).batch == 0
    assert terms(PROFILE, 3.0, JOB, 10.0, 0.0, SLOTS + 10).decode_harm_s == 0.0


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.lists(st.floats(0.001, 0.2), min_size=len(KNOTS), max_size=len(KNOTS)),
    st.floats(1, 6),
    st.sampled_from([None, 1, 8, 128]),
    st.lists(st.floats(0, 3000), min_size=2, max_size=6),
)
def test_more_load_never_costs_less(values: list[float], length: float, slots: int | None, loads: list[float]) -> None:
    profile = profile_of(Curve(tuple(values)), FLAT, OVERALL, 0.0003, slots=slots)
    totals = [terms(profile, length, JOB, there, 0.0).total_s for there in sorted(loads)]
    assert all(before <= after * (1 + 1e-9) for before, after in itertools.pairwise(totals))


def test_objectives_have_the_words_of_the_documentation() -> None:
    assert [str(objective) for objective in Objective] == ["latency", "goodput", "throughput"]
