"""HTTP/1.1 on one connection: framing, keep-alive, pipelining, slow and leaving clients, and what is no HTTP at all."""

import asyncio
from contextlib import asynccontextmanager

import h11
import pytest

from breakeven_bench.engine import connection
from breakeven_bench.engine.connection import Connection, HttpServer
from tests.bench.engine.engines import eventually

GET = b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n"


class Server:
    """A server on loopback that keeps its requests and answers as the test says."""

    def __init__(self, handle):
        self.requests = []
        self.responses = []
        self.arrived = asyncio.Event()
        self._handle = handle
        self.http = HttpServer(self.handle)
        self.port = 0

    def handle(self, request, response):
        self.requests.append(request)
        self.responses.append(response)
        self.arrived.set()
        self._handle(request, response)


@asynccontextmanager
async def serving(handle=lambda request, response: response.answer(200, request.body or b"{}")):
    server = Server(handle)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(server.http, loop), "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        server.http.abort_all()
        await asyncio.sleep(0)


@asynccontextmanager
async def client(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def closed(server):
    """Wait until the server knows that nobody is connected."""

    async def nobody():
        return not server.http.connections

    await eventually(nobody)


async def answer(reader, judge=None):
    """One response as h11, an independent implementation, reads it: status, headers, body."""
    judge = judge or h11.Connection(h11.CLIENT)
    if judge.our_state is h11.IDLE:
        judge.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
        judge.send(h11.EndOfMessage())
    status, headers, body = 0, {}, b""
    while True:
        event = judge.next_event()
        if event is h11.NEED_DATA:
            judge.receive_data(await reader.read(65536))
        elif isinstance(event, h11.InformationalResponse):
            continue
        elif isinstance(event, h11.Response):
            status, headers = event.status_code, dict(event.headers)
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            return status, headers, body


async def test_what_is_no_http_is_refused_and_the_connection_closed():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"NONSENSE\r\n\r\n")
        status, headers, body = await answer(reader)
        assert (status, body) == (400, b"Invalid HTTP request received.")
        assert headers[b"connection"] == b"close"
        assert await reader.read() == b""
    assert server.requests == []


async def test_an_upgrade_is_refused():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
        assert (await answer(reader))[0] in (200, 400)
        assert await asyncio.wait_for(reader.read(), 1) == b""


@pytest.mark.parametrize("declared", [100_000, 1001], ids=["unfinished", "complete"])
async def test_a_body_over_the_limit_is_refused(monkeypatch, declared):
    monkeypatch.setattr(connection, "BODY_BYTES_MAX", 1000)
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % declared + b"x" * 1001)
        assert (await answer(reader))[0] == 413
        assert await asyncio.wait_for(reader.read(), 1) == b""
    assert server.requests == []


async def test_what_follows_a_request_that_wanted_to_close_is_not_served():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"GET /1 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\nGET /2 HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await answer(reader))[0] == 200
        assert await asyncio.wait_for(reader.read(), 1) == b""
    assert [request.path for request in server.requests] == ["/1"]


@pytest.mark.parametrize("late", [lambda one: one.answer(200, b"{}"), lambda one: one.cut()], ids=["answer", "cut"])
async def test_whatever_is_done_after_the_client_left_goes_nowhere(late):
    async with serving(lambda request, response: None) as server:
        async with client(server) as (_, writer):
            writer.write(GET)
            await server.arrived.wait()
        await closed(server)
        late(server.responses[0])


def test_a_connection_that_is_gone_neither_serves_nor_refuses():
    served = []
    loop = asyncio.new_event_loop()
    gone = Connection(HttpServer(lambda request, response: served.append(request)), loop)
    gone.data_received(GET)
    gone.data_received(b"NONSENSE\r\n\r\n")
    gone._serve_next()
    gone.close_if_idle()
    assert served == []
    loop.close()


async def test_a_client_that_leaves_is_told_to_whoever_answers_exactly_once():
    gone = asyncio.Event()
    calls = []

    def handle(request, response):
        response.on_gone = lambda: (calls.append(1), gone.set())
        response.start_stream()

    async with serving(handle) as server:
        async with client(server) as (reader, writer):
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(gone.wait(), 1)
        assert calls == [1]
        assert server.responses[0].ended
        server.responses[0].write(b"too late")  # nobody is there; it must not raise
        assert server.http.connections == set()


async def test_a_client_that_leaves_after_the_end_is_nobodys_concern():
    def handle(request, response):
        response.on_gone = lambda: pytest.fail("the answer was complete")
        response.answer(200, b"{}")

    async with serving(handle) as server:
        async with client(server) as (reader, writer):
            writer.write(GET)
            await answer(reader)
        await closed(server)


async def test_nobody_needs_to_care_who_leaves():
    async with serving(lambda request, response: response.start_stream()) as server:
        async with client(server) as (reader, writer):
            writer.write(GET)
            await reader.readuntil(b"\r\n\r\n")
        await closed(server)
        assert server.responses[0].ended


async def test_half_closing_is_leaving():
    gone = asyncio.Event()

    def handle(request, response):
        response.on_gone = gone.set

    async with serving(handle) as server, client(server) as (_, writer):
        writer.write(GET)
        await server.arrived.wait()
        writer.write_eof()
        await asyncio.wait_for(gone.wait(), 1)


async def test_a_stream_that_is_cut_has_no_end():
    def handle(request, response):
        response.start_stream()
        response.write(b"data: 1\n\n")
        response.cut()

    async with serving(handle) as server, client(server) as (reader, writer):
        writer.write(GET)
        received = await asyncio.wait_for(reader.read(), 1)
        assert not received.endswith(b"0\r\n\r\n")
        assert server.responses[0].ended


async def test_a_whole_answer_has_a_length_and_the_servers_name():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"POST /p?q=1 HTTP/1.1\r\nHost: a\r\nX-Y: Z\r\ncontent-length: 2\r\n\r\n[]")
        status, headers, body = await answer(reader)
    assert (status, body, headers[b"content-length"]) == (200, b"[]", b"2")
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"server"] == b"uvicorn"
    assert b"date" in headers
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/p", b"[]")
    assert request.headers["x-y"] == "Z"


async def test_an_answer_without_a_body_has_no_type():
    def handle(request, response):
        response.answer(200, b"", "")

    async with serving(handle) as server, client(server) as (reader, writer):
        writer.write(GET)
        status, headers, body = await answer(reader)
    assert (status, body) == (200, b"")
    assert b"content-type" not in headers
    assert headers[b"content-length"] == b"0"


async def test_a_stream_is_chunked_and_its_head_goes_out_first():
    def handle(request, response):
        response.start_stream()

    async with serving(handle) as server, client(server) as (reader, writer):
        writer.write(GET)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 1)
        assert b"transfer-encoding: chunked" in head
        assert b"content-type: text/event-stream; charset=utf-8" in head
        server.responses[0].write(b"data: 1\n\n")
        assert await reader.readuntil(b"\n\n\r\n") == b"9\r\ndata: 1\n\n\r\n"
        server.responses[0].end_stream(b"data: [DONE]\n\n")
        assert await reader.readuntil(b"0\r\n\r\n") == b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def test_chunked_bodies_are_put_together():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\n[1,\r\n")
        await asyncio.sleep(0)
        writer.write(b"2\r\n2]\r\n0\r\n\r\n")
        assert (await answer(reader))[2] == b"[1,2]"


async def test_a_client_that_waits_for_permission_gets_it():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        assert (await answer(reader))[0] == 200


async def test_a_connection_serves_one_request_after_the_other():
    async with serving() as server, client(server) as (reader, writer):
        for number in range(3):
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n%d" % number)
            assert (await answer(reader))[2] == b"%d" % number


async def test_a_client_that_wants_to_close_is_closed_and_told():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert (await answer(reader))[1][b"connection"] == b"close"
        assert await asyncio.wait_for(reader.read(), 1) == b""


async def test_pipelined_requests_are_answered_in_order_however_long_the_first_takes():
    def handle(request, response):
        if request.path != "/slow":
            response.answer(200, request.path.encode())

    async with serving(handle) as server, client(server) as (reader, writer):
        paths = [b"/slow", *[b"/%d" % number for number in range(12)]]
        writer.write(b"".join(b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % path for path in paths))
        await server.arrived.wait()
        assert [request.path for request in server.requests] == ["/slow"]
        server.responses[0].answer(200, b"/slow")
        judge = h11.Connection(h11.CLIENT)
        seen = []
        for _ in paths:
            seen.append((await answer(reader, judge))[2])
            if judge.their_state is h11.DONE:
                judge.start_next_cycle()
        assert seen == paths


async def test_an_idle_connection_is_closed_after_the_keep_alive_time(monkeypatch):
    monkeypatch.setattr(connection, "KEEP_ALIVE_S", 0.02)
    async with serving() as server, client(server) as (reader, writer):
        writer.write(GET)
        await answer(reader)
        assert await asyncio.wait_for(reader.read(), 1) == b""
    assert connection.KEEP_ALIVE_S == 0.02


async def test_a_client_may_take_its_time_before_its_first_request(monkeypatch):
    monkeypatch.setattr(connection, "KEEP_ALIVE_S", 0.01)
    async with serving() as server, client(server) as (reader, writer):
        await asyncio.sleep(0.05)
        writer.write(GET)
        assert (await answer(reader))[0] == 200


async def test_a_connection_that_waits_for_its_answer_is_not_idle(monkeypatch):
    monkeypatch.setattr(connection, "KEEP_ALIVE_S", 0.01)
    async with serving(lambda request, response: None) as server, client(server) as (reader, writer):
        writer.write(GET)
        await server.arrived.wait()
        await asyncio.sleep(0.05)
        server.http.close_idle()
        server.responses[0].answer(200, b"{}")
        assert (await answer(reader))[0] == 200


async def test_a_server_that_ends_closes_what_is_idle_and_the_rest_behind_its_answer_whatever_was_pipelined():
    async with serving(lambda request, response: None) as server:
        async with client(server) as (reader, writer), client(server) as (idle, waits):
            waits.write(b"GET /half")
            writer.write(GET + GET)
            await server.arrived.wait()
            server.http.close_when_answered()
            assert await asyncio.wait_for(idle.read(), 1) == b""
            server.responses[0].answer(200, b"{}")
            assert (await answer(reader))[0] == 200
            assert await asyncio.wait_for(reader.read(), 1) == b""
        await closed(server)
    assert len(server.requests) == 1


async def test_idle_connections_can_be_closed_at_once():
    async with serving() as server, client(server) as (reader, writer):
        writer.write(GET)
        await answer(reader)
        server.http.close_idle()
        assert await asyncio.wait_for(reader.read(), 1) == b""


async def test_a_client_that_does_not_read_is_noticed_and_so_is_its_reading_again():
    writable = asyncio.Event()

    def handle(request, response):
        response.on_writable = writable.set
        response.start_stream()

    async with serving(handle) as server, client(server) as (reader, writer):
        writer.write(GET)
        await server.arrived.wait()
        response = server.responses[0]
        assert response.writable
        sent = 0
        while response.writable:
            response.write(b"x" * 65536)
            sent += 65536
        assert not writable.is_set()
        read = 0
        while not writable.is_set():
            read += len(await reader.read(1 << 20))
        assert response.writable
        assert 0 < read <= sent + 100_000


@pytest.mark.slow
async def test_reading_again_after_the_end_calls_nobody():
    def handle(request, response):
        response.on_writable = lambda: pytest.fail("the answer was complete")
        response.answer(200, b"x" * 10_000_000)

    async with serving(handle) as server, client(server) as (reader, writer):
        writer.write(GET)
        assert len((await answer(reader))[2]) == 10_000_000
        assert server.responses[0].writable


async def test_the_date_is_made_anew_only_when_it_is_over():
    server = HttpServer(lambda request, response: None)
    first = server.head(200, 100.0)
    server._date = b"kept\r\n"
    assert server.head(200, 100.5) == b"HTTP/1.1 200 OK\r\nkept\r\n"
    assert server.head(404, 101.0).startswith(b"HTTP/1.1 404 Not Found\r\ndate: ")
    assert first.endswith(b"server: uvicorn\r\n")
