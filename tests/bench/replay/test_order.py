"""`breakeven_bench.replay.order`: decisions in the order in which they were taken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven_bench.replay.order import by_decision, decided_s, ended_s
from tests.bench.replay.journals import BEGAN, entry


@pytest.mark.slow
@settings(max_examples=50)
@given(lives=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=30))
def test_with_a_window_large_enough_no_decision_comes_before_an_earlier_one(lives: list[tuple[float, float]]) -> None:
    entries = [entry(at_s=at_s, took_s=took_s) for at_s, took_s in sorted(lives)]
    ordered = list(by_decision(entries, window=100))
    assert sorted(map(decided_s, entries)) == [decided_s(each) for each in ordered]


def test_more_than_the_window_is_never_held() -> None:
    taken = 0

    def entries() -> object:
        nonlocal taken
        for number in range(100):
            taken += 1
            yield entry(at_s=number)

    for place, _ in enumerate(by_decision(entries(), window=5), start=1):  # type: ignore[arg-type]
        assert taken <= place + 5


def test_a_line_that_does_not_say_how_long_it_took_was_decided_when_it_ended() -> None:
    known, unknown = entry(at_s=10, took_s=4), entry(at_s=10, took_s=4, finished_s=None)
    assert ended_s(known) == BEGAN.timestamp() + 10
    assert decided_s(known) == BEGAN.timestamp() + 6
    assert decided_s(unknown) == ended_s(unknown)
    assert decided_s(entry(at_s=10, took_s=1, decided_s=5.0)) == BEGAN.timestamp() + 10
