"""Progress: shown while the work runs, gone when it ends, and never the reason why it fails."""

import asyncio
import io

import pytest
from rich.console import Console

from breakeven_bench import progress
from breakeven_bench.load import Tally
from breakeven_bench.progress import in_words, with_progress


def console(terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, highlight=False)


async def briefly():
    await asyncio.sleep(0.05)
    return 7


@pytest.mark.parametrize("terminal", [True, False])
async def test_an_error_of_the_work_comes_through_and_the_display_ends(terminal):
    async def fail():
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await with_progress(console(terminal), "title", {"arm": Tally()}, 10, fail())
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("terminal", [True, False])
async def test_the_result_of_the_work_comes_through_after_its_title(terminal):
    out = console(terminal)
    assert await with_progress(out, "2 requests/s", {"arm": Tally()}, 10, briefly()) == 7
    assert "2 requests/s" in out.file.getvalue()


async def test_a_terminal_shows_a_bar_for_each_arm():
    out = console(terminal=True)
    tallies = {"threshold": Tally(10, 8, 5, 1), "two plain": Tally(10, 4, 4, 0)}
    await with_progress(out, "title", tallies, 10, briefly())
    for expected in ("threshold", "5/10", "3 in flight, 1 failed", "two plain", "4/10", "0 in flight"):
        assert expected in out.file.getvalue()


async def test_elsewhere_a_line_now_and_then_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.01)
    out = console(terminal=False)
    tallies = {"threshold": Tally(10, 8, 5, 1), "two plain": Tally(10, 4, 4, 0)}
    await with_progress(out, "title", tallies, 10, briefly())
    assert "0 s: 9 of 20 answers; most in flight: 3 (threshold)" in out.file.getvalue()


@pytest.mark.parametrize(
    ("tally", "expected"), [(Tally(9, 5, 3, 0), "2 in flight"), (Tally(9, 5, 3, 2), "2 in flight, 2 failed")]
)
def test_failures_are_only_spoken_of_where_there_are_any(tally, expected):
    assert in_words(tally) == expected
