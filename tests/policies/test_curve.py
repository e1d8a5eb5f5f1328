"""Curves over the running batch: what is between two measured points, beyond them, and made of them for policies."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven_policies.curve import FLAT, KNOTS, Curve, curve_of, natural_shape, profile_of, rising
from breakeven_policies.decision import AcceptanceSource
from breakeven_policies.learned import BATCH_MAX, Acceptance

TWICE = Acceptance(2.0, 2.0, 50.0, AcceptanceSource.REQUESTS)
STEPS = Curve(tuple(0.02 + 0.0001 * knot for knot in KNOTS))


def test_no_points_make_no_curve() -> None:
    with pytest.raises(ValueError, match="at least one point"):
        curve_of([])


def test_a_curve_goes_through_its_points_and_on_lines_between_them() -> None:
    curve = curve_of([(64.0, 0.04), (1.0, 0.02), (16.0, 0.024)])
    assert [curve.at(batch) for batch in (1, 16, 64)] == pytest.approx([0.02, 0.024, 0.04])
    assert curve.at(40.0) == pytest.approx(0.032, rel=0.01)


def test_beyond_its_points_a_curve_goes_on_as_engines_do() -> None:
    curve = curve_of([(8.0, 0.02), (16.0, 0.021)])
    assert curve.at(1.0) < 0.02
    assert curve.at(512.0) > 2 * 0.021


def test_beyond_the_knots_the_last_value_holds() -> None:
    assert STEPS.at(0.0) == STEPS.at(1.0) == STEPS.values[0]
    assert STEPS.at(5000.0) == STEPS.values[-1]


@pytest.mark.parametrize("most", [1, 3, KNOTS[2], KNOTS[-1]])
def test_a_table_ends_where_it_is_wanted_to(most: int) -> None:
    assert STEPS.table(most) == STEPS.table()[: most + 1]


def test_the_table_of_a_curve_says_the_same_for_every_batch() -> None:
    table = STEPS.table()
    assert len(table) == BATCH_MAX + 1
    assert table[0] == table[1]
    assert list(table[1:]) == pytest.approx([STEPS.at(batch) for batch in range(1, BATCH_MAX + 1)])


def test_published_step_times_have_the_natural_shape() -> None:
    """A 70B model on 4 A100 at batch 1, 8, 32, 64 and 128 (engine facts, section 6.1), as shares of the first."""
    shape = natural_shape(0)
    for batch, published_ms in ((1, 23.1), (8, 23.7), (32, 25.5), (64, 28.0), (128, 34.8)):
        assert shape.at(batch) == pytest.approx(published_ms / 23.1, rel=0.12)


def test_drafts_make_a_step_longer_the_more_the_larger_the_batch() -> None:
    plain, drafting = natural_shape(0), natural_shape(5)
    assert 1.1 < drafting.at(1) / plain.at(1) < 1.4
    assert drafting.at(64) / plain.at(64) > 2.0


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [
        ((), (), ()),
        ((1.0, 2.0, 3.0), (1.0, 1.0, 1.0), (1.0, 2.0, 3.0)),
        ((1.0, 3.0, 2.0, 4.0), (1.0,) * 4, (1.0, 2.5, 2.5, 4.0)),
        ((3.0, 2.0, 1.0), (1.0,) * 3, (2.0, 2.0, 2.0)),
        ((4.0, 1.0), (1.0, 3.0), (1.75, 1.75)),
    ],
)
def test_what_falls_is_pooled_by_weight(
    values: tuple[float, ...], weights: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    assert rising(values, weights) == expected


@given(st.lists(st.tuples(st.floats(0.001, 10), st.floats(0.1, 10)), min_size=1, max_size=18))
def test_what_was_made_to_rise_never_falls(points: list[tuple[float, float]]) -> None:
    risen = rising([value for value, _ in points], [weight for _, weight in points])
    assert len(risen) == len(points)
    assert all(before <= after + 1e-12 for before, after in itertools.pairwise(risen))


def test_a_pool_whose_acceptance_is_unknown_gains_nothing_by_its_drafts() -> None:
    assert profile_of(STEPS, FLAT, None, 0.0).token_s == profile_of(STEPS, FLAT, None, 0.0).step_s


def test_a_token_takes_a_step_divided_by_what_a_step_makes() -> None:
    profile = profile_of(STEPS, FLAT, TWICE, 0.0)
    assert list(profile.token_s) == pytest.approx([step / 2 for step in profile.step_s])


def test_a_prefill_that_nobody_measured_is_not_free() -> None:
    profile = profile_of(STEPS, FLAT, TWICE, None)
    assert profile.prefill_s == pytest.approx(STEPS.values[0] / 150)


def test_a_step_time_that_falls_with_the_batch_is_noise_unless_the_engine_drafts_less_there() -> None:
    noisy = Curve((0.02, 0.03, 0.025) + (0.05,) * (len(KNOTS) - 3))
    assert profile_of(noisy, FLAT, TWICE, 0.0).step_s[2] == pytest.approx(0.0275)
    fewer = Curve(tuple(1.0 if knot < 4 else 0.5 for knot in KNOTS))
    assert profile_of(noisy, fewer, TWICE, 0.0).step_s[2] == 0.03


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.floats(0.001, 0.2), min_size=len(KNOTS), max_size=len(KNOTS)), st.integers(0, 17))
def test_neither_time_nor_harm_falls_as_the_batch_grows(values: list[float], fewer_from: int) -> None:
    share = Curve(tuple(1.0 if place < fewer_from else 0.4 for place in range(len(KNOTS))))
    profile = profile_of(Curve(tuple(values)), share, TWICE, 0.0)
    with_harm = [profile.token_s[batch + 1] * (1 + profile.harm[batch]) for batch in range(BATCH_MAX)]
    for times in (profile.token_s, with_harm):
        assert all(before <= after * (1 + 1e-9) for before, after in itertools.pairwise(times))
    assert min(profile.harm) >= -1e-12


def test_harm_is_what_the_others_lose_by_one_more() -> None:
    """h = B (1 - T(B) / T(B+1)) on a curve that bends at knots only."""
    profile = profile_of(STEPS, FLAT, TWICE, 0.0)
    for batch in (1, 10, 100):
        exact = batch * (1 - profile.token_s[batch] / profile.token_s[batch + 1])
        assert profile.harm[batch] == pytest.approx(exact)
    assert profile.harm[0] == 0.0
