"""B34 and B35: a client that leaves, in whatever manner and at whatever moment, takes its upstream request with it."""

import asyncio
import time
from typing import Any

import pytest

from tests.field.client import Client, body, request
from tests.field.scripts import SSE_TYPE, Link, answers, hangs
from tests.field.stage import SPEC, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEAVE_S = 1.0
"""The bound of the case: the engine's socket closes within a second of the departure."""
WAYS = ["fin", "reset", "half_close"]
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'


async def endless(link: Link) -> None:
    """An event every 100 ms, for ever."""
    await link.head()
    while True:
        await link.chunk(EVENT)
        await asyncio.sleep(0.1)


async def head_and_silence(link: Link) -> None:
    """A response head and then nothing."""
    await link.head()
    await link.seen.closed.wait()


async def flood(link: Link) -> None:
    """As much as the connection takes."""
    await link.head()
    while not link.transport.is_closing():
        await link.chunk(b"data: " + b"x" * 60_000 + b"\n\n")
        while link.transport.get_write_buffer_size() and not link.transport.is_closing():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


async def leaves(stage: Stage, client: Client, way: str) -> None:
    """The client leaves; the engine sees it in time, and the request counts as the client's departure."""
    seen = await stage.spec.request()
    left_s = time.monotonic()
    getattr(client, way)()
    assert await seen.left() - left_s < LEAVE_S


async def still_fine(stage: Stage) -> None:
    """Nothing in flight, the engine not blamed, the next request served."""
    await stage.idle()
    assert set((await stage.router.health_of()).values()) == {"ready"}
    stage.script(answers())
    assert (await stage.routed(body()))[0] == SPEC


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_b34_leaving_after_the_fifth_event_closes_the_engine_connection(stage: Stage, way: str) -> None:
    stage.script(endless)
    async with stage.counting("client_closed", pool=SPEC), await stage.client() as client:
        await client.send(request(body(stream=True)), "POST")
        await client.has(EVENT * 5)
        await leaves(stage, client, way)
    await still_fine(stage)


@pytest.mark.parametrize("way", WAYS)
async def test_b34_leaving_after_the_head_closes_the_engine_connection(stage: Stage, way: str) -> None:
    stage.script(head_and_silence)
    async with stage.counting("client_closed", pool=SPEC), await stage.client() as client:
        await client.send(request(body(stream=True)), "POST")
        await client.head()
        await leaves(stage, client, way)
    await still_fine(stage)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fin", "reset"])
async def test_b34_leaving_while_the_stream_is_held_back_closes_the_engine_connection(stage: Stage, way: str) -> None:
    """The client reads nothing until every buffer on the way is full, and then leaves."""
    stage.script(flood)
    async with stage.counting("client_closed", pool=SPEC), await stage.client() as client:
        await client.send(request(body(stream=True)), "POST")
        seen = await stage.spec.request()
        connection = next(each for each in stage.spec.connections if each.seen is seen)
        full = 0
        while full < 10:
            await asyncio.sleep(0.02)
            full = full + 1 if connection.transport.get_write_buffer_size() else 0
        await leaves(stage, client, way)
    await still_fine(stage)


async def test_b34_a_departure_within_a_whole_answer_is_seen(stage: Stage) -> None:
    async def half(link: Link) -> None:
        await link.head(headers=[("Content-Type", "application/json"), ("Content-Length", "1000")], chunked=False)
        await link.raw(b"x" * 500)
        await link.seen.closed.wait()

    stage.script(half)
    async with stage.counting("client_closed", pool=SPEC), await stage.client() as client:
        await client.send(request(body()), "POST")
        await client.has(b"x" * 500)
        await leaves(stage, client, "fin")
    await still_fine(stage)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fields", [{"stream": True}, {"stream": False}, {}], ids=["stream", "no stream", "absent"])
async def test_b35_leaving_before_the_head_closes_the_engine_connection_and_starts_no_retry(
    stage: Stage, way: str, fields: dict[str, Any]
) -> None:
    stage.script(hangs)
    async with stage.counting("client_closed", pool=SPEC), await stage.client() as client:
        await client.send(request(body(**fields)), "POST")
        await leaves(stage, client, way)
    assert len(stage.seen) == 1
    await still_fine(stage)


async def test_b35_an_upload_to_a_gone_client_is_not_begun_again(stage: Stage) -> None:
    """The engine breaks the connection at the moment at which the client leaves: nobody is left to retry for."""

    async def script(link: Link) -> None:
        await gone.wait()
        link.reset()

    gone = asyncio.Event()
    stage.script(script)
    async with await stage.client() as client:
        await client.send(request(body()), "POST")
        await stage.spec.request()
        client.reset()
        await stage.spec.requests[0].left()
        gone.set()
    await stage.idle()
    assert len(stage.seen) == 1


@pytest.mark.slow
async def test_b34_many_departures_leave_no_trace(stage: Stage) -> None:
    stage.script(head_and_silence)
    count = 60

    async def come_and_go(number: int) -> None:
        async with await stage.client() as client:
            await client.send(request(body(stream=True)), "POST")
            if number % 2:
                await client.head()
            else:
                await stage.spec.request(number + 1)
            getattr(client, WAYS[number % 3])()
            await client.hung_up() if WAYS[number % 3] == "half_close" else None

    async with stage.counting("client_closed", times=count):
        await asyncio.gather(*(come_and_go(number) for number in range(count)))
        await stage.spec.busy(0)
    await still_fine(stage)


async def test_b35_an_answer_that_crosses_the_departure_is_no_fault_of_the_engine(stage: Stage) -> None:
    async def late(link: Link) -> None:
        await left.wait()
        await link.head(headers=SSE_TYPE)
        await link.chunk(EVENT)
        await link.end()

    left = asyncio.Event()
    stage.script(late)
    async with await stage.client() as client:
        await client.send(request(body()), "POST")
        await stage.spec.request()
        left.set()
        client.reset()
    await still_fine(stage)


async def test_b34_a_client_that_closes_after_the_whole_answer_is_completed(stage: Stage) -> None:
    async with stage.counting("completed"):
        await stage.ask(body())


@pytest.mark.parametrize("way", WAYS)
async def test_b34_an_idle_connection_may_simply_end(stage: Stage, way: str) -> None:
    async with await stage.client() as client:
        await client.ask(body())
        getattr(client, way)()
        if way == "half_close":
            await client.hung_up()
    await still_fine(stage)
