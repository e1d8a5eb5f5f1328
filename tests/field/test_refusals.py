"""B14, B18 and B44: what cannot be served is refused in OpenAI's shape as the client's error, and reaches no engine."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator

import openai
import psutil
import pytest
import pytest_asyncio

from tests.field.client import CHAT, HI, Client, body, refused, request
from tests.field.stage import Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

BODY_BYTES_MAX = 1_000_000
MIB = 1 << 20
SLOW_S = 1
SETTINGS = {"body_max_bytes": BODY_BYTES_MAX, "client_header_timeout_s": SLOW_S, "client_body_timeout_s": SLOW_S}
CHUNKED = (("Content-Type", "application/json"), ("Transfer-Encoding", "chunked"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A router whose limit on bodies is a megabyte, and on the patience with slow clients a second."""
    async with staged(tmp_path_factory.mktemp("router"), SETTINGS) as stage:
        yield stage


def padded_body(size: int) -> bytes:
    """A request of exactly that size."""
    return body(user="x" * (size - len(body(user=""))))


NOT_JSON = {
    "empty": b"",
    "blank": b" \r\n\t",
    "open brace": b"{",
    "close brace": b"}",
    "comma before the end": b'{"model":"m",}',
    "no quotes": b"{model:m}",
    "single quotes": b"{'model':'m'}",
    "two bytes of a mark": b"\xff\xfe\x00",
    "latin-1": b'{"model":"m","messages":[{"role":"user","content":"caf\xe9"}]}',
    "overlong": b'{"model":"m","user":"\xc0\xaf"}',
    "garbage after the end": body() + b"x",
    "second document": body() + body(),
    "cut": body()[:-1],
    "cut in a string": body()[:20],
    "control character": b'{"model":"m","user":"\x00"}',
    "bad escape": b'{"model":"m","user":"\\x41"}',
    "comment": b'{"model":"m" /* hi */}',
    "form": b"model=m&temperature=1.5",
}
NOT_A_REQUEST = {
    "array": b"[]",
    "array of requests": b"[" + body() + b"]",
    "string": b'"x"',
    "null": b"null",
    "number": b"1",
    "true": b"true",
}
NO_MODEL = {
    "number": b'{"model":5,"messages":[]}',
    "null": b'{"model":null,"messages":[]}',
    "array": b'{"model":["m"],"messages":[]}',
    "object": b'{"model":{"model":"m"},"messages":[]}',
    "true": b'{"model":true,"messages":[]}',
    "absent": b'{"messages":[]}',
    "nested": b'{"messages":[],"x":{"model":"m"}}',
    "last is null": b'{"model":"m","model":null}',
}


@pytest.mark.parametrize("content", NOT_JSON.values(), ids=NOT_JSON.keys())
async def test_b14_what_is_not_json_is_400_and_reaches_no_engine(stage: Stage, content: bytes) -> None:
    async with stage.counting("client_error"):
        error = refused(await stage.ask(content), 400)
    assert (error["type"], stage.seen) == ("invalid_request_error", [])


@pytest.mark.parametrize("content", NOT_A_REQUEST.values(), ids=NOT_A_REQUEST.keys())
async def test_b14_json_that_is_no_object_is_400(stage: Stage, content: bytes) -> None:
    error = refused(await stage.ask(content), 400)
    assert (error["type"], stage.seen) == ("invalid_request_error", [])


@pytest.mark.parametrize("content", NO_MODEL.values(), ids=NO_MODEL.keys())
async def test_b14_without_a_usable_model_it_is_400_naming_the_parameter(stage: Stage, content: bytes) -> None:
    error = refused(await stage.ask(content), 400, param="model")
    assert (error["type"], stage.seen) == ("invalid_request_error", [])


async def test_b14_a_connection_survives_the_refusal_of_a_body(stage: Stage) -> None:
    async with await stage.client() as client:
        for content in (b"{", body(), b"[]", body()):
            reply = await client.ask(content)
            assert reply.status == (200 if content == body() else 400)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"], ids=["utf-8", "utf-16-le", "utf-16-be"])
async def test_b14_a_byte_order_mark_is_never_a_500(stage: Stage, mark: bytes) -> None:
    codec = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}[mark]
    content = mark + body(temperature=1.5).decode().encode(codec)
    reply = await stage.ask(content)
    assert reply.status in {200, 400}
    assert [seen.body for seen in stage.seen] == ([content] if reply.status == 200 else [])


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/tokenize"])
async def test_b14_every_endpoint_refuses_bad_json_alike(stage: Stage, path: str) -> None:
    refused(await stage.ask(b"{", path=path), 400)
    assert stage.seen == []


@pytest.mark.parametrize(
    "path",
    ["/v1/nothing", "/", "/v1", "/v1/chat", "/v1/files", "/admin", "/metrics", "/fleet", "/docs", "/%2e%2e/metrics"],
)
async def test_b44_an_unknown_path_is_404(stage: Stage, path: str) -> None:
    refused(await stage.ask(body(), path=path), 404)
    assert stage.seen == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_b44_a_wrong_method_is_405_and_names_the_right_one(stage: Stage, method: str) -> None:
    reply = await stage.ask(None if method in {"GET", "DELETE"} else body(), method=method)
    refused(reply, 405)
    assert "POST" in reply["Allow"]
    assert stage.seen == []


async def test_b44_an_unknown_model_is_404(stage: Stage) -> None:
    error = refused(await stage.ask(body(model="nope")), 404, param="model")
    assert (error["code"], stage.seen) == ("model_not_found", [])


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: banana\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["length of words", "two lengths", "bad chunk", "no http", "tls"],
)
async def test_b44_what_is_not_http_is_400_or_a_closed_connection(stage: Stage, bytes_sent: bytes) -> None:
    async with await stage.client() as client:
        await client.send(bytes_sent)
        reply = await client.end()
        assert reply.status in {400, None}
        if reply.status is None:
            assert reply.closed
        else:
            refused(reply, 400)
    assert stage.seen == []
    assert (await stage.ask(body())).status == 200


@pytest.mark.slow
async def test_b44_the_official_client_raises_the_right_classes(stage: Stage) -> None:
    base = f"http://127.0.0.1:{stage.router.port}/v1"
    async with openai.AsyncOpenAI(base_url=base, api_key="x", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="nope", messages=HI)
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model="m", messages=HI, extra_body={"model": 5})
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x" * BODY_BYTES_MAX}]
            )
    assert caught.value.status_code == 413
    assert caught.value.type == "invalid_request_error"


async def test_b44_errors_are_the_same_whether_or_not_a_stream_was_asked_for(stage: Stage) -> None:
    for stream in (True, False):
        refused(await stage.ask(body(model="nope", stream=stream)), 404, param="model")


async def test_b44_a_head_request_gets_a_head_only(stage: Stage) -> None:
    async with await Client.connect(stage.router.port) as client:
        await client.send(request(None, method="HEAD", path=CHAT), "HEAD")
        reply = await client.head()
    assert (reply.status, reply.body) == (405, b"")


async def test_b44_the_message_of_an_error_is_ascii_json_whatever_was_sent(stage: Stage) -> None:
    reply = await stage.ask(json.dumps({"model": "\u202e<script>\n\r" + "x" * 9000}).encode())
    assert refused(reply, 404, param="model")["message"].isprintable()
    assert len(reply.body) < 1000


@pytest.mark.parametrize("size", [BODY_BYTES_MAX - 1, BODY_BYTES_MAX])
async def test_b18_up_to_the_limit_every_byte_arrives(stage: Stage, size: int) -> None:
    content = padded_body(size)
    _, seen, reply = await stage.routed(content)
    assert (seen.sha256, reply.status) == (hashlib.sha256(content).hexdigest(), 200)


async def test_b18_one_byte_more_is_413_told_counted_and_logged(stage: Stage) -> None:
    async with stage.counting("client_error"):
        reply = await stage.ask(padded_body(BODY_BYTES_MAX + 1))
    assert (reply.status, reply["Content-Type"], stage.seen) == (413, "application/json", [])
    assert str(BODY_BYTES_MAX) in reply.json()["error"]["message"]
    await stage.router.logged(r"\b413\b")


async def test_b18_a_length_of_ten_gigabytes_is_refused_before_any_body(stage: Stage) -> None:
    headers = (("Content-Type", "application/json"), ("Content-Length", "10000000000"))
    async with await stage.client() as client:
        await client.send(request(headers=headers), "POST")
        assert (await client.end()).status == 413
        await client.hung_up()


async def test_b18_an_expected_continue_is_not_given_for_what_is_too_large(stage: Stage) -> None:
    headers = (("Content-Length", str(BODY_BYTES_MAX + 1)), ("Expect", "100-continue"))
    async with await stage.client() as client:
        await client.send(request(headers=headers), "POST")
        reply = await client.end()
    assert (reply.status, b" 100 " in reply.raw) == (413, False)


async def test_b18_a_chunked_body_without_end_is_refused_at_the_limit(stage: Stage) -> None:
    process = psutil.Process(stage.router.pid)
    before = process.memory_info().rss
    block = b"10000\r\n" + b"a" * 65_536 + b"\r\n"
    sent = 0
    async with await stage.client() as client:
        await client.send(request(headers=CHUNKED), "POST")
        answer = asyncio.create_task(client.end())
        while not answer.done() and sent < 200 * MIB:
            try:
                await client.send(block)
            except ConnectionError:
                break
            sent += len(block)
            await asyncio.sleep(0)
        reply = await answer
    assert reply.status == 413
    assert process.memory_info().rss - before < 32 * MIB
    assert stage.seen == []


async def test_b18_a_refused_upload_leaves_the_next_connection_alone(stage: Stage) -> None:
    await stage.ask(padded_body(BODY_BYTES_MAX + 1))
    async with await Client.connect(stage.router.port) as client:
        assert (await client.ask(body())).status == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "part",
    [b"POST /v1/chat/comp", request(headers=CHUNKED), request(headers=CHUNKED) + b"5\r\n{"],
    ids=["within the head", "after the head", "within the body"],
)
async def test_b15_a_client_that_stalls_is_let_go_and_reaches_no_engine(stage: Stage, part: bytes) -> None:
    async with await stage.client() as client:
        await client.send(part, "POST")
        reply = await client.end()
        assert reply.status in {408, None}
        await client.hung_up()
    assert stage.seen == []
