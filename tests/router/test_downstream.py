"""The listening side, over real sockets: order, framing, departures, slowness, and how it closes."""

import asyncio
import gc
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Callable

import pytest

from breakeven.downstream import Connection
from breakeven.headers import error_lines
from breakeven.recent_heads import RecentHeads
from breakeven.request_reader import BadRequest, Limits, Request

GET = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n"


class Handler:
    """Keeps what comes until the test answers it; hears departures and slowness."""

    def __init__(self) -> None:
        self.incoming: asyncio.Queue[tuple[Request | BadRequest, Connection]] = asyncio.Queue()
        self.gone: asyncio.Queue[None] = asyncio.Queue()
        self.slow = asyncio.Event()
        self.reading = asyncio.Event()
        self.expired = asyncio.Event()
        self.when_asked: Callable[[Connection], None] | None = None

    def on_request(self, request: Request, client: Connection) -> None:
        client.attach(self)
        if self.when_asked is not None:
            self.when_asked(client)
        self.incoming.put_nowait((request, client))

    def on_bad_request(self, bad: BadRequest, client: Connection) -> None:
        self.incoming.put_nowait((bad, client))
        client.respond(bad.error.status, error_lines(bad.error), bad.error.body())

    def on_client_gone(self) -> None:
        self.gone.put_nowait(None)

    def on_client_slow(self) -> None:
        self.slow.set()

    def on_client_reading(self) -> None:
        self.reading.set()

    def on_expired(self) -> None:
        self.expired.set()


class Watched(Connection):
    """A connection whose end can be seen."""

    __slots__ = ("__weakref__",)


async def until(condition: Callable[[], object]) -> None:
    """Turn the loop until it holds; pytest's own time-out ends a wait in vain."""
    while not condition():  # noqa: ASYNC110  # nobody tells a test that an object is gone
        await asyncio.sleep(0.001)


class Listening:
    """A listening socket whose connections the handler serves."""

    def __init__(self) -> None:
        self.handler = Handler()
        self.connections: set[Connection] = set()
        self.limits = Limits(header_bytes_max=2048, body_bytes_max=100_000, header_timeout_s=5, body_timeout_s=5)
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    def connection(self) -> Connection:
        return Watched(self.handler, self.limits, self.connections, asyncio.get_running_loop().time, RecentHeads())

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def asked(self) -> tuple[Request, Connection]:
        incoming, client = await self.handler.incoming.get()
        assert isinstance(incoming, Request)
        return incoming, client


@pytest.fixture
async def listening() -> AsyncIterator[Listening]:
    listening = Listening()
    server = await asyncio.get_running_loop().create_server(listening.connection, "127.0.0.1", 0)
    listening.port = server.sockets[0].getsockname()[1]
    yield listening
    server.close()
    for connection in list(listening.connections):
        connection.cut()
    for writer in listening.writers:
        writer.transport.abort()
    await asyncio.sleep(0)


async def head_and_body(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """One sized response."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    return head, await reader.readexactly(length)


# -- failures


async def test_garbage_is_answered_with_an_error_and_the_connection_closes(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"GARBAGE\r\n\r\n")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"connection: close\r\n" in answer


async def test_a_client_that_goes_on_sending_too_much_still_reads_why_it_was_refused(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\n")
    writer.write(b"x" * 5_000_000)
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
    assert b'"request_too_large"' in answer


async def test_a_head_that_takes_too_long_is_refused_however_often_it_twitches(listening: Listening) -> None:
    listening.limits = Limits(header_timeout_s=0.05, body_timeout_s=60)
    reader, writer = await listening.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nX: ")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")


async def test_a_body_that_stops_coming_is_refused(listening: Listening) -> None:
    listening.limits = Limits(header_timeout_s=0.02, body_timeout_s=0.06)
    reader, writer = await listening.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    writer.close()


@pytest.mark.parametrize("how", ["fin", "rst", "half-close"])
async def test_a_departure_is_heard_at_once_while_an_answer_is_awaited(listening: Listening, how: str) -> None:
    _, writer = await listening.connect()
    writer.write(GET)
    await listening.asked()
    if how == "rst":
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    elif how == "fin":
        writer.close()
    else:
        writer.write_eof()
    await listening.handler.gone.get()


async def test_a_departure_is_heard_once_and_ends_what_was_pipelined(listening: Listening) -> None:
    _, writer = await listening.connect()
    writer.write(GET + GET)
    _, client = await listening.asked()
    writer.transport.abort()
    # Reading pauses while a second request waits, so a reset is noticed when something is written.
    while listening.handler.gone.empty():
        client.write(b"x")
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert listening.handler.gone.qsize() == 1
    assert listening.handler.incoming.empty()
    assert not listening.connections


async def test_a_client_that_leaves_inside_its_request_bothers_nobody(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\nhalf")
    writer.write_eof()
    assert await reader.read() == b""
    assert listening.handler.incoming.empty()


async def test_a_cut_answer_is_seen_to_be_cut(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", 10)
    client.write(b"half")
    client.cut()
    assert (await reader.read()).endswith(b"\r\n\r\nhalf")


# -- answers


async def test_who_answers_hears_of_an_aborted_connection_as_of_a_departure(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    assert client.is_answered_by(listening.handler)
    client.abort()
    await listening.handler.gone.get()
    assert await reader.read() == b""
    assert not client.is_answered_by(listening.handler)
    client.abort()  # nobody is there any more


async def test_a_whole_answer_leaves_the_connection_open_for_the_next_request(listening: Listening) -> None:
    reader, writer = await listening.connect()
    for _ in range(3):
        writer.write(GET)
        request, client = await listening.asked()
        client.respond(200, b"x-a: b\r\n", b"body")
        head, body = await head_and_body(reader)
        assert request.path == "/a"
        assert head == b"HTTP/1.1 200 OK\r\nx-a: b\r\ncontent-length: 4\r\n\r\n"
        assert body == b"body"


async def test_pipelined_requests_are_answered_one_after_the_other(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"".join(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number for number in range(5)))
    for number in range(5):
        request, client = await listening.asked()
        assert listening.handler.incoming.empty()
        client.respond(200, b"", request.target)
        assert (await head_and_body(reader))[1] == b"/%d" % number


async def test_thousands_of_pipelined_requests_do_not_deepen_the_stack(listening: Listening) -> None:
    listening.handler.when_asked = lambda client: client.respond(204, b"", b"")
    reader, writer = await listening.connect()
    writer.write(GET * 3000)
    for _ in range(3000):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize("piece", [b"x", b"y" * 16_384, b"z" * 40_000], ids=len)
async def test_an_answer_of_unknown_length_is_chunked(listening: Listening, piece: bytes) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", None)
    client.write(piece)
    client.finish(b"end")
    assert b"transfer-encoding: chunked\r\n" in await reader.readuntil(b"\r\n\r\n")
    expected = b"%x\r\n%b\r\n3\r\nend\r\n0\r\n\r\n" % (len(piece), piece)
    assert await reader.readexactly(len(expected)) == expected


async def test_a_chunk_goes_on_as_it_came(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", None)
    client.write(b"abc", b"framed")
    client.finish()
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.readuntil(b"0\r\n\r\n") == b"framed0\r\n\r\n"


class Wire(asyncio.Transport):
    """A transport that keeps each write apart."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.written.append(b"closed")


def answering(request: bytes = GET) -> tuple[Connection, Wire]:
    """A connection whose request is being answered, and what is written on it from now on."""
    handler, wire = Handler(), Wire()
    limits = Limits(header_bytes_max=2048, body_bytes_max=100_000, header_timeout_s=5, body_timeout_s=5)
    client = Connection(handler, limits, set(), lambda: 0.0, RecentHeads())
    client.connection_made(wire)
    client.data_received(request)
    client.start(200, b"OK", b"", None)
    wire.written.clear()
    return client, wire


@pytest.mark.parametrize("framed", [None, b"3\r\nabc\r\n"])
async def test_the_last_piece_and_the_end_are_one_write(framed: bytes | None) -> None:
    client, wire = answering()
    client.write(b"first")
    client.hold(b"abc", framed)
    client.finish(b"d")
    assert wire.written == [b"5\r\nfirst\r\n", b"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"]


async def test_a_piece_that_was_held_goes_out_before_anything_else() -> None:
    large = b"x" * 40_000
    client, wire = answering()
    client.hold(b"abc")
    client.hold(large)
    assert wire.written[0] == b"3\r\nabc\r\n"
    client, wire = answering()
    client.hold(b"abc")
    client.cut()
    assert wire.written == [b"3\r\nabc\r\n", b"closed"]


async def test_without_chunks_nothing_is_held() -> None:
    client, wire = answering(GET.replace(b"1.1", b"1.0"))
    client.hold(b"abc")
    client.finish()
    assert wire.written == [b"abc", b"closed"]


async def test_a_client_that_knows_no_chunks_gets_none(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    _, client = await listening.asked()
    client.start(200, b"OK", b"", None)
    client.write(b"abc", b"3\r\nabc\r\n")
    client.finish()
    assert (await reader.read()).endswith(b"\r\n\r\nabc")


@pytest.mark.parametrize("line", [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"])
async def test_for_http_1_0_an_unknown_length_ends_with_the_connection(listening: Listening, line: bytes) -> None:
    reader, writer = await listening.connect()
    writer.write(line)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", None)
    client.finish(b"all")
    assert await reader.read() == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nall"


async def test_head_is_answered_with_a_length_and_no_body(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    _, client = await listening.asked()
    client.respond(200, b"", b"body")
    assert await reader.read() == b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n"


async def test_no_content_has_neither_length_nor_body(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"OPTIONS / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    _, client = await listening.asked()
    client.respond(204, b"", b"")
    assert await reader.read() == b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"


async def test_a_client_that_waits_for_100_gets_it(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(b"ok")
    request, _ = await listening.asked()
    assert request.body == b"ok"


async def test_a_slow_reader_is_known_and_so_is_its_catching_up(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", None)
    while not listening.handler.slow.is_set():
        client.write(b"x" * 60_000)
        await asyncio.sleep(0)
    drained = asyncio.ensure_future(reader.read(-1))
    await listening.handler.reading.wait()
    client.close_after()
    client.finish()
    await drained


async def test_answers_do_not_pile_up_for_a_client_that_pipelines_and_does_not_read(listening: Listening) -> None:
    written = 0

    def answer(client: Connection) -> None:
        nonlocal written
        written += 1
        client.respond(200, b"", b"x" * 200_000)

    listening.handler.when_asked = answer
    reader, writer = await listening.connect()
    writer.write(GET * 300)
    await listening.handler.slow.wait()
    before = -1
    while before != written:  # as long as it goes on
        before = written
        await asyncio.sleep(0.05)
    assert written < 60  # the kernel's buffers take some megabytes, ours one answer more
    for _ in range(300):
        assert len((await head_and_body(reader))[1]) == 200_000
    assert written == 300


async def test_a_responder_that_comes_while_the_client_is_slow_is_told(listening: Listening) -> None:
    _, writer = await listening.connect()
    writer.write(GET + GET)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", None)
    while not listening.handler.slow.is_set():
        client.write(b"x" * 60_000)
        await asyncio.sleep(0)
    listening.handler.slow.clear()
    client.attach(listening.handler)
    assert listening.handler.slow.is_set()


async def test_a_departure_between_two_pipelined_requests_starts_nothing(listening: Listening) -> None:
    _, writer = await listening.connect()
    writer.write(GET + GET)
    _, client = await listening.asked()
    client.respond(200, b"", b"")
    client.eof_received()
    await asyncio.sleep(0)
    assert listening.handler.incoming.empty()


async def test_a_request_that_waits_behind_slow_answers_is_not_late(listening: Listening) -> None:
    listening.limits = Limits(header_timeout_s=0.03, body_timeout_s=0.03)
    reader, writer = await listening.connect()
    writer.write(GET + GET + b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na")
    _, client = await listening.asked()
    writer.write(b"b")
    for _ in range(2):
        await asyncio.sleep(0.05)  # longer than the limit
        client.respond(200, b"", b"")
        await head_and_body(reader)
        request, client = await listening.asked()
    assert request.body == b"ab"


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_a_departure_is_heard_although_a_second_request_waits(listening: Listening, how: str) -> None:
    _, writer = await listening.connect()
    writer.write(GET)
    await listening.asked()
    writer.write(GET)
    await asyncio.sleep(0.01)  # so that the second request is read before the departure
    if how == "rst":
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    else:
        writer.close()
    await listening.handler.gone.get()


async def test_a_client_that_pipelines_without_end_is_not_read_without_end(listening: Listening) -> None:
    _, writer = await listening.connect()
    writer.write(GET * 200_000)
    _, client = await listening.asked()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.drain(), 0.2)  # nobody reads on: the kernel's buffers are full
    assert len(client._reader.ready) < 20_000


async def test_for_http_1_0_a_cut_answer_ends_with_a_reset(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    _, client = await listening.asked()
    client.start(200, b"OK", b"", None, b"half")
    await reader.readuntil(b"half")
    client.cut()
    with pytest.raises(ConnectionResetError):
        await reader.read()


@pytest.mark.parametrize("how", ["whole", "half", "garbage"])
async def test_a_closed_connection_leaves_nothing_behind(listening: Listening, how: str) -> None:
    _, writer = await listening.connect()
    wire = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000
    writer.write({"whole": wire, "half": wire[:30_000], "garbage": wire + b"GARBAGE\r\n\r\n"}[how])
    await until(lambda: listening.connections)
    gone = weakref.ref(next(iter(listening.connections)))
    if how != "half":
        _, client = await listening.asked()
        client.respond(200, b"", b"")
        del client
    writer.close()
    gc.disable()  # a cycle would keep it; collections are rare in a router
    try:
        await until(lambda: not listening.connections)
        while not listening.handler.incoming.empty():
            listening.handler.incoming.get_nowait()
        await until(lambda: gone() is None)
    finally:
        gc.enable()


# -- closing


async def test_a_connection_that_parts_serves_once_more_and_says_that_this_was_the_last_answer(
    listening: Listening,
) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", 4)
    client.part()
    client.finish(b"body")
    assert b"connection: close" not in (await head_and_body(reader))[0]
    writer.write(GET)
    _, client = await listening.asked()
    client.respond(200, b"", b"")
    head, _ = await head_and_body(reader)
    assert b"\r\nconnection: close\r\n" in head
    assert await reader.read() == b""


async def test_draining_closes_idle_connections_at_once(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.respond(200, b"", b"")
    await head_and_body(reader)
    client.drain()
    assert await reader.read() == b""


async def test_draining_leaves_a_client_that_has_just_come_the_time_to_ask(listening: Listening) -> None:
    reader, writer = await listening.connect()
    await until(lambda: listening.connections)
    (connection,) = listening.connections
    connection.drain()
    writer.write(GET)
    _, client = await listening.asked()
    client.respond(200, b"", b"")
    head, _ = await head_and_body(reader)
    assert b"connection: close" in head
    assert await reader.read() == b""


@pytest.mark.parametrize("first_word_s", [0.0, 0.01])
async def test_draining_closes_a_connection_on_which_nobody_asks(
    listening: Listening, monkeypatch: pytest.MonkeyPatch, first_word_s: float
) -> None:
    monkeypatch.setattr("breakeven.downstream.FIRST_WORD_S", first_word_s)
    reader, _ = await listening.connect()
    await until(lambda: listening.connections)
    (connection,) = listening.connections
    connection.drain()
    assert await reader.read() == b""


async def test_draining_lets_a_running_answer_finish_and_then_closes(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.drain()
    client.respond(200, b"", b"body")
    assert await reader.read() == b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbody"


async def test_draining_after_the_head_went_out_closes_when_the_answer_is_finished(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.start(200, b"OK", b"", 4)
    client.drain()
    client.finish(b"body")
    assert (await reader.read()).endswith(b"\r\n\r\nbody")


async def test_when_the_time_is_over_the_responder_is_told_and_the_socket_closes(listening: Listening) -> None:
    reader, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    client.expire()
    assert listening.handler.expired.is_set()
    assert await reader.read() == b""


async def test_open_connections_are_known(listening: Listening) -> None:
    _, writer = await listening.connect()
    writer.write(GET)
    _, client = await listening.asked()
    assert listening.connections == {client}
    writer.close()
    await listening.handler.gone.get()
