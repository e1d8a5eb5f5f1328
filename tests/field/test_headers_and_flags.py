"""B20 and B22: media types and the stream flag are the engine's to judge; the router takes both as they come."""

import asyncio
import gzip
import json
import zlib

import pytest

from tests.field.client import CHAT, JSON, body, raw_body, request
from tests.field.scripts import Link, answers, streams
from tests.field.stage import BASE, SPEC, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVENTS = [b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', b"data: [DONE]\n\n"]


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["text/plain"],
        ["application/x-www-form-urlencoded"],
        ["application/json; charset=utf-8"],
        ["APPLICATION/JSON"],
        ["application/json ; charset=utf-8"],
        ["application/json; charset=latin-1"],
        ["application/json", "application/json"],
        ["application/json", "text/plain"],
        ["application/vnd.api+json"],
        [""],
        ["multipart/form-data"],
    ],
)
async def test_b20_the_content_type_goes_on_as_received(stage: Stage, values: list[str]) -> None:
    verdict = b'{"error":{"message":"Unsupported Media Type","type":"BadRequestError","param":null,"code":415}}'
    stage.base.script = answers(verdict, 415)
    pool, seen, reply = await stage.routed(body(temperature=1.5), headers=[("Content-Type", value) for value in values])
    assert (pool, seen.values("content-type")) == (BASE, values)
    assert (reply.status, reply.body) == (415, verdict)


async def test_b20_json_with_charset_works(stage: Stage) -> None:
    _, _, reply = await stage.routed(body(), headers=[("Content-Type", "application/json; charset=utf-8")])
    assert reply.status == 200


@pytest.mark.parametrize(
    "flag", ["true", '"true"', '"yes"', '"1"', "1", '"True"', '"on"', "2", '"no"', "false", "null"]
)
async def test_b22_whether_it_streams_is_told_by_the_answer(stage: Stage, flag: str) -> None:
    """The first event must be out before the engine writes the second, whatever the flag looked like."""
    more = asyncio.Event()

    async def script(link: Link) -> None:
        await link.head()
        await link.chunk(EVENTS[0])
        await more.wait()
        await link.chunk(EVENTS[1])
        await link.end()

    stage.script(script)
    content = raw_body(f'"stream":{flag},"temperature":0.5')
    async with await stage.client() as client:
        await client.send(request(content), "POST")
        await client.has(EVENTS[0])
        more.set()
        reply = await client.end()
    assert (reply.body, reply.complete) == (b"".join(EVENTS), True)
    assert [seen.body for seen in stage.spec.requests] == [content]


@pytest.mark.parametrize("members", ['"stream":true', '"stream":"true"', '"stream":1', '"stream":false', ""])
async def test_b22_nothing_is_injected_into_the_request(stage: Stage, members: str) -> None:
    content = raw_body(members)
    _, seen, _ = await stage.routed(content)
    assert (seen.body, b"stream_options" in seen.raw) == (content, False)


async def test_b22_a_json_answer_to_a_stream_request_stays_json(stage: Stage) -> None:
    stage.script(answers(b'{"x":1}'))
    _, _, reply = await stage.routed(body(stream=True))
    assert (reply.body, reply["Content-Type"], reply["Content-Length"]) == (b'{"x":1}', "application/json", "7")


async def test_hop_by_hop_headers_stay_on_their_hop_and_others_travel(stage: Stage) -> None:
    headers = [
        *JSON,
        ("Connection", "keep-alive, X-Private"),
        ("X-Private", "1"),
        ("Keep-Alive", "timeout=5"),
        ("TE", "trailers"),
        ("Proxy-Authorization", "Basic eDp5"),
        ("X-Custom", "a"),
        ("X-Custom", "b"),
        ("User-Agent", "tester/1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ]
    answer_headers = [
        ("Content-Type", "application/json"),
        ("Connection", "close, X-Hop"),
        ("X-Hop", "1"),
        ("X-Reason", "a"),
    ]
    stage.script(answers(b"{}", headers=answer_headers))
    _, seen, reply = await stage.routed(body(), headers=headers)
    for name in ("x-private", "keep-alive", "te", "proxy-authorization"):
        assert seen.values(name) == []
    assert (seen.values("x-custom"), seen.values("user-agent")) == (["a", "b"], ["tester/1"])
    assert (len(seen.values("traceparent")), len(seen.values("host"))) == (1, 1)
    assert (reply.values("x-hop"), reply["x-reason"]) == ([], "a")


async def test_b15_an_offer_to_upgrade_costs_nobody_the_body(stage: Stage) -> None:
    """Java's own client and `curl --http2` offer h2c with every first request over plain HTTP, bodies included."""
    offer = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABkAAQAAP__")]
    content = body(temperature=1.5)
    pool, seen, reply = await stage.routed(content, headers=[*JSON, *offer])
    assert (pool, seen.body, reply.status) == (BASE, content, 200)
    assert (seen.values("upgrade"), seen.values("http2-settings")) == ([], [])


async def test_a_query_string_travels_with_the_path(stage: Stage) -> None:
    _, seen, _ = await stage.routed(body(), path=f"{CHAT}?a=1&b=%2F")
    assert seen.target == f"{CHAT}?a=1&b=%2F"


@pytest.mark.parametrize("asked", ["gzip", None])
@pytest.mark.parametrize("willing", [True, False], ids=["compresses when asked", "compresses always"])
async def test_b30_nothing_is_labelled_gzip_that_is_not_and_nothing_packed_that_was_not_asked_for(
    stage: Stage, asked: str | None, willing: bool
) -> None:
    plain = b'{"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}' * 20
    packed = gzip.compress(plain)

    async def script(link: Link) -> None:
        wants = any("gzip" in value for value in link.seen.values("accept-encoding"))
        pack = wants or not willing
        content, coding = (packed, [("Content-Encoding", "gzip")]) if pack else (plain, [])
        await answers(content, headers=[("Content-Type", "application/json"), *coding])(link)

    stage.script(script)
    headers = [*JSON, ("Accept-Encoding", asked)] if asked else list(JSON)
    _, _, reply = await stage.routed(body(), headers=headers)
    is_packed = reply.values("content-encoding") == ["gzip"]
    assert (gzip.decompress(reply.body) if is_packed else reply.body) == plain
    assert reply.values("Content-Length") in (
        [],
        [str(len(reply.body))],
    )  # unknown where it is unpacked
    assert reply.complete
    assert asked is not None or not is_packed


@pytest.mark.parametrize("asked", [[("Accept-Encoding", "gzip")], []], ids=["asked for", "not asked for"])
async def test_b30_a_packed_stream_arrives_event_by_event(stage: Stage, asked: list[tuple[str, str]]) -> None:
    """Flushed by the engine after each event, so that the client can unpack each before the next is written."""
    more = asyncio.Event()
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(EVENTS[0]) + packer.flush(zlib.Z_SYNC_FLUSH)
    second = packer.compress(EVENTS[1]) + packer.flush()

    async def script(link: Link) -> None:
        await link.head(headers=[("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip")])
        await link.chunk(first)
        await more.wait()
        await link.chunk(second)
        await link.end()

    stage.script(script)
    async with await stage.client() as client:
        await client.send(request(body(stream=True), headers=[*JSON, *asked]), "POST")
        reply = await client.head()
        await client.has(first if reply.values("content-encoding") else EVENTS[0])
        more.set()
        await client.end()
    unpacked = gzip.decompress(reply.body) if reply.values("content-encoding") else reply.body
    assert (unpacked, reply.complete) == (b"".join(EVENTS), True)
    assert asked or not reply.values("content-encoding")


@pytest.mark.parametrize("media_type", ["application/json", "text/event-stream"])
async def test_b30_a_packed_answer_cut_off_is_a_failure_and_no_empty_200(stage: Stage, media_type: str) -> None:
    packed = gzip.compress(json.dumps(list(range(3000))).encode())
    cut = asyncio.Event()

    async def script(link: Link) -> None:
        await link.head(headers=[("Content-Type", media_type), ("Content-Encoding", "gzip")])
        await link.chunk(packed[:1000])
        await cut.wait()
        link.fin()

    stage.script(script)
    async with stage.counting("upstream_error", pool=SPEC), await stage.client() as client:
        await client.send(request(body(), headers=[*JSON, ("Accept-Encoding", "gzip")]), "POST")
        await client.has(packed[:1000])
        cut.set()
        reply = await client.end()
        assert (reply.complete, reply.closed, reply.body) == (False, True, packed[:1000])


@pytest.mark.parametrize("how", ["cut", "torn"])
async def test_b30_a_packed_stream_cut_off_for_a_client_that_reads_plain_events_is_told(stage: Stage, how: str) -> None:
    """`cut`: the connection ends; `torn`: the body ends as HTTP, but its gzip stream does not."""
    packer = zlib.compressobj(wbits=31)
    first = packer.compress(EVENTS[0]) + packer.flush(zlib.Z_SYNC_FLUSH)

    async def script(link: Link) -> None:
        await link.head(headers=[("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip")])
        await link.chunk(first)
        await link.seen.go.wait()
        if how == "torn":
            await link.end()
        else:
            link.fin()

    stage.script(script)
    async with stage.counting("upstream_error", pool=SPEC), await stage.client() as client:
        await client.send(request(body(stream=True)), "POST")
        await client.has(EVENTS[0])
        stage.spec.requests[0].go.set()
        reply = await client.end()
    assert reply.body.startswith(EVENTS[0] + b'data: {"error":')
    assert reply.body.endswith(EVENTS[1])


async def test_b30_a_packed_document_that_is_torn_is_not_complete_for_a_client_of_plain_json(
    stage: Stage,
) -> None:
    packed = gzip.compress(json.dumps(list(range(3000))).encode())
    stage.script(streams([packed[:1000]], [("Content-Type", "application/json"), ("Content-Encoding", "gzip")]))
    async with stage.counting("upstream_error", pool=SPEC):
        reply = await stage.ask(body())
    assert (reply.complete, reply.closed) == (False, True)


@pytest.mark.parametrize(
    ("status", "media_type", "content"),
    [
        (200, "application/json", b'{"a":1}'),
        (200, "text/html", b"<p>hi"),
        (200, "audio/mpeg", bytes(range(256)) * 10),
        (200, None, b"data: x"),
        (200, "text/event-stream", b"data: [DONE]\n\n"),
        (200, "TEXT/EVENT-STREAM; charset=UTF-8", b": hi\n\ndata: [DONE]\n\n"),
        (206, "application/octet-stream", b"\x00\xff"),
    ],
)
async def test_b32_status_type_and_bytes_are_as_the_engine_sent_them(
    stage: Stage, status: int, media_type: str | None, content: bytes
) -> None:
    headers = [("Content-Type", media_type)] if media_type else []
    for script in (answers(content, status, headers), streams([content[:3], content[3:]], headers, status)):
        stage.script(script)
        _, _, reply = await stage.routed(body(stream=True))
        assert (reply.status, reply.body, reply.complete) == (status, content, True)
        assert reply.values("content-type") == ([media_type] if media_type else [])
