"""How long a connection may rest: a router that keeps it longer than the engine sends requests into a closed door."""

import asyncio
import json
import re
import time

import pytest

from tests.contract.engine import body
from tests.contract.targets import VLLM
from tests.field.client import request

KEEP_ALIVE_S = 5.0
"""vLLM's `VLLM_HTTP_TIMEOUT_KEEP_ALIVE`."""

LATENESS_S = 3.0
"""A loop that shares a core may look at its timers late."""

HEAD_START_S = 1.0
"""The engine's five seconds begin when it has written the answer, ours when we have read it."""


async def read_answer(reader):
    """The document of one answer, and not a byte behind it: `Client` would throw away what follows."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    (size,) = re.findall(rb"\r\ncontent-length: (\d+)", head)
    return json.loads(await reader.readexactly(int(size)))


@pytest.mark.slow
async def test_a_connection_that_has_served_is_closed_after_five_idle_seconds_and_a_fresh_one_is_not(plain):
    async with await plain.connect() as served, await plain.connect() as fresh:
        assert (await served.ask(body())).complete
        began_s = time.monotonic()
        await served.hung_up()
        idle_s = time.monotonic() - began_s
        assert KEEP_ALIVE_S - HEAD_START_S <= idle_s <= KEEP_ALIVE_S + LATENESS_S
        assert (await fresh.ask(body())).status == 200


async def test_one_connection_serves_several_requests_streams_among_them(plain):
    async with await plain.connect() as client:
        for fields in ({}, {"stream": True}, {"temperature": 9}, {"stream": True}, {}):
            reply = await client.ask(body(**fields))
            assert reply.complete
            assert reply.values("connection") == []


async def test_a_client_may_ask_for_the_end_of_the_connection(plain):
    async with await plain.connect() as client:
        await client.send(
            request(body(), headers=(("Content-Type", "application/json"), ("Connection", "close"))), "POST"
        )
        reply = await client.end()
        assert (reply.complete, reply["connection"]) == (True, "close")
        async with asyncio.timeout(VLLM.patience_s):
            await client.hung_up()


async def test_pipelined_requests_are_answered_in_order(plain):
    async with await plain.connect() as client:
        slow, quick = request(body(max_tokens=3)), request(method="GET", path="/version")
        client.writer.write(slow + quick)
        async with asyncio.timeout(plain.target.patience_s):
            first, second = [await read_answer(client.reader) for _ in range(2)]
    assert (list(second), first["usage"]["completion_tokens"] <= 3) == (["version"], True)
