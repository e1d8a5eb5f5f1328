"""B65 from the other side: an answer whose end is in doubt is none, and nothing of it becomes another's answer."""

import pytest

from tests.field.client import CHAT, JSON, body, request
from tests.field.scripts import ANSWER, Link, Script, answers
from tests.field.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

LINE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
POISON = b'HTTP/1.1 200 OK\r\nContent-Length: 17\r\n\r\n{"poison": "yes"}'

IN_DOUBT = {
    "a length and chunks": LINE + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": LINE + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "a coding that nobody takes off": LINE + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two codings": LINE + b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two lengths": LINE + b"Content-Length: 2\r\nContent-Length: 7\r\n\r\n{}",
    "a list of lengths": LINE + b"Content-Length: 2, 7\r\n\r\n{}",
    "a negative length": LINE + b"Content-Length: -2\r\n\r\n{}",
    "a signed length": LINE + b"Content-Length: +2\r\n\r\n{}",
    "a length beyond numbers": LINE + b"Content-Length: 99999999999999999999\r\n\r\n{}",
    "a blank before a colon": LINE + b"Content-Length : 2\r\n\r\n{}",
    "bare line feeds": LINE.replace(b"\r\n", b"\n") + b"Content-Length: 2\n\n{}",
    "a bare carriage return": LINE + b"X: a\rb\r\nContent-Length: 2\r\n\r\n{}",
    "a NUL": LINE + b"X: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
    "a folded header": LINE + b"X: a\r\n Content-Length: 2\r\n\r\n{}",
    "a second protocol": b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\nContent-Length: 2\r\n\r\n{}",
    "no status": b"HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\n{}",
    # Far more than the limit of a head and what one read may hold beyond it.
    "a flood of 1xx": b"HTTP/1.1 100 Continue\r\n\r\n" * 60_000 + LINE + b"Content-Length: 2\r\n\r\n{}",
    "1xx with a body": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 2\r\n\r\n{}"
    + LINE
    + b"Content-Length: 2\r\n\r\n{}",
    "a head without end": LINE + b"X: " + b"y" * 400_000,
    "headers without end": LINE + b"X: y\r\n" * 70_000,
}


def says(data: bytes) -> Script:
    """Exactly these bytes; the connection stays open."""

    async def script(link: Link) -> None:
        await link.raw(data)
        await link.seen.closed.wait()

    return script


@pytest.mark.parametrize("data", IN_DOUBT.values(), ids=IN_DOUBT)
async def test_b65_an_answer_whose_end_is_in_doubt_is_a_502_and_its_connection_is_not_used_again(
    stage: Stage, data: bytes
) -> None:
    stage.script(says(data))
    reply = await stage.ask(body())
    assert (reply.status, reply.json()["error"]["code"]) == (502, "upstream_error"), reply.raw
    assert len(stage.seen) == 2  # each engine was asked once, and both said this
    for seen in stage.seen:
        await seen.left()
    stage.script(answers())
    again = await stage.ask(body())
    assert (again.status, again.body) == (200, ANSWER)
    assert not stage.spec.requests[-1].reused


@pytest.mark.parametrize("size", [b"x", b"-1", b"0x2", b"f" * 17, b"2 ", b"2;a=\x00"])
async def test_b65_a_chunk_whose_size_is_in_doubt_cuts_the_answer(stage: Stage, size: bytes) -> None:
    async def script(link: Link) -> None:
        await link.raw(LINE + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        await link.seen.go.wait()
        await link.raw(size + b"\r\nab\r\n0\r\n\r\n")
        await link.seen.closed.wait()

    stage.script(script)
    async with await stage.client() as client:
        await client.send(request(body()), "POST")
        await client.has(b"{}")
        stage.seen[0].go.set()
        reply = await client.end()
    assert (reply.body, reply.complete) == (b"{}", False)
    await stage.seen[0].left()


@pytest.mark.parametrize("cut", [False, True], ids=["in the same read", "later"])
async def test_b65_an_answer_that_nobody_asked_for_is_nobodys(stage: Stage, cut: bool) -> None:
    async def script(link: Link) -> None:
        await answers()(link)
        if cut:
            await link.seen.go.wait()
        await link.raw(POISON)
        await link.seen.closed.wait()

    stage.script(script)
    first = await stage.ask(body())
    assert (first.status, first.body) == (200, ANSWER)
    stage.seen[0].go.set()
    await stage.seen[0].left()
    stage.script(answers())
    second = await stage.ask(body())
    assert (second.body, stage.seen[1].reused) == (ANSWER, False)


@pytest.mark.parametrize("status", [204, 304])
async def test_b65_a_body_where_there_can_be_none_is_nobodys(stage: Stage, status: int) -> None:
    stage.script(says(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(POISON)) + POISON))
    async with await stage.client() as client:
        reply = await client.ask(body())
        assert (reply.status, reply.body, reply.complete) == (status, b"", True)
        await stage.seen[0].left()
        stage.script(answers())
        assert (await client.ask(body())).body == ANSWER


async def test_b65_a_header_of_an_engine_ends_where_it_ends(stage: Stage) -> None:
    odd = b"X-Odd: a, Content-Length: 0\r\nTransfer_Encoding: chunked\r\nConnection: x-private\r\nX-Private: y\r\n"
    answer = LINE + odd + b"Content-Length: 2\r\n\r\n{}"
    stage.script(lambda link: link.raw(answer))  # and then the engine is done, since its connection serves others
    async with await stage.client() as client:
        await client.send(request(body(), path=CHAT, headers=JSON), "POST")
        reply = await client.end()
    assert (reply.body, reply["x-odd"]) == (b"{}", "a, Content-Length: 0")
    assert (reply.values("x-private"), reply.values("connection"), reply["content-length"]) == ([], [], "2")
