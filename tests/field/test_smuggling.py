"""B65, request smuggling: what two readers could read differently is refused, closes the connection, reaches no engine.

The list is the well-known one of attacks on pairs of HTTP readers. Where a form is legitimate (a chunk extension,
a trailer, an offer to upgrade) it is served once, and the engine's own parser (h11) finds one request and no more.
"""

import contextlib

import pytest

from tests.field.client import CHAT, JSON, body, chunked, request
from tests.field.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

CONTENT = body()
LINE = f"POST {CHAT} HTTP/1.1\r\n".encode()
HEAD = LINE + b"Host: router.test\r\nContent-Type: application/json\r\n"
SIZED = b"Content-Length: %d\r\n" % len(CONTENT)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
HIDDEN = f"POST {CHAT} HTTP/1.1\r\nHost: hidden\r\nContent-Length: 2\r\n\r\n{{}}".encode()

TWO_FRAMINGS = {
    "CL.TE": HEAD + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    "TE.CL": CHUNKED + b"Content-Length: 4\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\n" + SIZED + b"\r\n" + CONTENT,
    "two equal lengths": HEAD + SIZED + SIZED + b"\r\n" + CONTENT,
    "a list of lengths": HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    "two codings": CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity and chunked": HEAD + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": CHUNKED.replace(b"/1.1", b"/1.0") + b"\r\n0\r\n\r\n",
}
CODINGS = [b"xchunked", b"chunked, gzip", b"chunked, identity", b'"chunked"', b"chunked;q=1", b"chunked,",
           b", chunked", b"", b"\x0bchunked", b"chunked\x0b", b"chunked\x00", b"gzip, chunked", b"identity",
           b"chunked chunked"]  # fmt: skip
LENGTHS = [b"-1", b"+3", b"0x3", b"3 3", b"1_0", b"", b"3.0", b"3e0", b"'3'", b"\xb3", b"3\x00", b"3;", b"9" * 30]
CHUNK_SIZES = [b"", b"-3", b"+3", b"0x3", b" 3", b"3 ", b"3_0", b"g", b"f" * 17, b"10000000000000003", b"3\x00",
               b"3;a=\x00", b'3;a="\r\n"']  # fmt: skip
LINE_ENDS = {
    "bare LF after the request line": HEAD.replace(b"\r\n", b"\n", 1) + b"\r\n",
    "bare LF after a header": LINE + b"Host: router.test\nX: y\r\n\r\n",
    "bare LF at the end of the head": HEAD + b"\n",
    "bare LF after a chunk size": CHUNKED + b"\r\n3\nabc\r\n0\r\n\r\n",
    "bare LF after a chunk": CHUNKED + b"\r\n3\r\nabc\n0\r\n\r\n",
    "bare LF in a chunk extension": CHUNKED + b"\r\n3;a\nb\r\nabc\r\n0\r\n\r\n",
    "bare LF at the end of the body": CHUNKED + b"\r\n3\r\nabc\r\n0\n\n",
    "bare CR in a header": HEAD + b"X: y\rTransfer-Encoding: chunked\r\n\r\n",
    "bare CR as a line end": LINE + b"Host: router.test\rX: y\r\n\r\n",
    "bare CR after a chunk size": CHUNKED + b"\r\n3\rabc\r\n0\r\n\r\n",
    "more than the chunk": CHUNKED + b"\r\n3\r\nabcX\r\n0\r\n\r\n",
    "a wrong trailer": CHUNKED + b"\r\n0\r\nX : y\r\n\r\n",
    "framing in a trailer": CHUNKED + b"\r\n0\r\nContent-Length: 5\r\n\r\n",
}
HEADERS = [b"X : y", b"X\t: y", b"X Y: z", b" X: y", b"XY", b": y", b"X\x00: y", b"X: a\x00b", b"X: a\x01b",
           b"X: a\x7fb", b"X\xff: y", b"X(: y", b"X: a\r\n b", b"X: a\r\n\tb", b"Content-Length : 3",
           b"Transfer-Encoding : chunked", b"Transfer-Encoding\x0b: chunked", b"X: y\nTransfer-Encoding: chunked",
           b"Host: again"]  # fmt: skip
HOSTS = [b"", b"a b", b"a,b", b"user@a", b"a/b", b"a#b", b"a:b", b"[::1", b"a\xc3\xa9"]
TARGETS = {
    b"/v1/../metrics": 404,
    b"/v1/chat/../../metrics": 404,
    b"//v1/chat/completions": 404,
    b"//evil.test/v1/chat/completions": 404,
    b"/v1//chat/completions": 404,
    b"/v1/chat/completions/": 404,
    b"/v1%2fchat%2fcompletions": 404,
    b"/v1/%2e%2e/metrics": 404,
    b"/v1/chat/completion%73": 404,
    b"/v1\\..\\metrics": 404,
    b"/v1/chat/completions;a=b": 404,
    b"/./v1/chat/completions": 404,
    b"/metrics": 404,
    b"*": 404,
    b"http://evil.test//v1/chat/completions": 404,
    b"http://evil.test": 404,
    b"/v1/chat/completions#x": 400,
    b"/v1/chat/completions?a#x": 400,
    b"http://user@evil.test/v1/chat/completions": 400,
    b"http:///v1/chat/completions": 400,
    b"http://a,b/v1/chat/completions": 400,
    b"evil.test:80": 400,
    b"v1/chat/completions": 400,
    b"/v1/chat completions": 400,
    b"/v1/chat\x00completions": 400,
    b"/v1/chat\x01completions": 400,
    b"/v1/chat\xc3\xa9completions": 400,
    b"/" + b"a" * 70_000: 431,
}
LINES = {
    b"GET /": 400,
    b"GET / HTTP/0.9": 400,
    b"PRI * HTTP/2.0": 400,
    b"GET / HTTP/1.2": 400,
    b"GET / HTTP/2.0": 400,
    b"GET / HTTP/3": 400,
    b"GET / http/1.1": 400,
    b"GET / HTTP/01.1": 400,
    b"GET / HTTP/1.1 ": 400,
    b"GET\t/\tHTTP/1.1": 400,
    b"get / HTTP/1.1": 400,
    b"POSTX / HTTP/1.1": 400,
    b"CONNECT evil.test:443 HTTP/1.1": 501,
    b"CONNECT / HTTP/1.1": 501,
}


def named(value: object) -> str:
    """A short name for one of the values above."""
    return ascii(value)[:50]


async def is_refused(stage: Stage, message: bytes, status: int = 400) -> None:
    """That answer and no other, then the end of the connection; a request hidden behind it reaches nobody."""
    async with await stage.client() as client:
        with contextlib.suppress(ConnectionError):
            await client.send(message + HIDDEN, "POST")
        reply = await client.end()
        assert (reply.status, reply.values("connection")) == (status, ["close"]), reply.raw
        await client.hung_up()
        assert reply.raw.count(b"\r\n\r\n") == 1
    assert stage.seen == []


@pytest.mark.parametrize("message", TWO_FRAMINGS.values(), ids=TWO_FRAMINGS)
async def test_b65_two_framings_are_none(stage: Stage, message: bytes) -> None:
    await is_refused(stage, message)


@pytest.mark.parametrize("coding", CODINGS, ids=named)
async def test_b65_a_transfer_coding_that_is_not_just_chunked_is_refused(stage: Stage, coding: bytes) -> None:
    await is_refused(stage, HEAD + b"Transfer-Encoding: " + coding + b"\r\n\r\n0\r\n\r\n")


@pytest.mark.parametrize("length", LENGTHS, ids=named)
async def test_b65_a_length_that_is_no_number_is_refused(stage: Stage, length: bytes) -> None:
    await is_refused(stage, HEAD + b"Content-Length: " + length + b"\r\n\r\nabc")


@pytest.mark.parametrize("size", CHUNK_SIZES, ids=named)
async def test_b65_a_chunk_size_that_is_no_number_is_refused(stage: Stage, size: bytes) -> None:
    await is_refused(stage, CHUNKED + b"\r\n" + size + b"\r\nabc\r\n0\r\n\r\n")


@pytest.mark.parametrize("message", LINE_ENDS.values(), ids=LINE_ENDS)
async def test_b65_a_line_ends_with_both_characters(stage: Stage, message: bytes) -> None:
    await is_refused(stage, message)


@pytest.mark.parametrize("header", HEADERS, ids=named)
async def test_b65_a_header_that_two_readers_could_read_differently_is_refused(stage: Stage, header: bytes) -> None:
    await is_refused(stage, HEAD + header + b"\r\n" + SIZED + b"\r\n" + CONTENT)


@pytest.mark.parametrize("host", HOSTS, ids=named)
async def test_b65_a_host_that_is_none_is_refused(stage: Stage, host: bytes) -> None:
    await is_refused(stage, LINE + b"Host: " + host + b"\r\n" + SIZED + b"\r\n" + CONTENT)


async def test_b65_a_request_without_a_host_is_refused(stage: Stage) -> None:
    await is_refused(stage, LINE + SIZED + b"\r\n" + CONTENT)


@pytest.mark.parametrize(("line", "status"), LINES.items(), ids=named)
async def test_b65_a_request_line_that_is_not_http_1_is_refused(stage: Stage, line: bytes, status: int) -> None:
    await is_refused(stage, line + b"\r\nHost: router.test\r\n\r\n", status)


@pytest.mark.parametrize(("target", "status"), TARGETS.items(), ids=named)
async def test_b65_no_other_spelling_of_a_path_reaches_an_engine(stage: Stage, target: bytes, status: int) -> None:
    message = b"POST " + target + b" HTTP/1.1\r\nHost: router.test\r\n" + SIZED + b"\r\n" + CONTENT
    if status != 404:
        await is_refused(stage, message, status)
        return
    async with await stage.client() as client:  # it was read, and nothing is there
        await client.send(message, "POST")
        assert (await client.end()).status == 404
    assert stage.seen == []


SERVED = {
    "a chunk extension": CHUNKED + b"\r\n%x;a=b;c\r\n%b\r\n0\r\n\r\n" % (len(CONTENT), CONTENT),
    "a trailer": CHUNKED + b"\r\n" + chunked([CONTENT])[:-2] + b"X-Trailer: y\r\n\r\n",
    "capitals": HEAD + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n" + chunked([CONTENT]),
    "blanks around a value": HEAD + b"Content-Length: \t %d \t\r\n\r\n" % len(CONTENT) + CONTENT,
    "leading zeros": HEAD + b"Content-Length: 000%d\r\n\r\n" % len(CONTENT) + CONTENT,
    "an underscore in a name": HEAD
    + b"Transfer_Encoding: chunked\r\nContent_Length: 1\r\n"
    + SIZED
    + b"\r\n"
    + CONTENT,
    "an offer to upgrade": HEAD + b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + SIZED + b"\r\n" + CONTENT,
    "an upgraded chunked body": CHUNKED + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + chunked([CONTENT]),
    "framing that Connection names": HEAD + b"Connection: content-length, host\r\n" + SIZED + b"\r\n" + CONTENT,
    "an absolute target": HEAD.replace(b"POST /", b"POST http://evil.test/") + SIZED + b"\r\n" + CONTENT,
}


@pytest.mark.parametrize("message", SERVED.values(), ids=SERVED)
async def test_b65_what_is_odd_and_means_one_thing_only_is_served_and_the_next_request_is_the_next(
    stage: Stage, message: bytes
) -> None:
    second = body(user="second")
    async with await stage.client() as client:
        await client.send(message + request(second), "POST")
        first = await client.end()
        assert first.status == 200, first.raw
        await stage.spec.request(2)
    assert [seen.body for seen in stage.seen] == [CONTENT, second]
    for seen in stage.seen:
        assert seen.values("content-length") == [str(len(seen.body))]
        for name in ("transfer-encoding", "transfer_encoding", "content_length", "upgrade", "connection"):
            assert seen.values(name) == []


async def test_b65_headers_that_a_client_smuggles_into_a_value_stay_one_value(stage: Stage) -> None:
    _, seen, _ = await stage.routed(CONTENT, headers=[*JSON, ("X-Odd", "a; b=c, Host: evil, %0d%0aX-Evil: 1")])
    assert seen.values("x-odd") == ["a; b=c, Host: evil, %0d%0aX-Evil: 1"]
    assert seen.values("x-evil") == []
