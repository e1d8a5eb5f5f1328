"""`breakeven.clock`: one clock for durations, one for dates."""

from datetime import UTC

from breakeven.clock import monotonic_s, utc_now


def test_the_clock_of_durations_never_goes_back() -> None:
    readings = [monotonic_s() for _ in range(1000)]
    assert readings == sorted(readings)


def test_dates_say_that_they_are_utc() -> None:
    assert utc_now().tzinfo is UTC
