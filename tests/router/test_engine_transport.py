"""`breakeven.engine_transport`: httpx asks over our own connections, one for each question, and reads what it takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from breakeven.clock import monotonic_s
from breakeven.engine_transport import PIECE_BYTES, ConnectionRefused, EngineTransport
from breakeven.upstream import ConnectionPool
from tests.router.scripted_engine import Answer, ScriptedEngine, free_port, never, says, scripted_engine, sends

PAGE = b"#" * (3 * PIECE_BYTES + 1)


@asynccontextmanager
async def asking(port: int, host: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
    pool = ConnectionPool(host, port, tls=None, connect_timeout_s=5.0, keepalive_s=60.0, now=monotonic_s)
    transport = EngineTransport(pool)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}:{port}", trust_env=False) as client:
        yield client
    async with asyncio.timeout(5):
        while pool._idle:  # noqa: ASYNC110  # nothing tells that a closed connection is gone
            await asyncio.sleep(0)


@asynccontextmanager
async def asked(answer: Answer) -> AsyncIterator[tuple[httpx.AsyncClient, ScriptedEngine]]:
    async with scripted_engine(page=answer) as engine, asking(engine.port) as client:
        yield client, engine


async def test_a_refused_connection_is_told_apart_from_one_that_cannot_be_had() -> None:
    async with asking(await free_port()) as client:
        with pytest.raises(ConnectionRefused):
            await client.get("/page")
    async with asking(1, "engine.invalid") as client:
        with pytest.raises(httpx.ConnectError) as caught:
            await client.get("/page")
    assert not isinstance(caught.value, ConnectionRefused)


@pytest.mark.parametrize(
    "data",
    [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", b"HTTP/1.1 99 Low\r\n\r\n"],
)
async def test_an_answer_that_is_not_whole_or_no_http_is_an_error(data: bytes) -> None:
    async with asked(sends(data)) as (client, _):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/page")


async def test_what_came_before_the_connection_broke_is_handed_on_first() -> None:
    half = sends(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    async with asked(half) as (client, _), client.stream("GET", "/page") as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"half"
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(pieces)


async def test_head_and_body_arrive_as_they_were_sent_and_the_request_as_httpx_wrote_it() -> None:
    async with asked(says(200, b"x" * 10, b"X-Odd: a", b"x-odd: b")) as (client, engine):
        answer = await client.get("/page", headers={"X-Mine": "1"})
        assert (answer.status_code, answer.content) == (200, b"x" * 10)
        assert answer.headers.get_list("x-odd") == ["a", "b"]
    (head,) = engine.heads
    assert head.startswith(b"GET /page HTTP/1.1\r\n")
    assert b"\r\nHost: 127.0.0.1:%d\r\n" % engine.port in head
    assert b"\r\nX-Mine: 1\r\n" in head


@pytest.mark.parametrize("framing", [b"content-length: %d\r\n\r\n%b" % (len(PAGE), PAGE), b"\r\n" + PAGE])
async def test_a_large_page_is_handed_on_in_pieces(framing: bytes) -> None:
    async with asked(sends(b"HTTP/1.1 200 OK\r\n" + framing)) as (client, _):
        async with client.stream("GET", "/page") as response:
            pieces = [piece async for piece in response.aiter_raw()]
        assert b"".join(pieces) == PAGE
        assert max(map(len, pieces)) <= PIECE_BYTES


async def test_a_page_is_read_no_faster_than_it_is_taken() -> None:
    written = 0
    stopped = asyncio.Event()

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(PAGE)
                await writer.drain()
                written += len(PAGE)
        finally:
            stopped.set()

    async with asked(endless) as (client, _), client.stream("GET", "/page") as response:
        pieces = response.aiter_raw()
        await anext(pieces)
        before = -1
        while before < written < 2**24:  # until the sockets between are full
            before = written
            await asyncio.sleep(0.05)
        assert written < 2**24
        while written == before:
            await anext(pieces)
        await response.aclose()
        async with asyncio.timeout(5):
            await stopped.wait()


async def test_a_body_goes_with_its_request() -> None:
    bodies = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"\r\nContent-Length: 7\r\n" in head
        bodies.append(await reader.readexactly(7))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, asking(server.sockets[0].getsockname()[1]) as client:
        assert (await client.post("/page", content=b"content")).status_code == 200
    assert bodies == [b"content"]


async def half(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    await asyncio.Event().wait()


async def test_an_answer_that_is_not_read_to_its_end_closes_its_connection() -> None:
    async with asked(half) as (client, engine):
        async with client.stream("GET", "/page") as response:
            assert response.status_code == 200
            assert not engine.left.is_set()
        async with asyncio.timeout(5):
            await engine.left.wait()


@pytest.mark.parametrize("answer", [never, half])
async def test_who_closes_the_client_gives_up_what_is_being_asked(answer: Answer) -> None:
    async with asked(answer) as (client, engine):
        question = asyncio.create_task(client.get("/page"))
        await engine.until_asked("/page", 1)
        await client.aclose()
        with pytest.raises(httpx.RemoteProtocolError):
            await question
        async with asyncio.timeout(5):
            await engine.left.wait()


async def test_who_stops_waiting_for_an_answer_leaves_no_connection() -> None:
    async with asked(never) as (client, engine):
        question = asyncio.create_task(client.get("/page"))
        await engine.until_asked("/page", 1)
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        async with asyncio.timeout(5):
            await engine.left.wait()


async def test_who_stops_waiting_for_a_connection_never_asks() -> None:
    async with asked(says(200)) as (client, engine):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await client.get("/page")
        assert (await client.get("/page")).status_code == 200
        assert engine.times_asked("/page") == 1
