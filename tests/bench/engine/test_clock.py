"""The clock of an event loop."""

import asyncio
from datetime import UTC, datetime

from breakeven_bench.engine.clock import LoopClock, wall_s


async def test_a_timer_fires_when_it_is_due_and_one_that_is_overdue_at_once():
    clock = LoopClock(asyncio.get_running_loop())
    fired = asyncio.Event()
    began_s = clock.time()
    clock.call_at(began_s + 0.02, fired.set)
    await fired.wait()
    assert 0.018 < clock.time() - began_s < 1.0
    overdue = asyncio.Event()
    clock.call_at(began_s - 5.0, overdue.set)
    await asyncio.wait_for(overdue.wait(), 1.0)


async def test_time_goes_on_while_a_callback_runs():
    clock = LoopClock(asyncio.get_running_loop())
    began_s = clock.time()
    while clock.time() == began_s:
        pass
    assert clock.time() > began_s


def test_the_wall_clock_counts_from_1970():
    assert abs(wall_s() - datetime.now(UTC).timestamp()) < 5
