"""Connections to engines, against scripted sockets: what is heard, in which order, and what is kept or closed."""

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncIterator, Callable
from itertools import accumulate, cycle, islice, pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven import upstream
from breakeven.headers import Headers, ResponseHead
from breakeven.upstream import Connection, ConnectionPool, NoConnection, why_none
from tests.router.descriptors import descriptors_left

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Engine:
    """A server whose answers are written by the test; `asked` yields each connection's writer as bytes arrive."""

    def __init__(self) -> None:
        self.connections = 0
        self.closed = 0
        self.asked: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        self.left: asyncio.Queue[None] = asyncio.Queue()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.read(65536):
                self.asked.put_nowait(writer)
        except ConnectionError:
            pass  # a reset is one of the departures that are counted below
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            self.closed += 1
            self.left.put_nowait(None)
            writer.close()


class Ear:
    """A receiver that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.body = b""
        self.framed: list[bytes | None] = []
        self.connection: Connection | None = None
        self.over = asyncio.Event()
        self.connected = asyncio.Event()
        self.head = asyncio.Event()
        self.when_headed: Callable[[], None] = lambda: None

    def on_connected(self, connection: Connection) -> None:
        self.connection = connection
        self.connected.set()
        connection.send(b"ask", b"")

    def on_connect_failed(self, why: NoConnection) -> None:
        self.heard.append(why)
        self.over.set()

    def on_head(self, head: ResponseHead, body: bytes) -> None:
        self.heard.append(head.status)
        self.response = head
        self.body += body
        self.head.set()
        self.when_headed()

    def on_body(self, data: bytes, framed: bytes | None = None, *, last: bool = False) -> None:
        self.heard.append("body")
        self.body += data
        self.framed.append(framed)

    def on_end(self) -> None:
        self.heard.append("end")
        self.over.set()

    def on_lost(self, *, stale: bool) -> None:
        self.heard.append(("lost", stale))
        self.over.set()


class Clock:
    """Moves when told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0)
    engine.port = server.sockets[0].getsockname()[1]
    yield engine
    server.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool(engine: Engine, clock: Clock) -> ConnectionPool:
    return ConnectionPool("127.0.0.1", engine.port, tls=None, connect_timeout_s=5, keepalive_s=4.0, now=clock)


async def ask(pool: ConnectionPool, engine: Engine) -> tuple[Ear, asyncio.StreamWriter]:
    """Ask over an idle connection if there is one, else over a new one; the ear and the engine's side of the socket."""
    ear = Ear()
    connection = pool.take(ear)
    if connection is None:
        pool.open(ear)
        await ear.connected.wait()
    else:
        ear.on_connected(connection)
    return ear, await engine.asked.get()


async def answered(pool: ConnectionPool, engine: Engine, answer: bytes) -> Ear:
    """Ask, answer with these bytes, wait until the ear has heard how it ended."""
    ear, writer = await ask(pool, engine)
    writer.write(answer)
    await ear.over.wait()
    return ear


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST instead of FIN."""
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def test_a_port_where_nothing_listens_refuses() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        pool = ConnectionPool(
            "127.0.0.1", bound.getsockname()[1], tls=None, connect_timeout_s=5, keepalive_s=4, now=Clock()
        )
        ear = Ear()
        pool.open(ear)
        await ear.over.wait()
    assert ear.heard == [NoConnection.REFUSED]


async def test_a_host_that_does_not_exist_fails_without_being_a_refusal() -> None:
    ear = Ear()
    ConnectionPool("nowhere.invalid", 1, tls=None, connect_timeout_s=5, keepalive_s=4, now=Clock()).open(ear)
    await ear.over.wait()
    assert ear.heard == [NoConnection.UNREACHABLE]


async def test_a_want_of_descriptors_is_ours_and_no_refusal(engine: Engine) -> None:
    told: list[OSError] = []
    pool = ConnectionPool(
        "127.0.0.1", engine.port, tls=None, connect_timeout_s=5, keepalive_s=4, now=Clock(), on_shortage=told.append
    )
    ear = Ear()
    with descriptors_left(0):
        pool.open(ear)
        await ear.over.wait()
    assert ear.heard == [NoConnection.SHORTAGE]
    assert [error.errno for error in told] == [errno.EMFILE]


async def test_a_connection_that_does_not_come_about_in_time_fails() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        fillers = []
        for _ in range(4):  # Linux accepts one more than the backlog; then SYNs are dropped
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        ear = Ear()
        pool = ConnectionPool(*address, tls=None, connect_timeout_s=0.05, keepalive_s=4, now=Clock())
        pool.open(ear)
        (connecting,) = asyncio.all_tasks() - {asyncio.current_task()}
        await ear.over.wait()
        await asyncio.wait([connecting])
        for filler in fillers:
            filler.close()
    assert ear.heard == [NoConnection.UNREACHABLE]
    assert connecting.cancelled()


async def test_giving_up_while_connecting_leaves_nobody_to_tell(pool: ConnectionPool, engine: Engine) -> None:
    ear = Ear()
    pool.open(ear).drop()
    await answered(pool, engine, OK)
    assert ear.heard == []
    assert not ear.connected.is_set()


async def test_giving_up_ends_the_connecting(pool: ConnectionPool) -> None:
    opening = pool.open(Ear())
    (connecting,) = asyncio.all_tasks() - {asyncio.current_task()}
    opening.drop()
    opening.drop()
    await asyncio.wait([connecting])
    assert connecting.cancelled()


async def test_the_time_to_connect_does_not_run_on_once_connected(engine: Engine) -> None:
    pool = ConnectionPool("127.0.0.1", engine.port, tls=None, connect_timeout_s=0.05, keepalive_s=4, now=Clock())
    ear, writer = await ask(pool, engine)
    late = asyncio.Event()
    asyncio.get_running_loop().call_later(0.06, late.set)
    await late.wait()
    writer.write(OK)
    await ear.over.wait()
    assert ear.heard == [200, "end"]


async def test_a_sized_answer_is_heard_and_its_connection_serves_the_next(pool: ConnectionPool, engine: Engine) -> None:
    first = await answered(pool, engine, OK)
    assert first.heard == [200, "end"]
    assert first.body == b"ok"
    second = await answered(pool, engine, OK)
    assert second.body == b"ok"
    assert engine.connections == 1


@pytest.mark.parametrize("cut", [1, 3, 10])
async def test_a_chunked_answer_is_heard_without_its_framing_however_it_is_cut(
    pool: ConnectionPool, engine: Engine, cut: int
) -> None:
    wire = (
        b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nX-A: B\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nX-T: 1\r\n\r\n"
    )
    ear, writer = await ask(pool, engine)
    for at in range(0, len(wire), cut):
        writer.write(wire[at : at + cut])
        await writer.drain()
    await ear.over.wait()
    assert ear.body == b"abc"
    assert ear.response == ResponseHead(
        200, b"Fine", Headers([(b"transfer-encoding", b"chunked"), (b"x-a", b"B")]), None, until_close=False
    )
    assert ear.heard[-1] == "end"


class Wire:
    """A transport on which nothing is written."""

    def is_closing(self) -> bool:
        return True  # an answer that has ended is not kept, for which a loop would be needed

    def abort(self) -> None:
        """Closed."""

    def close(self) -> None:
        """Closed."""


def connected() -> tuple[Connection, Ear]:
    """A connection on which somebody waits for an answer."""
    connection = Connection(ConnectionPool("h", 1, tls=None, connect_timeout_s=5, keepalive_s=4, now=Clock()))
    connection.connection_made(cast("asyncio.Transport", Wire()))
    connection.receiver = ear = Ear()
    return connection, ear


def streaming() -> tuple[Connection, Ear]:
    """A connection on which the head of a chunked answer has come."""
    connection, ear = connected()
    connection.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    return connection, ear


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-a: b\r\n\r\n"


def streaming_again(head: bytes = STREAM_HEAD) -> tuple[Connection, Ear]:
    """A connection to an engine of which a chunked answer with this head came before."""
    first, _ = connected()
    first.data_received(head + b"1\r\na\r\n")
    connection = Connection(first._pool)
    connection.connection_made(cast("asyncio.Transport", Wire()))
    connection.receiver = ear = Ear()
    return connection, ear


def parses(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What any connection gives to its parser from now on."""
    parsed: list[bytes] = []
    parse = Connection._parse

    def noted(self: Connection, data: bytes, receiver: upstream.Receiver) -> None:
        parsed.append(data)
        parse(self, data, receiver)

    monkeypatch.setattr(Connection, "_parse", noted)
    return parsed


@pytest.mark.parametrize(
    "reads",
    [
        [STREAM_HEAD, b"2\r\nab\r\n", b"3\r\ncde\r\n", b"0\r\n\r\n"],
        [STREAM_HEAD + b"2\r\nab\r\n", b"3\r\ncde\r\n0\r\n\r\n"],
    ],
    ids=["one by one", "with its neighbours"],
)
def test_a_stream_whose_head_came_before_needs_no_parser(reads: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    connection, ear = streaming_again()
    parsed = parses(monkeypatch)
    for read in reads:
        connection.data_received(read)
    assert (ear.body, ear.heard[0], ear.heard[-1], parsed) == (b"abcde", 200, "end", [])
    assert ear.response.headers.pairs == [(b"transfer-encoding", b"chunked"), (b"x-a", b"b")]


@pytest.mark.parametrize(
    "head",
    [
        STREAM_HEAD.replace(b"x-a: b", b"connection: close"),
        STREAM_HEAD.replace(b"HTTP/1.1", b"HTTP/1.0"),
        STREAM_HEAD.replace(b"chunked", b"gzip, chunked"),
        STREAM_HEAD.replace(b"200 OK", b"204 OK"),
        b"HTTP/1.1 103 Early\r\n\r\n" + STREAM_HEAD,
        b"HTTP/1.1 200 OK\r\nx-a: b\r\n\r\n",
    ],
    ids=["closes", "1.0", "packed", "without a body", "informational first", "until close"],
)
def test_a_head_after_which_framing_or_reuse_differ_is_parsed_each_time(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, _ = streaming_again(head)
    parsed = parses(monkeypatch)
    connection.data_received(head + b"1\r\na\r\n")
    assert len(parsed) == 1


def test_a_read_of_one_chunk_is_told_with_its_framing_once_a_parser_has_seen_the_end_of_one() -> None:
    connection, ear = streaming()
    reads = [b"2\r\nab\r\n", b"3\r\ncde\r\n", b"1\r\nf\r\n1\r\ng\r\n", b"2\r\nh", b"i\r\n", b"1\r\nj\r\n"]
    for read in reads:
        connection.data_received(read)
    assert ear.body == b"abcdefghij"
    assert ear.framed == [None, reads[1], None, None, None, reads[5]]


@pytest.mark.parametrize(
    ("reads", "body"),
    [
        ([b"1\r\na\r\n", b"10\r\n", b"2\r\nab\r\n", b"4\r\nabcd\r\n\r\n"], b"a2\r\nab\r\n4\r\nabcd\r\n"),
        ([b"1\r\na\r\n10\r\nab\r\n", b"2\r\ncd\r\n", b"yyyyy\r\n"], b"aab\r\n2\r\ncd\r\nyyyyy"),
        ([b"1\r\na\r\n1", b"1\r\na\r\nb\r\nxxxxxxxxxxx\r\n"], b"aa\r\nb\r\nxxxxxxxxxxx"),
    ],
    ids=["inside a chunk", "inside one that began behind another", "behind the beginning of a size"],
)
def test_what_looks_like_a_chunk_where_none_begins_is_body(reads: list[bytes], body: bytes) -> None:
    connection, ear = streaming()
    for read in [*reads, b"1\r\nz\r\n"]:
        connection.data_received(read)
    assert ear.body == body + b"z"


chunks = st.sampled_from(
    [
        b"1\r\na\r\n", b"2\r\n\r\n\r\n", b"6\r\n1\r\nx\r\n\r\n", b"5\r\n0\r\n\r\n\r\n",
        b"14\r\n" + b"event" * 4 + b"\r\n", b"AA\r\n" + b"x" * 170 + b"\r\n", b"12c\r\n" + b"y" * 300 + b"\r\n",
        b"003\r\nabc\r\n", b"3;a=b\r\nabc\r\n",
    ]
)  # fmt: skip
lasts = st.sampled_from([b"", b"0\r\n\r\n", b"0\r\nx-trailer: 1\r\n\r\n", b"0;a\r\n\r\n", b"garbage\r\n", b"3\r\nab"])


def heard(reads: list[bytes], begin: Callable[[], tuple[Connection, Ear]] = streaming) -> tuple[list[object], bytes]:
    """What a receiver hears of a chunked answer in these reads, but for the number of pieces, and its body."""
    connection, ear = begin()
    for read in reads:
        if connection.receiver is not None:
            connection.data_received(read)
    return [word for word in ear.heard if word != "body"], ear.body


def cut_up(wire: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *accumulate(islice(cycle(cuts), len(wire)))]
    return [wire[start:end] for start, end in pairwise(edges) if start < len(wire)]


@given(st.lists(chunks, max_size=6).map(b"".join), lasts, st.lists(st.integers(1, 40), min_size=1, max_size=10))
def test_an_answer_in_chunks_is_heard_as_a_parser_alone_hears_it_however_it_is_cut(
    wire: bytes, last: bytes, cuts: list[int]
) -> None:
    reads = cut_up(wire + last, cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upstream, "whole_chunk", lambda _: None)
        alone = heard(reads)
    assert heard(reads) == alone


@given(
    st.lists(st.lists(chunks, max_size=3).map(b"".join), max_size=6),
    lasts,
    st.none() | st.lists(st.integers(1, 60), min_size=1, max_size=10),
)
def test_a_stream_whose_head_came_before_is_heard_as_a_parser_hears_it(
    pieces: list[bytes], last: bytes, cuts: list[int] | None
) -> None:
    reads = [STREAM_HEAD, *pieces, last] if cuts is None else cut_up(STREAM_HEAD + b"".join(pieces) + last, cuts)
    for again in (reads, [b"".join(reads[:2]), *reads[2:]]):
        assert heard(again, streaming_again) == heard(again, connected)


async def test_after_a_stream_whose_head_came_before_the_connection_serves_any_other(
    pool: ConnectionPool, engine: Engine
) -> None:
    stream = STREAM_HEAD + b"2\r\nab\r\n"
    tails = (
        b"0\r\n\r\n",
        b"1\r\nc\r\n0\r\n\r\n",
        b"1\r\nc\r\n0\r\nx-t: 1\r\n\r\n",
        b"1;odd\r\nd\r\n0\r\n\r\n",
        b"0\r\n\r\n",
    )
    bodies = []
    for tail in tails:
        ear, writer = await ask(pool, engine)
        writer.write(stream)
        await ear.head.wait()
        writer.write(tail)
        await ear.over.wait()
        bodies.append(ear.body)
        bodies.append((await answered(pool, engine, OK)).body)
    assert bodies == [b"ab", b"ok", b"abc", b"ok", b"abc", b"ok", b"abd", b"ok", b"ab", b"ok"]
    assert engine.connections == 1


async def test_a_body_without_a_length_ends_with_the_connection(pool: ConnectionPool, engine: Engine) -> None:
    ear, writer = await ask(pool, engine)
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    writer.write_eof()
    await ear.over.wait()
    assert (ear.body, ear.heard[-1]) == (b"all of it", "end")
    assert pool.take(Ear()) is None


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_a_body_ends_with_its_head(pool: ConnectionPool, engine: Engine, status: int) -> None:
    assert (await answered(pool, engine, b"HTTP/1.1 %d X\r\n\r\n" % status)).heard == [status, "end"]


async def test_informational_answers_are_passed_over(pool: ConnectionPool, engine: Engine) -> None:
    ear = await answered(pool, engine, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + OK)
    assert ear.heard == [200, "end"]
    assert (ear.response.headers.pairs, ear.response.body_bytes) == ([], 2)


@pytest.mark.parametrize(
    "answer",
    [b"no http\r\n\r\n", b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n", b"x" * 300_000],
    ids=["garbage", "upgrade", "no end of the head"],
)
async def test_what_is_not_an_answer_counts_as_lost(pool: ConnectionPool, engine: Engine, answer: bytes) -> None:
    assert (await answered(pool, engine, answer)).heard == [("lost", False)]


async def test_a_head_without_an_end_is_given_up_at_its_bound(pool: ConnectionPool, engine: Engine) -> None:
    ear = await answered(pool, engine, b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000)
    assert ear.heard == [("lost", False)]


@pytest.mark.parametrize("how", ["fin", "rst"])
async def test_an_engine_that_leaves_inside_a_body_is_lost(pool: ConnectionPool, engine: Engine, how: str) -> None:
    ear, writer = await ask(pool, engine)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    await ear.head.wait()
    reset(writer) if how == "rst" else writer.close()
    await ear.over.wait()
    assert ear.heard[-1] == ("lost", False)


async def test_a_reused_connection_that_breaks_before_any_byte_is_stale(pool: ConnectionPool, engine: Engine) -> None:
    await answered(pool, engine, OK)
    ear, writer = await ask(pool, engine)
    assert engine.connections == 1
    writer.close()
    await ear.over.wait()
    assert ear.heard == [("lost", True)]


async def test_a_fresh_connection_that_breaks_is_not_stale(pool: ConnectionPool, engine: Engine) -> None:
    ear, writer = await ask(pool, engine)
    writer.close()
    await ear.over.wait()
    assert ear.heard == [("lost", False)]


async def test_a_reused_connection_that_breaks_inside_its_head_is_not_stale(
    pool: ConnectionPool, engine: Engine
) -> None:
    await answered(pool, engine, OK)
    ear, writer = await ask(pool, engine)
    writer.write(b"HTTP/1.1 2")
    await writer.drain()
    writer.close()
    await ear.over.wait()
    assert ear.heard == [("lost", False)]


async def test_a_reused_connection_that_answers_garbage_is_not_stale(pool: ConnectionPool, engine: Engine) -> None:
    await answered(pool, engine, OK)
    ear = await answered(pool, engine, b"no http\r\n\r\n")
    assert engine.connections == 1
    assert ear.heard == [("lost", False)]


async def test_dropping_closes_the_socket_and_silences_the_receiver(pool: ConnectionPool, engine: Engine) -> None:
    ear, _ = await ask(pool, engine)
    assert ear.connection is not None
    ear.connection.drop()
    await engine.left.get()
    assert ear.heard == []


async def test_a_receiver_that_drops_at_the_head_hears_nothing_more(pool: ConnectionPool, engine: Engine) -> None:
    ear, writer = await ask(pool, engine)
    assert ear.connection is not None
    ear.when_headed = ear.connection.drop
    writer.write(OK)
    await engine.left.get()
    assert ear.heard == [200]
    assert pool.take(Ear()) is None


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + b"surplus",
        OK + OK,
    ],
    ids=["close", "HTTP/1.0", "garbage after it", "a second answer"],
)
async def test_a_connection_that_cannot_be_trusted_again_is_closed(
    pool: ConnectionPool, engine: Engine, answer: bytes
) -> None:
    ear = await answered(pool, engine, answer)
    assert ear.heard == [200, "end"]
    assert pool.take(Ear()) is None
    await engine.left.get()


@pytest.mark.slow
async def test_a_connection_with_an_unsent_body_is_not_given_to_anybody_else(
    pool: ConnectionPool, engine: Engine
) -> None:
    ear, writer = await ask(pool, engine)
    assert ear.connection is not None
    writer.transport.pause_reading()
    ear.connection.send(b"", b"x" * 30_000_000)
    writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
    await ear.over.wait()
    assert ear.heard == [413, "end"]
    assert pool.take(Ear()) is None
    writer.transport.abort()


@pytest.mark.parametrize("status", [b"000", b"099"])
async def test_a_status_that_is_none_counts_as_lost(pool: ConnectionPool, engine: Engine, status: bytes) -> None:
    assert (await answered(pool, engine, b"HTTP/1.1 %b X\r\n\r\n" % status)).heard == [("lost", False)]


async def test_an_idle_connection_is_not_trusted_beyond_the_engines_own_limit(
    pool: ConnectionPool, engine: Engine, clock: Clock
) -> None:
    await answered(pool, engine, OK)
    clock.now_s = 4.0
    assert pool.take(Ear()) is None
    await engine.left.get()


async def test_an_engine_that_speaks_unasked_is_hung_up_on(pool: ConnectionPool, engine: Engine) -> None:
    ear, writer = await ask(pool, engine)
    writer.write(OK)
    await ear.over.wait()
    writer.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    await engine.left.get()
    assert pool.take(Ear()) is None


async def test_an_idle_connection_that_the_engine_closes_is_forgotten(pool: ConnectionPool, engine: Engine) -> None:
    ear, writer = await ask(pool, engine)
    writer.write(OK)
    await ear.over.wait()
    writer.close()
    await engine.left.get()
    again = await answered(pool, engine, OK)
    assert again.heard == [200, "end"]
    assert engine.connections == 2


async def test_the_connection_used_last_is_reused_first(pool: ConnectionPool, engine: Engine) -> None:
    (first, first_side), (second, second_side) = await ask(pool, engine), await ask(pool, engine)
    for ear, side in ((first, first_side), (second, second_side)):
        side.write(OK)
        await ear.over.wait()
    assert pool.take(Ear()) is second.connection
    assert pool.take(Ear()) is first.connection


async def test_closing_the_pool_closes_what_is_idle(pool: ConnectionPool, engine: Engine) -> None:
    await answered(pool, engine, OK)
    pool.close()
    await engine.left.get()
    assert pool.take(Ear()) is None


async def test_idle_connections_are_closed_in_time_without_being_asked_for(engine: Engine) -> None:
    pool = ConnectionPool(
        "127.0.0.1", engine.port, tls=None, connect_timeout_s=5, keepalive_s=0.05, now=asyncio.get_running_loop().time
    )
    await answered(pool, engine, OK)
    await engine.left.get()
    assert engine.closed == 1


@pytest.mark.slow
async def test_a_paused_connection_reads_no_further_until_it_is_resumed(pool: ConnectionPool, engine: Engine) -> None:
    ear, writer = await ask(pool, engine)
    assert ear.connection is not None
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 12000000\r\n\r\n")
    await ear.head.wait()
    ear.connection.pause()
    writer.write(b"x" * 12_000_000)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(writer.drain(), 0.2)  # the kernel's buffers are full: nobody reads
    assert len(ear.body) < 1_000_000
    ear.connection.resume()
    await ear.over.wait()
    assert len(ear.body) == 12_000_000


async def test_an_answer_whose_head_came_before_is_passed_on_whole(pool: ConnectionPool, engine: Engine) -> None:
    heard = []
    for body in (b"first", b"of another length", b""):
        head = b"HTTP/1.1 200 OK\r\nX-A: b\r\ncontent-length: %d\r\n\r\n" % len(body)
        ear = await answered(pool, engine, head + body)
        heard.append((ear.heard, ear.response.headers.pairs, ear.response.body_bytes, ear.body))
    assert heard == [
        ([200, "end"], [(b"x-a", b"b")], 5, b"first"),
        ([200, "end"], [(b"x-a", b"b")], 17, b"of another length"),
        ([200, "end"], [(b"x-a", b"b")], 0, b""),
    ]
    assert engine.connections == 1


async def test_after_an_answer_whose_head_came_before_any_other_is_parsed(pool: ConnectionPool, engine: Engine) -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
    bodies = [(await answered(pool, engine, wire)).body for wire in (OK, OK, chunked, OK, chunked)]
    assert bodies == [b"ok", b"ok", b"ab", b"ok", b"ab"]
    assert engine.connections == 1


async def test_what_follows_a_whole_answer_whose_head_came_before_ends_the_connection(
    pool: ConnectionPool, engine: Engine
) -> None:
    await answered(pool, engine, OK)
    assert (await answered(pool, engine, OK + b"HTTP/1.1 200 OK\r\n")).heard == [200, "end"]
    assert pool.take(Ear()) is None


async def test_an_informational_answer_with_a_length_is_not_taken_for_the_answer(
    pool: ConnectionPool, engine: Engine
) -> None:
    strange = b"HTTP/1.1 103 Early\r\ncontent-length: %d\r\n\r\n" % len(OK) + OK
    for _ in range(3):
        ear = await answered(pool, engine, strange)
        assert (ear.heard, ear.body) == ([200, "end"], b"ok")


async def test_a_length_of_a_status_without_a_body_never_counts(pool: ConnectionPool, engine: Engine) -> None:
    await answered(pool, engine, b"HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n")
    ear = await answered(pool, engine, b"HTTP/1.1 204 X\r\ncontent-length: %d\r\n\r\n" % len(OK) + OK)
    assert (ear.heard, ear.body) == ([204, "end"], b"")
    assert pool.take(Ear()) is None


async def test_an_engine_that_says_it_closes_is_not_kept_however_often_it_says_so(
    pool: ConnectionPool, engine: Engine
) -> None:
    closing = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok"
    assert [(await answered(pool, engine, closing)).body for _ in range(2)] == [b"ok", b"ok"]
    assert engine.connections == 2


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (ConnectionRefusedError(111, "Connection refused"), True),
        (OSError("Multiple exceptions: [Errno 99] Cannot assign address, [Errno 111] Connection refused"), True),
        (OSError("Multiple exceptions: [Errno 99] Cannot assign address, [Errno 113] No route to host"), False),
        (OSError(113, "No route to host"), False),
        (TimeoutError(), False),
    ],
)
def test_a_refusal_is_one_also_among_the_failures_of_several_addresses(error: OSError, refused: bool) -> None:
    assert (why_none(error) is NoConnection.REFUSED) is refused
