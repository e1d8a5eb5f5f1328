"""A wheel of limits: what is due is found, early never and late hardly, and what has ended is not."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.deadlines import GRAIN_S, Deadlines, Wheel


@given(
    items=st.lists(st.tuples(st.floats(0, 50), st.booleans()), max_size=30),
    looks=st.lists(st.floats(0, 60), max_size=10).map(sorted),
)
def test_everything_that_stays_comes_due_once_never_early_and_less_than_a_slot_late(
    items: list[tuple[float, bool]], looks: list[float]
) -> None:
    wheel: Wheel[int] = Wheel(0.5)
    due_s = {number: due for number, (due, _) in enumerate(items)}
    for number, due in due_s.items():
        wheel.add(number, due)
    for number, (due, ended) in enumerate(items):
        if ended:
            wheel.discard(number, due)
    left = {number for number, (_, ended) in enumerate(items) if not ended}
    for now_s in looks:
        taken = wheel.take_due(now_s)
        assert len(set(taken)) == len(taken)
        assert set(taken) <= left
        assert all(due_s[number] <= now_s for number in taken)
        left -= set(taken)
        assert all(due_s[number] > now_s - 0.5 for number in left)
    assert (len(wheel) == 0) == (not left)


def test_what_is_not_there_may_be_discarded() -> None:
    wheel: Wheel[str] = Wheel(1.0)
    wheel.discard("a", 5.0)
    wheel.add("b", 5.0)
    wheel.discard("a", 5.0)
    assert wheel.take_due(6.0) == ["b"]
    wheel.discard("b", 5.0)


@pytest.mark.slow
async def test_the_loop_is_asked_for_one_timer_and_only_while_something_is_due() -> None:
    now_s, told, over = 0.0, [], asyncio.Event()

    def expire(item: str) -> None:
        told.append(item)
        over.set()

    deadlines = Deadlines(0.1, lambda: now_s, expire)
    for item in ("a", "b"):
        deadlines.add(item, 0.0)
    timer = deadlines._timer
    deadlines.add("c", 5.0)
    assert deadlines._timer is timer
    deadlines.discard("b", 0.0)
    now_s = 1.0
    async with asyncio.timeout(10):
        await over.wait()
    assert told == ["a"]
    deadlines.discard("c", 5.0)
    async with asyncio.timeout(10):
        while deadlines._timer is not None:  # noqa: ASYNC110  # nothing tells that there is none
            await asyncio.sleep(0.005)
    deadlines.close()
    deadlines.add("d", 5.0)
    deadlines.close()
    assert deadlines._timer is None


@pytest.mark.slow
async def test_one_that_cannot_be_ended_takes_nobody_elses_limit_away(caplog: pytest.LogCaptureFixture) -> None:
    now_s, told, over = 1.0, [], asyncio.Event()

    def expire(item: str) -> None:
        told.append(item)
        if item == "broken":
            raise KeyError(item)
        if item == "last":
            over.set()

    deadlines = Deadlines(0.1, lambda: now_s, expire)
    deadlines.add("broken", 0.0)
    deadlines.add("other", 0.01)
    deadlines.add("last", 1.5)
    async with asyncio.timeout(10):
        while len(told) < 2:  # noqa: ASYNC110  # nothing tells of the first two
            await asyncio.sleep(0.005)
        now_s = 2.0
        await over.wait()
    assert told == ["broken", "other", "last"]
    assert [record.exc_info is not None for record in caplog.records] == [True]
    deadlines.close()


def test_a_limit_of_minutes_is_looked_at_once_a_second() -> None:
    assert Deadlines(600.0, lambda: 0.0, print)._wheel.grain_s == GRAIN_S
