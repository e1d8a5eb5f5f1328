"""The canned engine: what it says is what a router and an application expect, and its stamps are true."""

import asyncio
import json
import subprocess
import sys
from time import monotonic_ns

import pytest

from breakeven.engines.vllm import read_signals
from breakeven.model_cards import parse_cards
from breakeven_bench.fleets import READY_URL
from breakeven_bench.overhead.canned import Connection
from breakeven_bench.overhead.loads import DOCUMENTS, Load
from tests.bench.overhead.servers import connected, listening

STREAM = Load("stream", connections=1, requests=1, events=3, gap_ms=1)


async def asked(request):
    async with listening(Connection) as port, connected(port) as (reader, writer):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if b"chunked" in head:
            return head, await reader.readuntil(b"\r\n0\r\n\r\n")
        (length,) = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
        return head, await reader.readexactly(int(length.split()[1]))


def get(path):
    return b"GET %b HTTP/1.1\r\nhost: h\r\n\r\n" % path


async def test_a_router_finds_it_well_with_its_model_and_its_load():
    head, _ = await asked(get(b"/health"))
    assert head.startswith(b"HTTP/1.1 200 ")
    _, version = await asked(get(b"/version"))
    assert json.loads(version)["version"]
    _, models = await asked(get(b"/v1/models"))
    assert [card["id"] for card in parse_cards(models)] == ["m"]
    _, metrics = await asked(get(b"/metrics"))
    assert read_signals(metrics.decode()).load == 1.0


async def test_a_request_for_a_document_gets_one_with_its_usage():
    _, body = await asked(DOCUMENTS.request())
    answer = json.loads(body)
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["total_tokens"] == 180


async def test_a_stream_has_the_events_that_were_asked_for_valid_and_stamped_then_usage_and_the_end():
    before = monotonic_ns()
    head, body = await asked(STREAM.request())
    assert b"text/event-stream" in head
    events = [line[6:] for line in body.replace(b"\r\n", b"\n").split(b"\n") if line.startswith(b"data: ")]
    *stamped, finish, usage, done = events
    stamps = [json.loads(event)["at"] for event in stamped]
    assert len(stamps) == 3
    moments = [before, *stamps, monotonic_ns()]
    assert moments == sorted(moments)
    assert json.loads(finish)["choices"][0]["finish_reason"] == "length"
    assert json.loads(usage)["usage"]["completion_tokens"] == 50
    assert done == b"[DONE]"


async def test_a_client_that_leaves_ends_its_stream():
    made = []

    def connection():
        made.append(Connection())
        return made[-1]

    async with listening(connection) as port, connected(port) as (reader, writer):
        writer.write(Load("endless", 1, 1, events=10**6, gap_ms=1).request())
        await reader.readuntil(b'"at":')
        writer.close()
        async with asyncio.timeout(5):
            with pytest.raises(asyncio.CancelledError):
                await made[0]._streaming


@pytest.mark.slow
def test_as_a_program_it_says_where_it_listens():
    argv = [sys.executable, "-m", "breakeven_bench.overhead.canned"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as engine:
        try:
            assert READY_URL.search(engine.stdout.readline())
        finally:
            engine.terminate()
