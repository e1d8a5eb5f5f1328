"""B65, B67 and B69: nothing that a client writes chooses an upstream, splits a log line or makes a new time series."""

import asyncio
import contextlib
import json
import random
import re
import string
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.field.client import CHAT, JSON, body, refused, request
from tests.field.scripted_engine import Engine
from tests.field.scripts import PATIENCE_S, Link, answers
from tests.field.stage import SPEC, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def trap() -> AsyncIterator[Engine]:
    """A server that nobody configured: whoever connects to it was led there by a client."""
    engine = Engine("trap")
    await engine.listen()
    yield engine
    await engine.refuse()


@pytest.mark.parametrize(
    "model", ["http://TRAP/x", "openai/m@TRAP", "//TRAP/m", "m@TRAP", "m\r\nHost: TRAP", "m#TRAP", "file:///etc/passwd"]
)
async def test_b65_a_model_name_is_no_address(stage: Stage, trap: Engine, model: str) -> None:
    name = model.replace("TRAP", f"127.0.0.1:{trap.port}")
    reply = await stage.ask(body(model=name))
    assert (reply.status, reply.json()["error"]["code"]) == (404, "model_not_found")
    assert (stage.seen, trap.requests, len(trap.connections)) == ([], [], 0)


async def test_b65_addresses_and_keys_in_the_body_are_plain_data(stage: Stage, trap: Engine) -> None:
    fields = dict.fromkeys(("api_base", "base_url", "api_url", "endpoint", "proxy", "backend"), trap.url)
    content = body(**fields, api_key="sk-other", headers={"Authorization": "x"}, pool="baseline")
    pool, seen, _ = await stage.routed(content)
    assert (pool, seen.body, seen.values("authorization")) == (SPEC, content, [])
    assert (trap.requests, len(trap.connections)) == ([], 0)


async def test_b65_headers_choose_no_upstream(stage: Stage, trap: Engine) -> None:
    names = (
        "X-Backend",
        "X-Forwarded-Host",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Breakeven-Backend",
        "X-Breakeven-Pool",
    )
    headers = [*JSON, *((name, trap.url) for name in names), ("Forwarded", f"host=127.0.0.1:{trap.port}")]
    pool, seen, reply = await stage.routed(body(), headers=headers, host=f"127.0.0.1:{trap.port}")
    assert (pool, reply["x-breakeven-pool"]) == (SPEC, SPEC)
    assert seen.values("host") != [f"127.0.0.1:{trap.port}"]
    assert (trap.requests, len(trap.connections)) == ([], 0)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_b65_a_redirect_is_passed_on_and_not_followed(stage: Stage, trap: Engine, status: int) -> None:
    stage.script(answers(b"", status, [("Location", f"{trap.url}{CHAT}")]))
    _, _, reply = await stage.routed(body())
    assert (reply.status, reply["Location"]) == (status, f"{trap.url}{CHAT}")
    assert (trap.requests, len(trap.connections)) == ([], 0)


@pytest.mark.parametrize(
    "target", ["http://TRAP/v1/chat/completions", "//TRAP/v1/chat/completions", "*", "/v1/../metrics"]
)
async def test_b65_a_target_with_a_host_in_it_leads_nowhere_else(stage: Stage, trap: Engine, target: str) -> None:
    reply = await stage.ask(body(), path=target.replace("TRAP", f"127.0.0.1:{trap.port}"))
    assert reply.status in {200, 400, 404, 405}
    assert all(seen.target == CHAT for seen in stage.seen)
    assert (trap.requests, len(trap.connections)) == ([], 0)


async def test_b65_connect_is_no_way_through(stage: Stage, trap: Engine) -> None:
    async with await stage.client() as client:
        target = f"127.0.0.1:{trap.port}"
        await client.send(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode(), "POST")
        reply = await client.end()
    assert reply.status in {400, 404, 405, 501, None}
    assert len(trap.connections) == 0


async def test_b65_a_second_request_smuggled_in_a_body_stays_a_body(stage: Stage) -> None:
    hidden = b"GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    ambiguous = head + f"Content-Length: {len(hidden) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with await stage.client() as client:
        await client.send(ambiguous.encode() + b"0\r\n\r\n" + hidden, "POST")
        assert (await client.end()).status == 400
        await client.hung_up()
    assert stage.seen == []


@pytest.mark.parametrize(
    "header",
    [
        b"Transfer-Encoding : chunked",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: chunked, gzip",
        b" X: folded",
    ],
)
async def test_b65_framing_that_two_readers_could_read_differently_is_refused(stage: Stage, header: bytes) -> None:
    message = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n0\r\n\r\n"
    async with await stage.client() as client:
        await client.send(message, "POST")
        reply = await client.end()
    assert reply.status in {400, 501, None}
    assert stage.seen == []


async def identified(stage: Stage, headers: list[tuple[str, str]]) -> str:
    """The request id that the engine, the client and the log agree upon."""
    _, seen, reply = await stage.routed(body(), headers=[*JSON, *headers])
    chosen = reply["x-request-id"]
    assert seen.values("x-request-id") == [chosen]
    await stage.router.logged(re.escape(chosen))
    return chosen


async def test_b67_without_an_id_one_is_made(stage: Stage) -> None:
    made = [await identified(stage, []) for _ in range(3)]
    assert len(set(made)) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{8,128}", each) for each in made)


@pytest.mark.parametrize("given", ["abc", "0", "A-b_c.9", "x" * 128, "req:1", "550e8400-e29b-41d4-a716-446655440000"])
async def test_b67_a_given_id_is_kept(stage: Stage, given: str) -> None:
    assert await identified(stage, [("X-Request-Id", given)]) == given


@pytest.mark.parametrize(
    "given", ["x" * 129, "x" * 5000, 'a"b', "a\\b", "a b", "a\tb", "ü", "😀", "a%0d%0ab{}", "<script>", ""]
)
async def test_b67_an_id_that_is_long_or_odd_is_replaced(stage: Stage, given: str) -> None:
    made = await identified(stage, [("x-request-id", given)])
    assert re.fullmatch(r"[A-Za-z0-9._:-]{8,128}", made)


async def test_b67_an_id_of_a_megabyte_reaches_nobody(stage: Stage) -> None:
    async with await stage.client() as client:
        with contextlib.suppress(ConnectionError):
            await client.send(request(body(), headers=[*JSON, ("X-Request-Id", "x" * 1_000_000)]), "POST")
        reply = await client.end()
    assert reply.status in {200, 400, 413, 431, None}
    assert all(len(seen.raw) < 10_000 for seen in stage.seen)
    assert not any("x" * 200 in line for line in stage.router.log)


async def test_b67_two_ids_do_not_become_two_headers(stage: Stage) -> None:
    assert await identified(stage, [("X-Request-Id", "one"), ("X-Request-Id", "two")]) != ""


async def test_b67_the_same_id_twice_at_once_serves_both(stage: Stage) -> None:
    headers = [*JSON, ("X-Request-Id", "twin")]

    async def together(link: Link) -> None:
        await link.seen.go.wait()
        await answers()(link)

    stage.script(together)
    asks = [asyncio.create_task(stage.ask(body(), headers=headers)) for _ in range(2)]
    for number in (1, 2):
        await stage.spec.request(number)
    for seen in stage.spec.requests:
        seen.go.set()
    for reply in await asyncio.gather(*asks):
        assert (reply.status, reply["x-request-id"]) == (200, "twin")


async def test_b67_an_id_survives_failover(stage: Stage) -> None:
    async def script(link: Link) -> None:
        await answers(status=503 if len(stage.seen) == 1 else 200)(link)

    stage.script(script)
    reply = await stage.ask(body(), headers=[*JSON, ("X-Request-Id", "moved")])
    assert [seen.values("x-request-id") for seen in stage.seen] == [["moved"], ["moved"]]
    assert reply["x-request-id"] == "moved"


async def test_b67_an_own_error_has_an_id_too(stage: Stage) -> None:
    reply = await stage.ask(b"{", headers=[*JSON, ("X-Request-Id", "bad")])
    assert reply["x-request-id"] == "bad"
    refused(reply, 400)


def hostile(rng: random.Random, number: int) -> tuple[str, bytes, list[tuple[str, str]], str]:
    """Method, body, headers and path of one request that tries to make a time series of its own."""
    word = "".join(rng.choices(string.ascii_letters + '"\\\n{}=, \ud83dé', k=12))
    model = rng.choice([word, "m", "x" * 10_240, f"m-{number}"])
    content = json.dumps({"model": model, "messages": [], "user": word, "temperature": rng.random() * 2}).encode()
    method = rng.choice(["POST", "POST", "POST", "FOO", "GET", f"M{number}"])
    path = rng.choice([CHAT, CHAT, f"/v1/{number}", "/v1/completions"])
    return method, content, [*JSON, ("X-Request-Id", f"id-{number}")], path


@pytest.mark.slow
async def test_b69_no_client_makes_new_time_series(stage: Stage) -> None:
    rng = random.Random(69)  # noqa: S311 - a repeatable draw, no secret
    for number in range(100):
        method, content, headers, path = hostile(rng, number)
        await stage.ask(content, method=method, headers=headers, path=path)
    before = await stage.router.samples()
    for number in range(100, 900):
        method, content, headers, path = hostile(rng, number)
        await stage.ask(content, method=method, headers=headers, path=path)
    page = (await stage.router.get("/metrics", admin=True)).body
    after = await stage.router.samples()
    assert {key for key in after if key not in before} == set()
    assert len(page) < 100_000


@pytest.mark.slow
async def test_b69_a_stranger_in_the_engines_pages_makes_no_series_either(stage: Stage) -> None:
    read = asyncio.Event()
    page = b"".join(b'vllm:num_requests_running{engine="%d",model_name="m%d"} 1\n' % (n, n) for n in range(3000))

    async def script(link: Link) -> None:
        await answers(page, headers=[("Content-Type", "text/plain")])(link)
        read.set()

    stage.base.probes["/metrics"] = script
    for _ in range(2):  # the second read comes after the first has been taken in
        read.clear()
        await asyncio.wait_for(read.wait(), PATIENCE_S)
    assert (await stage.ask(body())).status == 200
    assert len((await stage.router.get("/metrics", admin=True)).body) < 100_000
