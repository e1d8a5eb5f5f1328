"""Failover where the other engines have as many requests as they may have."""

import asyncio

import pytest

from breakeven.exchange import Exchange
from breakeven.fleet import ConnectRefused, Drained, Finished, Started
from breakeven.further_attempt import finds_place, has_another
from breakeven.record import Outcome
from breakeven.relay import Relay
from breakeven.upstream import NoConnection
from breakeven_policies.decision import Target
from tests.router.test_relay import Stage


def full(stage: Stage, *names: str) -> None:
    for name in names:
        stage.fleet.apply(Started(name))


def failed(stage: Stage, *names: str) -> Relay:
    """A request that could not be brought to the first of these."""
    relay = stage.start(*names)
    relay.on_connect_failed(NoConnection.UNREACHABLE)
    return relay


@pytest.fixture
async def stage() -> Stage:
    return Stage(in_flight_max=1)


async def test_where_too_many_wait_already_it_is_given_up_at_once() -> None:
    stage = Stage(in_flight_max=1, queue_max=0)
    full(stage, "b")
    failed(stage, "a", "b")
    assert stage.client.told == [("respond", 503)]
    assert [record.outcome for record in stage.reported] == [Outcome.REFUSED]


async def test_it_waits_for_a_place_and_takes_the_first_one(stage: Stage) -> None:
    full(stage, "b")
    failed(stage, "a", "b")
    assert not stage.pools["b"].openings
    stage.fleet.apply(Finished("b"))
    await asyncio.sleep(0)
    assert len(stage.pools["b"].openings) == 1
    assert stage.in_flight() == {"a": 0, "b": 1}
    stage.line.close()


async def test_it_passes_over_a_full_engine_for_one_that_has_room(stage: Stage) -> None:
    exchange = Exchange(tuple(Target("p", name) for name in "ab"))
    assert finds_place(exchange, stage.fleet)
    assert exchange.target.backend == "a"
    full(stage, "a")
    assert finds_place(exchange, stage.fleet)
    assert [target.backend for target in exchange.left] == ["b", "a"]
    full(stage, "b")
    assert not finds_place(exchange, stage.fleet)
    assert exchange.target.backend == "b"


async def test_one_that_is_drained_or_gone_is_not_tried_however_little_is_left(stage: Stage) -> None:
    exchange = Exchange((Target("p", "a"), Target("p", "gone"), Target("p", "b")))
    assert has_another(exchange, stage.fleet)
    assert [target.backend for target in exchange.targets] == ["a", "b"]
    stage.fleet.apply(Drained("b"))
    assert not has_another(exchange, stage.fleet)
    assert not has_another(exchange, stage.fleet)
    assert [target.backend for target in exchange.targets] == ["a"]


async def test_where_all_that_were_left_are_drained_while_it_waits_it_waits_no_more(stage: Stage) -> None:
    full(stage, "b")
    failed(stage, "a", "b")
    stage.fleet.apply(Drained("b"))
    stage.fleet.apply(Finished("b"))
    await asyncio.sleep(0)
    assert not stage.pools["b"].openings
    assert stage.client.told == [("respond", 503)]
    assert stage.outcome is Outcome.REFUSED


async def test_one_that_is_not_ready_any_more_comes_last(stage: Stage) -> None:
    exchange = Exchange(tuple(Target("p", name) for name in "ab"))
    stage.fleet.apply(ConnectRefused("a"))
    assert finds_place(exchange, stage.fleet)
    assert [target.backend for target in exchange.left] == ["b", "a"]
    full(stage, "b")
    assert not finds_place(exchange, stage.fleet)
    stage.fleet.apply(ConnectRefused("b"))
    assert finds_place(exchange, stage.fleet)
    assert exchange.target.backend == "a"


async def test_a_client_that_leaves_while_it_waits_frees_its_place_in_the_queue(stage: Stage) -> None:
    full(stage, "b")
    relay = failed(stage, "a", "b")
    relay.on_client_gone()
    stage.fleet.apply(Finished("b"))
    await asyncio.sleep(0)
    assert not stage.pools["b"].openings
    assert stage.outcome is Outcome.CLIENT_CLOSED
    stage.line.close()


async def test_a_fault_when_there_is_room_closes_the_connection_of_the_client_and_leaves_nothing(stage: Stage) -> None:
    def fail(_: Relay) -> None:
        raise KeyError

    full(stage, "b")
    relay = failed(stage, "a", "b")
    stage.pools["b"].take = fail  # type: ignore[method-assign,assignment]
    stage.fleet.apply(Finished("b"))
    await asyncio.sleep(0)
    assert stage.client.told == ["abort"]
    relay.on_client_gone()  # as the connection does then
    assert stage.outcome is Outcome.CLIENT_CLOSED
    stage.line.close()


@pytest.mark.slow
async def test_where_nothing_becomes_free_in_time_the_client_hears_503(stage: Stage) -> None:
    full(stage, "b")
    failed(stage, "a", "b")
    stage.now_s = 11.0
    async with asyncio.timeout(10):
        while not stage.reported:  # noqa: ASYNC110  # the tick tells nobody
            await asyncio.sleep(0.01)
    assert stage.client.told == [("respond", 503)]
    stage.fleet.apply(Finished("b"))
    assert stage.outcome is Outcome.REFUSED
