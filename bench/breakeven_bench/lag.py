"""How late the client's own event loop is: every event that it stamps is late by that much."""

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TypeVar

from breakeven_bench.stats import interpolated

Result = TypeVar("Result")

INTERVAL_S = 0.02
"""Fifty looks a second: a p99 after two seconds, and too rare to be a load itself."""


async def with_lag(
    work: Awaitable[Result], clock: Callable[[], float] = perf_counter, interval_s: float = INTERVAL_S
) -> tuple[Result, float | None]:
    """The result of the work, and the 99th percentile in seconds by which timers fired late meanwhile.

    None where the work was over before the first timer.
    """
    late_s: list[float] = []
    probe = asyncio.create_task(_probe(late_s, clock, interval_s))
    try:
        result = await work
    finally:
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)
    return result, interpolated(sorted(late_s), 0.99) if late_s else None


async def _probe(late_s: list[float], clock: Callable[[], float], interval_s: float) -> None:
    while True:
        due_s = clock() + interval_s
        await asyncio.sleep(interval_s)
        late_s.append(max(0.0, clock() - due_s))
