"""Live progress: bars on a terminal, one line every few seconds elsewhere."""

import asyncio
from collections.abc import Awaitable, Mapping
from time import perf_counter
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from breakeven_bench.load import Tally

Result = TypeVar("Result")

REFRESH_S = 0.5
"""Drawing six bars takes a few milliseconds of the loop that also stamps events: seldom enough not to matter."""

LINE_EVERY_S = 10.0


async def with_progress(
    console: Console, title: str, tallies: Mapping[str, Tally], planned: int, work: Awaitable[Result]
) -> Result:
    """The result of the work; the tallies, by title of their arm, are shown meanwhile. Each arm gets `planned`."""
    console.print(title)
    show = _bars if console.is_terminal else _lines
    display = asyncio.create_task(show(console, tallies, planned))
    try:
        return await work
    finally:
        display.cancel()
        await asyncio.gather(display, return_exceptions=True)


async def _bars(console: Console, tallies: Mapping[str, Tally], planned: int) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"))
    # rich's own refresh runs in a thread and would hold the interpreter at moments that are not ours.
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        bars = {name: progress.add_task(f"  {name}", total=planned, now="") for name in tallies}
        while True:
            for name, tally in tallies.items():
                progress.update(bars[name], completed=tally.finished, now=in_words(tally))
            progress.refresh()
            await asyncio.sleep(REFRESH_S)


async def _lines(console: Console, tallies: Mapping[str, Tally], planned: int) -> None:
    began_s = perf_counter()
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        finished = sum(tally.finished for tally in tallies.values())
        most = max(tallies, key=lambda name: tallies[name].in_flight)
        console.print(
            f"  {perf_counter() - began_s:3.0f} s: {finished} of {planned * len(tallies)} answers; "
            f"most in flight: {tallies[most].in_flight} ({most})"
        )


def in_words(tally: Tally) -> str:
    """What a bar cannot show."""
    failed = f", {tally.failed} failed" if tally.failed else ""
    return f"{tally.in_flight} in flight{failed}"
