"""A request that waits for a place: what becomes of it, and what is remembered."""

import asyncio
from types import SimpleNamespace

import pytest

from breakeven.admission import Admission
from breakeven.body import Viewed
from breakeven.errors import ApiError, invalid_request, no_backend
from breakeven.queued import Queued
from breakeven.record import RequestRecord, Waited
from breakeven_policies.decision import Reason, Route, Target
from tests.policies.fleets import request
from tests.router.test_admission import Watcher

ROUTE = Route((Target("p", "a"),), Reason.LEAST_LOADED, "least_loaded")


class House:
    """Decides what the test says, and writes down what it is told."""

    def __init__(self, queue_max: int = 2) -> None:
        self.now_s = 1.0
        self.latest_s = 1e9
        self.watcher = Watcher()
        self.line = Admission(queue_max, 10.0, lambda: self.now_s, self.watcher)
        self.decision: Route | ApiError | None = None
        self.told: list[object] = []

    def decide(self, viewed: Viewed, visit: SimpleNamespace) -> Route | None:
        if isinstance(self.decision, ApiError):
            raise self.decision
        return self.decision

    def refuse(self, visit: SimpleNamespace, error: ApiError) -> None:
        self.told.append((error.status, error.code, error.retry_after_s))

    def abandon(self, visit: SimpleNamespace) -> None:
        self.told.append("abandoned")

    def give_up(self, visit: SimpleNamespace, responder: Queued) -> None:
        self.told.append(("given up", responder))

    def request(self, **changes: object) -> tuple[Queued, RequestRecord]:
        record = RequestRecord("id", "chat.completions", 1.0, reason="at_capacity")
        visit = SimpleNamespace(record=record)
        viewed = Viewed(request(**changes), None)
        queued = Queued(self, visit, viewed, self.told.append, lambda: self.now_s)
        queued.wait(self.latest_s, 10)
        return queued, record


@pytest.fixture
async def house() -> House:
    return House()


async def test_where_too_many_wait_it_is_refused_with_a_word_of_its_own() -> None:
    house = House(queue_max=0)
    with pytest.raises(ApiError) as refused:
        house.request()
    assert (refused.value.status, refused.value.code, refused.value.retry_after_s) == (503, "queue_full", 1)


async def test_one_who_has_waited_too_long_hears_so(house: House) -> None:
    queued, record = house.request()
    house.now_s = 11.5
    queued.too_late()
    assert house.told == [(503, "queue_timeout", 1)]
    assert (record.waited_s, record.reason) == (10.5, None)
    house.line.close()


async def test_it_goes_on_its_way_when_there_is_a_route_and_remembers_how_long_it_waited(house: House) -> None:
    _, record = house.request()
    house.line.ask()
    assert house.told == []
    house.decision, house.now_s = ROUTE, 3.0
    house.line.ask()
    assert house.told == [ROUTE]
    assert record.waited_s == 2.0
    assert house.watcher.waits == [(Waited.SERVED, 2.0)]
    house.line.close()


async def test_where_the_last_engine_went_down_meanwhile_it_is_refused_at_once(house: House) -> None:
    house.request()
    house.decision = no_backend("nobody")
    house.line.ask()
    assert house.told == [(503, "no_backend", 1)]
    assert [how for how, _ in house.watcher.waits] == [Waited.REFUSED]
    house.line.close()


async def test_one_that_cannot_be_sent_after_all_is_refused_and_keeps_nobody_waiting(house: House) -> None:
    def refuse(_: Route) -> None:
        raise invalid_request("A request for an alias of a model must be in UTF-8.")

    hopeless, _ = house.request()
    hopeless._go = refuse
    house.request()
    house.decision = ROUTE
    house.line.ask()
    assert house.told == [(400, "invalid_request", None), ROUTE]
    assert [how for how, _ in house.watcher.waits] == [Waited.REFUSED, Waited.SERVED]
    house.line.close()


async def test_a_fault_while_it_is_sent_on_its_way_is_left_to_the_house(house: House) -> None:
    def fail(_: Route) -> None:
        raise KeyError

    hopeless, record = house.request()
    hopeless._go = fail
    house.decision, house.now_s = ROUTE, 3.0
    house.line.ask()
    assert house.told == [("given up", hopeless)]
    assert record.waited_s == 2.0
    assert [how for how, _ in house.watcher.waits] == [Waited.REFUSED]
    house.line.close()


async def test_a_client_that_leaves_frees_its_place_in_the_queue(house: House) -> None:
    queued, record = house.request()
    queued.on_client_slow()
    queued.on_client_reading()
    house.now_s = 2.0
    queued.on_client_gone()
    house.decision = ROUTE
    house.line.ask()
    assert house.told == ["abandoned"]
    assert house.watcher.waits == [(Waited.LEFT, 1.0)]
    assert record.waited_s == 1.0
    house.line.close()


async def test_a_router_that_stops_tells_who_still_waits(house: House) -> None:
    queued, _ = house.request()
    queued.on_expired()
    assert house.told == [(503, "shutting_down", 1)]
    house.line.close()


async def test_requests_that_other_engines_could_serve_do_not_wait_behind_this_one(house: House) -> None:
    asked: list[str | None] = []

    def decide(viewed: Viewed, visit: SimpleNamespace) -> Route | None:
        asked.append((viewed.request.model, viewed.request.needs_plain_sampling))
        return None

    house = House(queue_max=9)
    house.decide = decide
    for changes in ({}, {"min_p": 0.1}, {}, {"model": "n"}, {"min_p": 0.1, "sampled": False}):
        house.request(**changes)
    house.line.ask()
    assert asked == [("m", False), ("m", True), ("n", False)]
    await asyncio.sleep(0)
    house.line.close()
