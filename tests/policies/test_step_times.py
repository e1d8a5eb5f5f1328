"""Step times by running batch."""

from breakeven_policies.step_times import StepTimes


def test_without_table_and_observation_a_step_time_is_unknown() -> None:
    assert StepTimes(0, None).curve() is None
