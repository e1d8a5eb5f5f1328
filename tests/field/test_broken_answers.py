"""B39, B40 and B43: an answer that breaks is seen to be broken; an error of the engine passes as it was written."""

import itertools
import json

import openai
import pytest

from tests.field.client import CHAT, HI, Reply, body, request
from tests.field.scripts import JSON_TYPE, SSE_TYPE, Headers, Link, Script, answers, streams
from tests.field.stage import SPEC, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

DONE = b"data: [DONE]\n\n"
EVENTS = [b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % number for number in range(5)]
FIVE = b"".join(EVENTS)
FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'


def breaks(pieces: list[bytes], how: str, headers: Headers = SSE_TYPE) -> Script:
    """A chunked stream that ends too early: RST, FIN without the last chunk, or a last chunk out of nowhere.

    RST may overtake bytes that nobody has read yet, so it waits until the test says that the client has them all.
    """

    async def script(link: Link) -> None:
        await link.head(headers=headers)
        for piece in pieces:
            await link.chunk(piece)
        await link.seen.go.wait()
        if how == "end":
            await link.end()
        else:
            link.reset() if how == "reset" else link.fin()

    return script


def parsed(stream: bytes) -> list[str]:
    """The data of each event as the standard's parser gives them; what no blank line ends is not an event."""
    blocks = stream.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n")[:-1]
    lines = (block.split("\n") for block in blocks)
    events = ("\n".join(line[5:].removeprefix(" ") for line in block if line.startswith("data:")) for block in lines)
    return [data for data in events if data]


async def broken(stage: Stage, pieces: list[bytes], how: str, path: str = CHAT) -> Reply:
    """The client's end of a stream that breaks after these pieces; the engine's failure, and never sent twice."""
    stage.script(breaks(pieces, how))
    async with stage.counting("upstream_error", pool=SPEC), await stage.client() as client:
        await client.send(request(body(stream=True, prompt="x"), path=path), "POST")
        await client.has(b"".join(pieces))
        (await stage.spec.request()).go.set()
        reply = await client.end()
        await client.hung_up()
    assert len(stage.seen) == 1
    return reply


def told(reply: Reply, sent: bytes) -> None:
    """What the engine sent comes first, then an event of its own with the error, then [DONE], and nothing else."""
    assert reply.body.startswith(sent)
    *before, error, done = parsed(reply.body)
    assert before[:5] == parsed(FIVE)
    assert len(before) in {5, 6}  # the sixth is the torn event, which no client takes for a whole one
    assert done == "[DONE]"
    expected = {"message": "upstream connection lost", "type": "server_error", "code": "upstream_error"}
    told_error = json.loads(error)["error"]
    assert {name: told_error[name] for name in expected} == expected
    assert reply.body.endswith(DONE)
    for word in (b"finish_reason", b"127.0.0.1", b"Traceback", b"speculative-0"):
        assert word not in reply.body[len(sent) :]


@pytest.mark.parametrize("how", ["reset", "fin", "end"])
@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
async def test_b39_a_stream_that_ends_without_an_end_gets_an_error_event(stage: Stage, how: str, path: str) -> None:
    reply = await broken(stage, EVENTS, how, path)
    told(reply, FIVE)
    assert parsed(reply.body)[:5] == parsed(FIVE)
    assert len(parsed(reply.body)) == 7


@pytest.mark.parametrize(
    "torn",
    [
        b'data: {"choices":[{"index":0,"del',
        b"data: {}",
        b"data: {}\n",
        b"da",
        b'data: {"choices":[{"index":0,"delta":{"content":"\xc3',
        b": comm",
        b"id: 7\n",
    ],
)
@pytest.mark.parametrize("how", ["reset", "fin"])
async def test_b39_after_a_torn_event_the_error_is_an_event_of_its_own(stage: Stage, torn: bytes, how: str) -> None:
    told(await broken(stage, [*EVENTS, torn], how), FIVE + torn)


async def test_b39_a_stream_with_carriage_returns_is_told_as_well(stage: Stage) -> None:
    pieces = [event.replace(b"\n", b"\r\n") for event in EVENTS]
    for torn in ([], [b"data: {}\r"], [b"data: {}\r\n"]):
        stage.clear()
        sent = b"".join([*pieces, *torn])
        reply = await broken(stage, [*pieces, *torn], "reset")
        assert reply.body.startswith(sent)
        assert "upstream_error" in parsed(reply.body)[-2]


async def test_b39_nothing_follows_a_stream_that_was_done(stage: Stage) -> None:
    """The last chunk is missing, but the last word was said: no second error, no second [DONE]."""
    for how in ("reset", "fin"):
        stage.clear()
        stage.script(breaks([*EVENTS, FINISH, DONE], how))
        async with await stage.client() as client:
            await client.send(request(body(stream=True)), "POST")
            await client.has(DONE)
            (await stage.spec.request()).go.set()
            assert (await client.end()).body == FIVE + FINISH + DONE
        assert len(stage.seen) == 1


async def test_b39_an_orderly_end_after_a_finish_reason_is_an_end(stage: Stage) -> None:
    stage.script(streams([*EVENTS, FINISH]))
    async with stage.counting("completed"):
        reply = await stage.ask(body(stream=True))
    assert (reply.body, reply.complete) == (FIVE + FINISH, True)


@pytest.mark.parametrize(
    ("path", "last"),
    [
        ("/v1/messages", b'event: message_stop\ndata: {"type":"message_stop"}\n\n'),
        ("/v1/responses", b'event: response.completed\ndata: {"type":"response.completed","response":{}}\n\n'),
    ],
)
async def test_b39_other_protocols_end_in_their_own_words(stage: Stage, path: str, last: bytes) -> None:
    pieces = [b'event: ping\ndata: {"type":"ping"}\n\n', last]
    stage.script(streams(pieces))
    async with stage.counting("completed"):
        reply = await stage.ask(body(stream=True, input="x"), path=path)
    assert (reply.body, reply.complete) == (b"".join(pieces), True)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["reset", "fin", "end"])
async def test_b39_the_official_client_raises_instead_of_taking_half_an_answer(stage: Stage, how: str) -> None:
    stage.script(breaks(EVENTS, how))
    base_url = f"http://127.0.0.1:{stage.router.port}/v1"
    async with openai.AsyncOpenAI(base_url=base_url, api_key="x", max_retries=0) as client:
        parts = await client.chat.completions.create(model="m", messages=HI, stream=True)
        texts = [(await anext(parts)).choices[0].delta.content for _ in EVENTS]
        stage.spec.requests[0].go.set()
        with pytest.raises(openai.APIError, match="upstream connection lost"):
            await anext(parts)
    assert texts == list("01234")


@pytest.mark.parametrize("how", ["reset", "fin"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_b39_a_whole_answer_cut_short_is_never_complete(stage: Stage, how: str, framing: str) -> None:
    half = b'{"choices":[' + b" " * 488

    async def script(link: Link) -> None:
        if framing == "length":
            await link.head(headers=[*JSON_TYPE, ("Content-Length", "1000")], chunked=False)
            await link.raw(half)
        else:
            await link.head(headers=JSON_TYPE)
            await link.chunk(half)
        await link.seen.go.wait()
        link.reset() if how == "reset" else link.fin()

    stage.script(script)
    async with stage.counting("upstream_error", pool=SPEC), await stage.client() as client:
        await client.send(request(body()), "POST")
        await client.has(half)
        (await stage.spec.request()).go.set()
        reply = await client.end()
        await client.hung_up()
    assert (reply.complete, reply.closed, reply.body) == (False, True, half)
    assert len(stage.seen) == 1


@pytest.mark.parametrize(
    "junk", [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"what?\r\n\r\n", b"\x00" * 100]
)
async def test_b39_an_answer_that_is_no_http_is_never_a_success(stage: Stage, junk: bytes) -> None:
    async def script(link: Link) -> None:
        await link.raw(junk)
        await link.seen.closed.wait()

    stage.script(script)
    async with await stage.client() as client:
        reply = await client.ask(body())
    assert reply.status in {200, 502}
    assert reply.status == 502 or not reply.complete
    await stage.idle()


ERROR_EVENT = b'data: {"error":{"message":"x","type":"InternalServerError","param":null,"code":500}}\n\n'
ROLE = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
IN_BAND = {
    "after the role": [ROLE, ERROR_EVENT, DONE],
    "first of all": [ERROR_EVENT, DONE],
    "after some text": [ROLE, *EVENTS, ERROR_EVENT, DONE],
    "without an end": [ROLE, ERROR_EVENT],
    "all in one write": [ROLE + ERROR_EVENT + DONE],
    "cut anyhow": [ROLE + ERROR_EVENT[:20], ERROR_EVENT[20:33], ERROR_EVENT[33:] + DONE],
    "a word for an object": [ROLE, b'data: {"error":"x"}\n\n', DONE],
}


@pytest.mark.parametrize("pieces", IN_BAND.values(), ids=IN_BAND.keys())
async def test_b40_an_error_inside_a_stream_is_relayed_and_counted_as_the_engines(
    stage: Stage, pieces: list[bytes]
) -> None:
    stage.script(streams(pieces))
    async with stage.counting("upstream_error", pool=SPEC):
        reply = await stage.ask(body(stream=True))
    assert (reply.status, reply.body, len(stage.seen)) == (200, b"".join(pieces), 1)


@pytest.mark.parametrize("text", ['{"error": null}', 'an \\"error\\": here'])
async def test_b40_text_that_speaks_of_errors_is_no_error(stage: Stage, text: str) -> None:
    about = b'data: {"choices":[{"index":0,"delta":{"content":' + json.dumps(text).encode() + b'}}],"error":null}\n\n'
    stage.script(streams([ROLE, about, FINISH, DONE]))
    async with stage.counting("completed"):
        assert (await stage.ask(body(stream=True))).complete


ODD_BODIES = {
    "object": b'{"error":{"message":"no","type":"BadRequestError","param":null,"code":400}}',
    "word": b'{"error":"Unauthorized"}',
    "byte order mark": b'\xef\xbb\xbf{"error":{}}',
    "html": b"<html><h1>no</h1></html>",
    "empty": b"",
    "a megabyte": b"x" * 1_000_000,
    "not utf-8": b"\xff\xfe\x00",
}


REFUSALS = [
    *((400, content) for content in ODD_BODIES.values()),
    *zip([401, 403, 404, 409, 413, 422, 429, 451], itertools.cycle(ODD_BODIES.values()), strict=False),
]


@pytest.mark.parametrize(("status", "content"), REFUSALS, ids=[f"{s} {len(c)} bytes" for s, c in REFUSALS])
async def test_b43_an_engines_refusal_reaches_the_client_untouched(stage: Stage, status: int, content: bytes) -> None:
    headers = [("Content-Type", "text/odd"), ("X-Reason", "a"), ("Retry-After", "7"), ("WWW-Authenticate", "Bearer")]
    async with stage.counting("rejected_by_engine", times=2, pool=SPEC), await stage.client() as client:
        for stream in (True, False):
            stage.script(
                answers(content, status, headers) if stream else streams([content] if content else [], headers, status)
            )
            reply = await client.ask(body(stream=stream))
            assert (reply.status, reply.body, reply.complete) == (status, content, True)
            assert [reply[name] for name, _ in headers] == [value for _, value in headers]
    assert len(stage.seen) == 2
    assert set((await stage.router.health_of()).values()) == {"ready"}


@pytest.mark.parametrize("status", [204, 301, 302, 307, 308])
async def test_b43_other_statuses_pass_too_and_redirects_are_not_followed(stage: Stage, status: int) -> None:
    headers = [("Location", "http://192.0.2.1/elsewhere")]

    async def script(link: Link) -> None:
        extra = [] if status == 204 else [("Content-Length", "0")]
        await link.head(status, [*headers, *extra], chunked=False)

    stage.script(script)
    _, _, reply = await stage.routed(body())
    assert (reply.status, reply["Location"], reply.body, reply.complete) == (status, headers[0][1], b"", True)
