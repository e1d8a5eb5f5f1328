"""Deadlines: what is late, what is lost, and that small delays do not make the engine slower."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_bench.engine.pacing import LATE_FLOOR_S, Pace


def test_a_step_that_never_began_cannot_end():
    with pytest.raises(RuntimeError, match="never began"):
        Pace(1.0).end(5.0)


def test_a_step_takes_its_modelled_time_divided_by_the_time_scale():
    assert Pace(1.0).begin(0.025, 100.0) == pytest.approx(100.025)
    assert Pace(10.0).begin(0.025, 100.0) == pytest.approx(100.0025)


def test_the_next_step_begins_at_the_deadline_although_its_timer_fired_later():
    pace = Pace(1.0)
    pace.begin(0.025, 100.0)
    pace.end(100.026)
    assert pace.begin(0.025, 100.026) == pytest.approx(100.050)
    assert pace.lost_s == 0.0


def test_a_timer_that_fires_early_does_not_make_the_engine_faster():
    pace = Pace(1.0)
    pace.begin(0.025, 100.0)
    pace.end(100.0245)
    assert pace.begin(0.025, 100.0245) == pytest.approx(100.050)


def test_a_delay_of_more_than_a_step_is_given_up_and_counted():
    pace = Pace(1.0)
    pace.begin(0.025, 100.0)
    pace.end(100.075)
    assert pace.begin(0.025, 100.075) == pytest.approx(100.100)
    assert pace.lost_s == pytest.approx(0.050)


@pytest.mark.parametrize(
    ("duration_s", "delay_s", "late"),
    [
        (0.040, 0.009, 0),
        (0.040, 0.011, 1),
        (0.002, 0.0019, 0),
        (0.002, 0.0021, 1),
        (0.040, -0.001, 0),
    ],
)
def test_late_is_more_than_a_quarter_of_the_step_and_more_than_two_milliseconds(duration_s, delay_s, late):
    pace = Pace(1.0)
    deadline_s = pace.begin(duration_s, 100.0)
    pace.end(deadline_s + delay_s)
    assert (pace.steps, pace.late) == (1, late)


def test_after_a_rest_a_step_begins_when_work_arrives():
    pace = Pace(1.0)
    pace.begin(0.025, 100.0)
    pace.end(100.025)
    pace.rest()
    assert pace.begin(0.025, 200.0) == pytest.approx(200.025)
    assert pace.lost_s == 0.0


@pytest.mark.slow
@given(st.lists(st.tuples(st.floats(0.003, 0.05), st.floats(-0.001, LATE_FLOOR_S)), min_size=1, max_size=200))
def test_however_timers_jitter_a_busy_engine_keeps_its_pace_and_nothing_is_late(steps):
    pace = Pace(1.0)
    now_s = 100.0
    for duration_s, jitter_s in steps:
        now_s = pace.begin(duration_s, now_s) + jitter_s
        pace.end(now_s)
    modelled_s = sum(duration_s for duration_s, _ in steps)
    assert now_s - 100.0 - steps[-1][1] == pytest.approx(modelled_s)
    assert (pace.steps, pace.late, pace.lost_s) == (len(steps), 0, 0.0)
