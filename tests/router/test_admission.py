"""Requests wait for a place: first come first served, no place lost, none taken twice, whatever happens meanwhile."""

import asyncio
import random
from collections import deque

import pytest

from breakeven.admission import Admission
from breakeven.record import Waited


class Watcher:
    """What the metrics would be told."""

    def __init__(self) -> None:
        self.queued = 0
        self.waits: list[tuple[Waited, float]] = []

    def waited(self, how: Waited, wait_s: float) -> None:
        self.waits.append((how, wait_s))


class Engine:
    """So many places."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0

    @property
    def free(self) -> bool:
        return self.taken < self.places

    def take(self) -> None:
        self.taken += 1
        assert self.taken <= self.places


class Guest:
    """Wants one place at one of the engines of its lane."""

    def __init__(self, engines: tuple[Engine, ...]) -> None:
        self.engines = engines
        self.served_by: Engine | None = None
        self.was_late = False
        self.failed = False
        self.fault: Exception | None = None

    def try_place(self) -> Waited | None:
        if self.fault is not None:
            raise self.fault
        engine = next((each for each in self.engines if each.free), None)
        if engine is None:
            return None
        engine.take()
        self.served_by = engine
        return Waited.SERVED

    def too_late(self) -> None:
        self.was_late = True
        if self.fault is not None:
            raise self.fault

    def fail(self) -> None:
        self.failed = True


class House:
    """An admission on a clock of its own."""

    def __init__(self, queue_max: int = 100, timeout_s: float = 10.0) -> None:
        self.now_s = 0.0
        self.watcher = Watcher()
        self.line = Admission(queue_max, timeout_s, lambda: self.now_s, self.watcher)

    def guest(self, *engines: Engine, lane: str = "lane") -> Guest:
        guest = Guest(engines)
        assert self.line.wait(guest, lane, 1)
        return guest


@pytest.fixture
async def house() -> House:
    return House()


async def test_where_too_many_wait_the_next_one_is_told_when_to_come_again() -> None:
    house = House(queue_max=1)
    engine = Engine(1)
    first = house.guest(engine)
    assert not house.line.wait(Guest((engine,)), "lane", 1)
    assert house.line.retry_after_s == 1
    house.now_s = 3.2
    house.line.ask()
    assert first.served_by is engine
    assert house.line.retry_after_s == 4
    house.line.close()


async def test_a_place_that_becomes_free_goes_to_who_came_first_in_the_next_turn(house: House) -> None:
    engine = Engine(1)
    engine.take()
    guests = [house.guest(engine) for _ in range(3)]
    assert house.watcher.queued == 3
    engine.taken = 0
    house.line.soon()
    house.line.soon()
    assert [guest.served_by for guest in guests] == [None, None, None]  # not in the middle of what freed it
    await asyncio.sleep(0)
    assert [guest.served_by for guest in guests] == [engine, None, None]
    assert not house.line.due
    assert house.watcher.waits == [(Waited.SERVED, 0.0)]
    house.line.close()


async def test_who_asks_first_for_a_new_request_leaves_nothing_to_the_next_turn(house: House) -> None:
    engine = Engine(0)
    guest = house.guest(engine)
    engine.places = 1
    house.line.soon()
    house.line.ask()
    assert guest.served_by is engine
    later = house.guest(engine)
    await asyncio.sleep(0)
    assert later.served_by is None
    house.line.close()


@pytest.mark.parametrize("ends_badly", [False, True])
async def test_a_fault_in_one_request_keeps_nobody_else_waiting_and_is_told_once(
    house: House, caplog: pytest.LogCaptureFixture, ends_badly: bool
) -> None:
    engine = Engine(1)
    broken, behind = house.guest(engine), house.guest(engine)
    broken.fault = KeyError("a fault of ours")
    if ends_badly:
        broken.fail = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    house.line.ask()
    assert broken.failed is not ends_badly
    assert behind.served_by is engine
    assert [how for how, _ in house.watcher.waits] == [Waited.REFUSED, Waited.SERVED]
    house.line.ask()
    assert [record.exc_info is not None for record in caplog.records] == [True] * (1 + ends_badly)
    house.line.close()


@pytest.mark.slow
async def test_a_fault_in_telling_one_that_it_is_late_leaves_the_others_their_tick(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(0)
    broken, other = house.guest(engine), house.guest(engine)
    broken.fault = KeyError("a fault of ours")
    house.now_s = 10.0
    last = house.guest(engine, lane="later")
    async with asyncio.timeout(10):
        while not other.was_late:  # noqa: ASYNC110  # the tick tells nobody
            await asyncio.sleep(0.01)
        engine.places = 1
        while last.served_by is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert (broken.was_late, broken.failed) == (True, True)
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_one_who_left_is_never_served(house: House) -> None:
    engine = Engine(0)
    first, second = house.guest(engine), house.guest(engine)
    engine.places = 1
    house.line.soon()
    house.line.leave(first)
    await asyncio.sleep(0)
    assert (first.served_by, second.served_by) == (None, engine)
    assert [how for how, _ in house.watcher.waits] == [Waited.LEFT, Waited.SERVED]
    house.line.close()


async def test_where_nobody_waits_nothing_is_done(house: House) -> None:
    house.line.soon()
    assert not house.line.due
    house.line.close()


@pytest.mark.slow
async def test_room_that_nobody_told_of_is_found_and_who_waited_too_long_hears_so(house: House) -> None:
    engine, never = Engine(0), Engine(0)
    guest, late = house.guest(engine), house.guest(never, lane="another")
    engine.places = 1
    house.now_s = 9.0
    async with asyncio.timeout(10):
        while guest.served_by is None:  # noqa: ASYNC110  # the tick tells nobody
            await asyncio.sleep(0.01)
        house.now_s = 10.0
        while not late.was_late:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert [how for how, _ in house.watcher.waits] == [Waited.SERVED, Waited.EXPIRED]
    assert house.watcher.queued == 0


@pytest.mark.parametrize("seed", range(30))
async def test_no_place_is_taken_twice_and_none_stays_free_while_one_waits_who_could_use_it(seed: int) -> None:
    """Random arrivals, ends and departures; what is freed is always told, so the tick is never needed."""
    chance = random.Random(seed)  # noqa: S311  # repeatable
    house = House(queue_max=20)
    engines = [Engine(chance.randint(1, 3)) for _ in range(2)]
    lanes = {"a": (engines[0],), "b": (engines[1],), "both": tuple(engines)}
    waiting: dict[str, deque[Guest]] = {lane: deque() for lane in lanes}
    for _ in range(200):
        what = chance.random()
        lane = chance.choice(list(lanes))
        if what < 0.5:
            if house.line.due:
                house.line.ask()
            guest = Guest(lanes[lane])
            if guest.try_place() is None and house.line.wait(guest, lane, 1):
                waiting[lane].append(guest)
        elif what < 0.8 and (busy := [engine for engine in engines if engine.taken]):
            chance.choice(busy).taken -= 1
            house.line.soon()
        elif what < 0.9 and (still := [guest for guest in waiting[lane] if guest.served_by is None]):
            leaver = chance.choice(still)
            waiting[lane].remove(leaver)
            house.line.leave(leaver)
        if chance.random() < 0.5:
            await asyncio.sleep(0)
        for queue in waiting.values():
            served = [guest.served_by is not None for guest in queue]
            assert served == sorted(served, reverse=True)  # within a lane, first come first served
            while queue and queue[0].served_by is not None:
                queue.popleft()
        if not house.line.due:
            assert not any(engine.free for lane, queue in waiting.items() if queue for engine in lanes[lane])
        assert house.watcher.queued == sum(map(len, waiting.values()))
    house.line.close()
