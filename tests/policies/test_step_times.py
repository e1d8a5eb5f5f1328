"""Step times by running batch."""

import random

import pytest

from breakeven_policies.curve import KNOTS, Curve
from breakeven_policies.step_times import FACTOR_MAX, StepTimes

TABLE = Curve(tuple(0.02 + 0.0002 * knot for knot in KNOTS))


def true_step_s(batch: float) -> float:
    return 0.03 + 0.0004 * batch


def taught(times: StepTimes, count: int, most: float = 60.0, seed: int = 1) -> StepTimes:
    chance = random.Random(seed)  # noqa: S311  # seeded
    for number in range(count):
        batch = 1.0 + chance.random() * (most - 1.0)
        times.timed(true_step_s(batch) * (0.95 + 0.1 * chance.random()), batch, float(number))
    return times


def test_without_table_and_observation_a_step_time_is_unknown() -> None:
    times = StepTimes(0, None)
    assert (times.curve(), times.at(1.0), times.observations(0.0)) == (None, None, 0.0)


def test_a_table_is_believed_until_something_else_is_seen() -> None:
    times = StepTimes(0, TABLE)
    assert times.curve() == TABLE
    assert times.at(3.0) == pytest.approx(TABLE.at(3.0))


def test_a_hundred_requests_tell_the_curve_where_they_ran() -> None:
    times = taught(StepTimes(0, None), 100)
    for batch in (2, 10, 30, 55):
        assert times.at(batch) == pytest.approx(true_step_s(batch), rel=0.08)


def test_a_table_that_is_off_by_two_is_corrected_within_dozens() -> None:
    times = taught(StepTimes(0, Curve(tuple(2 * value for value in TABLE.values))), 80)
    for batch in (5, 20, 50):
        assert times.at(batch) == pytest.approx(true_step_s(batch), rel=0.12)


def test_one_batch_moves_the_curve_as_a_whole_and_its_shape_stays() -> None:
    times = StepTimes(5, None)
    for number in range(40):
        times.timed(0.05, 8.0, float(number))
    curve = times.curve()
    assert curve is not None
    assert curve.at(8.0) == pytest.approx(0.05)
    assert curve.at(1.0) < 0.05
    assert curve.at(64.0) > 2 * 0.05


def test_an_engine_that_becomes_slower_is_believed() -> None:
    times = StepTimes(0, None)
    for number in range(400):
        times.timed(0.02 if number < 200 else 0.03, 8.0, float(number))
    assert times.at(8.0) == pytest.approx(0.03, rel=0.02)


def test_a_stall_is_no_step_time() -> None:
    times = StepTimes(0, None)
    for number in range(30):
        times.timed(0.02, 8.0, float(number))
    times.timed(60.0, 8.0, 31.0)
    assert times.at(8.0) < 0.02 * 1.2


def test_observations_correct_a_table_within_bounds() -> None:
    times = StepTimes(0, TABLE)
    for number in range(200):
        times.timed(9.0, 8.0, float(number))
    assert times.at(8.0) == pytest.approx(TABLE.at(8.0) * FACTOR_MAX, rel=0.3)


def test_counters_tell_less_than_requests_and_nothing_where_those_tell_it() -> None:
    times = StepTimes(0, None)
    for number in range(200):
        times.counted(0.04, 8.0, float(number))
    assert times.at(8.0) == pytest.approx(0.04)
    for number in range(60):
        times.timed(0.02, 8.0, 200.0 + number)
    known = times.at(8.0)
    times.counted(0.04, 8.0, 261.0)
    assert times.at(8.0) == known


def test_what_is_known_at_a_knot_is_its_weight() -> None:
    times = StepTimes(0, None)
    times.timed(0.02, 5.0, 0.0)
    weights = dict(zip(KNOTS, times.weights(), strict=True))
    assert (weights[4], weights[6], weights[8]) == (0.6, 0.6, 0.1)
    assert times.observations(0.0) == 1.0


@pytest.mark.parametrize("batch", [0.5, 1.0, 2000.0])
def test_a_batch_outside_the_knots_is_at_the_outermost(batch: float) -> None:
    times = StepTimes(0, None)
    times.timed(0.02, batch, 0.0)
    assert times.at(batch) == pytest.approx(0.02)
