"""How many sequences run at once."""

import itertools

from breakeven_policies.saturation import SLOTS_MIN, Saturation
from breakeven_policies.snapshot import EngineSignals


def seen(*pairs: tuple[float | None, float | None]) -> int | None:
    saturation = Saturation()
    scrapes = [EngineSignals(running=running, waiting=waiting) for running, waiting in pairs]
    for moment, (before, after) in enumerate(itertools.pairwise(scrapes)):
        saturation.scraped(before, after, float(moment))
    return saturation.slots()


def test_where_nothing_waited_the_slots_are_unknown() -> None:
    assert seen() is None
    assert seen(*[(64.0, 0.0)] * 10) is None
    assert seen(*[(None, 5.0)] * 10) is None
    assert seen(*[(64.0, None)] * 10) is None


def test_one_burst_tells_nothing_yet() -> None:
    assert seen((64.0, 0.0), (64.0, 3.0), (64.0, 5.0), (64.0, 0.0)) is None


def test_what_ran_while_others_waited_is_all_that_runs() -> None:
    assert seen(*[(63.0, 9.0), (64.0, 4.0)] * 4) == 64


def test_an_engine_that_starts_is_not_taken_for_a_small_one() -> None:
    assert seen(*[(1.0, 9.0)] * 8) == SLOTS_MIN
