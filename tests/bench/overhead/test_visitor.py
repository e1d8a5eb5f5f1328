"""The clients count as good only what is whole, and time what the engine stamped."""

import asyncio
from time import monotonic_ns

import pytest

from breakeven_bench.overhead import visitor
from breakeven_bench.overhead.canned import Connection, chunk
from breakeven_bench.overhead.loads import Load
from breakeven_bench.overhead.visitor import visit
from tests.bench.overhead.servers import listening

DOCUMENTS = Load("documents", connections=2, requests=6)
STREAMS = Load("streams", connections=2, requests=4, events=3, gap_ms=1)


def answering(*pieces, close=False):
    """An engine that answers every request with these pieces, each in a write of its own."""

    class Engine(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            self.answering = asyncio.ensure_future(self.answer())

        async def answer(self):
            for piece in pieces:
                self.transport.write(piece() if callable(piece) else piece)
                await asyncio.sleep(0.01)
            if close:
                self.transport.close()

    return Engine


HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
END = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def event(age_ns=0):
    return b'data: {"at":%d}\n\n' % (monotonic_ns() - age_ns)


async def test_whole_answers_are_good_and_every_request_is_sent_once():
    async with listening(Connection) as port:
        for load in (DOCUMENTS, STREAMS):
            seen = await visit(port, load)
            assert (seen.good, seen.failed) == (load.requests, 0)
            assert seen.first_p50_ms > 0
    assert seen.delay_p50_ms >= 0


async def test_documents_have_no_events_to_be_late():
    async with listening(Connection) as port:
        seen = await visit(port, DOCUMENTS)
    assert (seen.delay_p50_ms, seen.delay_p99_ms) == (None, None)


@pytest.mark.parametrize(
    "pieces",
    [
        (b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n",),
        (HEAD, *[lambda: chunk(event())] * 2, END),
        (HEAD, *[lambda: chunk(event())] * 4, END),
        (HEAD, *[lambda: chunk(event())] * 3, b"0\r\n\r\n"),
    ],
    ids=["503", "an event is missing", "an event too many", "no end"],
)
async def test_what_is_not_whole_has_failed(pieces):
    async with listening(answering(*pieces)) as port:
        seen = await visit(port, STREAMS)
    assert (seen.good, seen.failed) == (0, 4)


async def test_a_connection_that_is_lost_fails_what_its_client_had_still_to_ask():
    async with listening(answering(HEAD, lambda: chunk(event()), close=True)) as port:
        seen = await visit(port, STREAMS)
    assert (seen.good, seen.failed) == (0, 4)


async def test_an_answer_that_never_comes_is_given_up(monkeypatch):
    monkeypatch.setattr(visitor, "LIMIT_S", 0.05)
    async with listening(answering()) as port:
        seen = await visit(port, STREAMS)
    assert (seen.good, seen.failed, seen.first_p50_ms) == (0, 4, None)


async def test_an_event_is_as_late_as_its_stamp_says_and_the_oldest_of_a_read_counts():
    late = Load("late", connections=1, requests=1, events=2, gap_ms=1)
    both = lambda: chunk(event(age_ns=5_000_000_000) + event())  # noqa: E731
    async with listening(answering(HEAD, both, END)) as port:
        seen = await visit(port, late)
    assert (seen.good, seen.failed) == (1, 0)
    assert 5000 <= seen.delay_p50_ms < 65_000


async def test_an_event_that_is_cut_by_the_network_is_counted_once():
    cut = Load("cut", connections=1, requests=1, events=1, gap_ms=1)
    whole = chunk(event())
    at = whole.index(b'"at":')
    for where in (at + 2, at + 8, len(whole) - 3):
        async with listening(answering(HEAD, whole[:where], whole[where:], END)) as port:
            seen = await visit(port, cut)
        assert (seen.good, seen.failed) == (1, 0)
