"""B37 and B51: nothing on the way collects a stream or lets it wait; what the engine has written is out at once."""

import asyncio
import statistics
import time

import pytest

from tests.field.client import body, request
from tests.field.router import total
from tests.field.scripts import SSE_TYPE, Link, streams
from tests.field.stage import IN_FLIGHT, SPEC, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE = b"data: [DONE]\n\n"
EVENTS = [*(b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % number for number in range(40)), DONE]


async def test_b37_the_head_is_out_before_the_first_event(stage: Stage) -> None:
    first = asyncio.Event()

    async def script(link: Link) -> None:
        await link.head()
        await first.wait()
        await link.chunk(DONE)
        await link.end()

    stage.script(script)
    async with await stage.client() as client:
        await client.send(request(body(stream=True)), "POST")
        reply = await client.head()
        assert (reply.status, reply.body) == (200, b"")
        assert (reply["X-Accel-Buffering"], reply["Cache-Control"]) == ("no", "no-cache")
        first.set()
        assert (await client.end()).body == DONE


async def test_b37_headers_against_buffering_are_not_doubled_and_only_for_streams(stage: Stage) -> None:
    own = [*SSE_TYPE, ("Cache-Control", "no-store"), ("x-accel-buffering", "no")]
    stage.script(streams([DONE], own))
    reply = await stage.ask(body(stream=True))
    assert (reply["Cache-Control"], reply["X-Accel-Buffering"]) == ("no-store", "no")
    stage.clear()
    assert (await stage.ask(body())).values("X-Accel-Buffering") == []


async def test_b37_each_event_is_out_before_the_next_is_written(stage: Stage) -> None:
    """No clock needed: the engine writes the next event only when the client has the last one."""
    turn = asyncio.Event()

    async def script(link: Link) -> None:
        await link.head()
        for piece in EVENTS:
            await turn.wait()
            turn.clear()
            await link.chunk(piece)
        await link.end()

    stage.script(script)
    async with await stage.client() as client:
        await client.send(request(body(stream=True)), "POST")
        for count in range(1, len(EVENTS) + 1):
            turn.set()
            await client.has(b"".join(EVENTS[:count]))
        assert (await client.end()).complete


@pytest.mark.slow
@pytest.mark.parametrize(("gap_s", "count"), [(0.1, 20), (0.01, 150)], ids=["slow events", "fast events"])
async def test_b37_events_arrive_within_20_ms(stage: Stage, gap_s: float, count: int) -> None:
    """The median, so that a pause of the machine is no failure; at 10 ms gaps Nagle's algorithm would show as 40 ms."""
    stamps: list[tuple[float, int]] = []
    piece = b"data: " + b"x" * 239 + b"\n\n"

    async def script(link: Link) -> None:
        await link.head()
        for number in range(count):
            stamps.append((time.monotonic(), (number + 1) * len(piece)))
            await link.chunk(piece)
            await asyncio.sleep(gap_s)  # the case: events that come one by one
        await link.end()

    stage.script(script)
    reply = await stage.ask(body(stream=True))
    delays = [reply.when(size) - sent_s for sent_s, size in stamps]
    assert statistics.median(delays) < 0.02


@pytest.mark.slow
async def test_b51_six_hundred_streams_reach_one_engine_at_once(stage: Stage) -> None:
    count = 600
    finish = asyncio.Event()

    async def script(link: Link) -> None:
        await link.head()
        await link.chunk(EVENTS[0])
        await finish.wait()
        await link.chunk(DONE)
        await link.end()

    stage.script(script)
    asks = [asyncio.create_task(stage.ask(body(stream=True))) for _ in range(count)]
    await stage.spec.busy(count)
    assert total(await stage.router.samples(), IN_FLIGHT, pool=SPEC) == count
    asked_s = time.monotonic()
    assert (await stage.router.get("/health")).status == 200
    assert time.monotonic() - asked_s < 1
    finish.set()
    replies = await asyncio.gather(*asks)
    assert {(reply.body, reply.complete) for reply in replies} == {(EVENTS[0] + DONE, True)}
    await stage.idle()
