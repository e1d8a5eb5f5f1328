"""The probe of the client's own loop."""

import asyncio
import time

import pytest

from breakeven_bench.lag import with_lag


async def test_an_error_of_the_work_comes_through_and_the_probe_ends():
    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await with_lag(fail())
    assert len(asyncio.all_tasks()) == 1


async def test_work_that_is_over_at_once_says_nothing_about_the_loop():
    async def at_once():
        return 7

    assert await with_lag(at_once()) == (7, None)


async def test_a_loop_that_is_held_up_lags_by_as_much():
    async def hold_up():
        await asyncio.sleep(0.01)
        time.sleep(0.1)  # noqa: ASYNC251  # this is what the probe is to notice
        await asyncio.sleep(0.01)

    _, lag_s = await with_lag(hold_up(), interval_s=0.005)
    assert lag_s is not None
    assert 0.08 < lag_s < 1.0


async def test_a_timer_that_fires_early_is_no_negative_lag():
    readings = iter(range(10_000))

    async def briefly():
        await asyncio.sleep(0.02)

    # each look at this clock is one second later than the last, so that 5 s of waiting seem to take 1
    _, lag_s = await with_lag(briefly(), clock=lambda: float(next(readings)), interval_s=5.0 / 1000)
    assert lag_s == pytest.approx(1.0, abs=0.01)
