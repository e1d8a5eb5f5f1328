"""B46, B48, B49 and B59: another engine is tried only while nothing has been said and nothing can be done twice."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import pytest_asyncio

from tests.field.client import HI, body, refused, request
from tests.field.scripted_engine import Engine
from tests.field.scripts import ANSWER, Link, Script, answers, hangs
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIRST_BYTE_S = 0.4
CONNECT_S = 0.4
IDLE_S = 1.2
SLOW_PROBES = {"probe_interval_s": 60, "models_interval_s": 60, "scrape_interval_s": 60}
"""So that the router learns of a dead engine from the request under test and from nothing else."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Three speculative engines and one baseline engine; a head must come within the first-byte limit.

    Probes come once a second, so that most requests meet a dead engine before a probe does.
    """
    spec = [Engine(f"{SPEC}-{number}") for number in range(3)]
    limits = {"first_byte_timeout_s": FIRST_BYTE_S, "connect_timeout_s": CONNECT_S, "idle_timeout_s": IDLE_S}
    async with staged(tmp_path_factory.mktemp("router"), {**limits, "probe_interval_s": 1}, spec=spec) as stage:
        yield stage


def first_fails(stage: Stage, how: Script) -> None:
    """Whichever engine is asked first fails that way; every other answers."""

    async def script(link: Link) -> None:
        await (how if len(stage.seen) == 1 else answers())(link)

    stage.script(script)


async def reset_before_head(link: Link) -> None:
    link.reset()


async def close_before_head(link: Link) -> None:
    link.fin()


async def half_a_head(link: Link) -> None:
    await link.raw(b"HTTP/1.1 200 OK\r\nContent-Ty")
    link.fin()


BEFORE_THE_HEAD = {
    "reset": reset_before_head,
    "closed": close_before_head,
    "half a head": half_a_head,
    "503": answers(b'{"error":"loading"}', 503),
    "502": answers(b"<h1>bad gateway</h1>", 502, [("Content-Type", "text/html")]),
}


@pytest.mark.parametrize("how", BEFORE_THE_HEAD.values(), ids=BEFORE_THE_HEAD.keys())
@pytest.mark.parametrize("stream", [True, False])
async def test_b46_a_failure_before_the_head_is_answered_by_another_engine(
    stage: Stage, how: Script, stream: bool
) -> None:
    first_fails(stage, how)
    content = body(stream=stream, temperature=0.5)
    async with stage.counting("completed"):
        reply = await stage.ask(content)
    assert (reply.status, reply.body, reply.raw.count(b"HTTP/1.1 ")) == (200, ANSWER, 1)
    assert [seen.body for seen in stage.seen] == [content, content]
    answered = next(engine for engine in stage.all_engines if engine.name == reply["x-breakeven-backend"])
    first = min(stage.seen, key=lambda seen: seen.arrived_s)
    if not first.reused:  # a kept connection that breaks is no news of the engine: one fresh connection to the same one
        assert first not in answered.requests


async def test_b46_a_head_without_a_body_may_fail_over_only_if_the_client_saw_nothing(stage: Stage) -> None:
    async def head_only(link: Link) -> None:
        await link.head()
        link.reset()

    first_fails(stage, head_only)
    reply = await stage.ask(body(stream=True, temperature=0.5))
    if len(stage.seen) == 2:
        assert (reply.status, reply.body) == (200, ANSWER)
    else:
        assert reply.status == 502 or b"upstream_error" in reply.body or not reply.complete


async def test_b46_after_the_first_event_nobody_else_is_asked(stage: Stage) -> None:
    event = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

    async def one_event(link: Link) -> None:
        await link.head()
        await link.chunk(event)
        await link.seen.go.wait()
        link.reset()

    first_fails(stage, one_event)
    async with stage.counting("upstream_error"), await stage.client() as client:
        await client.send(request(body(stream=True, temperature=0.5)), "POST")
        await client.has(event)
        stage.seen[0].go.set()
        reply = await client.end()
    assert reply.body.startswith(event)
    assert b"upstream_error" in reply.body
    assert len(stage.seen) == 1


@pytest.mark.parametrize("status", [502, 503])
async def test_b49_engines_that_all_fail_are_asked_three_times_at_most(stage: Stage, status: int) -> None:
    stage.script(answers(b'{"error":"no"}', status, [("Content-Type", "application/json"), ("X-Reason", "a")]))
    async with stage.counting("upstream_error"):
        reply = await stage.ask(body(temperature=0.5))
    assert reply.status in {502, 503}
    assert 1 <= len(stage.seen) <= 3
    assert max(len(engine.requests) for engine in stage.all_engines) == 1


async def test_b49_engines_that_all_break_make_a_502(stage: Stage) -> None:
    stage.script(reset_before_head)
    async with stage.counting("upstream_error"):
        refused(await stage.ask(body(temperature=0.5)), 502)
    assert (
        max(len(engine.requests) for engine in stage.all_engines) <= 2
    )  # one of them on a connection kept from before


async def test_b49_an_answer_that_is_no_http_is_no_reason_to_ask_the_same_engine_again(stage: Stage) -> None:
    """The engine has spoken, so its connection was not stale, and the request may have been served."""

    async def nonsense(link: Link) -> None:
        await link.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}")
        await link.seen.closed.wait()

    for _ in range(12):  # afterwards connections are kept open to most engines
        assert (await stage.ask(body(temperature=0.5))).status == 200
    asked = {engine.name: len(engine.requests) for engine in stage.all_engines}
    stage.script(nonsense)
    assert (await stage.ask(body(temperature=0.5))).status == 502
    assert max(len(engine.requests) - asked[engine.name] for engine in stage.all_engines) == 1


async def test_b49_a_request_that_kills_two_engines_is_not_given_to_a_third(stage: Stage) -> None:
    """Also where the connections were kept ones, on which a killed engine looks merely stale."""
    for _ in range(12):
        assert (await stage.ask(body(temperature=0.5))).status == 200
    asked = {engine.name: len(engine.requests) for engine in stage.all_engines}

    async def dies(link: Link) -> None:
        victim = next(engine for engine in stage.all_engines if link.seen in engine.requests)
        refusing.append(asyncio.create_task(victim.refuse()))
        await link.seen.closed.wait()

    refusing: list[asyncio.Task[None]] = []
    stage.script(dies)
    async with stage.counting("upstream_error"):
        refused(await stage.ask(body(temperature=0.5)), 502)
    await asyncio.gather(*refusing)
    killed = [engine for engine in stage.all_engines if len(engine.requests) > asked[engine.name]]
    assert len(killed) == 2
    for engine in killed:
        await engine.listen()


@pytest.mark.parametrize("status", [400, 404, 429, 500, 501, 504])
async def test_b49_a_verdict_is_passed_on_after_one_call(stage: Stage, status: int) -> None:
    headers = [("Content-Type", "application/json"), ("Retry-After", "9"), ("x-ratelimit-remaining-requests", "0")]
    stage.script(answers(b'{"error":{"message":"slow down"}}', status, headers))
    reply = await stage.ask(body(temperature=0.5))
    assert (reply.status, reply.body, len(stage.seen)) == (status, b'{"error":{"message":"slow down"}}', 1)
    assert [reply[name] for name, _ in headers] == [value for _, value in headers]


async def test_b46_a_500_of_an_engine_that_is_not_healthy_counts_as_503(stage: Stage) -> None:
    """The engine that answers 500 also says 503 to /health; the decision table lets that one be tried elsewhere."""

    async def script(link: Link) -> None:
        if len(stage.seen) > 1:
            await answers()(link)
            return
        sick = next(engine for engine in stage.all_engines if engine.requests)
        sick.probes["/health"] = answers(b"", 503, ())
        await answers(b'{"error":"EngineDeadError"}', 500)(link)

    stage.script(script)
    reply = await stage.ask(body(temperature=0.5))
    assert (reply.status, len(stage.seen)) == (200, 2)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
async def test_b48_an_engine_that_never_answers_is_504_and_is_not_asked_twice(stage: Stage, stream: bool) -> None:
    stage.script(hangs)
    asked_s = time.monotonic()
    async with stage.counting("upstream_timeout"):
        reply = await stage.ask(body(stream=stream, temperature=0.5))
    assert time.monotonic() - asked_s >= FIRST_BYTE_S
    error = refused(reply, 504)
    assert (error["code"], len(stage.seen)) == ("upstream_timeout", 1)
    await stage.seen[0].left()


@pytest.mark.slow
async def test_b44_the_official_client_tells_a_timeout_from_an_engines_limit(stage: Stage) -> None:
    base_url = f"http://127.0.0.1:{stage.router.port}/v1"
    async with openai.AsyncOpenAI(base_url=base_url, api_key="x", max_retries=0) as client:
        stage.script(hangs)
        with pytest.raises(openai.InternalServerError) as timeout:
            await client.chat.completions.create(model="m", messages=HI)
        stage.script(answers(b'{"error":{"message":"slow down"}}', 429))
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="m", messages=HI)
    assert timeout.value.status_code == 504


@pytest.mark.slow
async def test_b48_slow_events_are_no_reason_to_stop(stage: Stage) -> None:
    """The limit on the head is none on the events: their silence is measured by the idle limit alone."""

    async def script(link: Link) -> None:
        await link.head()
        await asyncio.sleep(2 * FIRST_BYTE_S)  # the case: a pause longer than the first-byte limit
        await link.chunk(b"data: [DONE]\n\n")
        await link.end()

    stage.script(script)
    assert (await stage.ask(body(stream=True))).body == b"data: [DONE]\n\n"


@pytest.mark.slow
async def test_b48_silence_beyond_the_idle_limit_is_told_and_the_engine_released(stage: Stage) -> None:
    event = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

    async def script(link: Link) -> None:
        await link.head()
        await link.chunk(event)
        await link.seen.closed.wait()

    stage.script(script)
    async with stage.counting("upstream_timeout"):
        reply = await stage.ask(body(stream=True, temperature=0.5))
    assert reply.body.startswith(event + b'data: {"error":')
    assert reply.body.endswith(b"data: [DONE]\n\n")
    await stage.seen[0].left()
    assert len(stage.seen) == 1


@pytest.mark.slow
async def test_b48_a_limit_on_the_whole_ends_silence_and_endless_streams_alike(tmp_path_factory: Any) -> None:
    """It is off unless configured; whatever it ends is tried nowhere else."""
    event = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

    async def endless(link: Link) -> None:
        await link.head()
        while not link.seen.closed.is_set():
            await link.chunk(event)
            await asyncio.sleep(0.02)  # the case: bytes flow all the time

    async with staged(tmp_path_factory.mktemp("total"), {"total_timeout_s": 0.5}) as stage:
        stage.script(hangs)
        async with stage.counting("total_timeout"):
            assert refused(await stage.ask(body(temperature=0.5)), 504)["code"] == "total_timeout"
        await stage.seen[0].left()
        stage.script(endless)
        async with stage.counting("total_timeout"):
            reply = await stage.ask(body(stream=True, temperature=0.5))
        assert reply.body.startswith(event)
        assert b'"code":"total_timeout"' in reply.body
        assert reply.body.endswith(b"data: [DONE]\n\n")
        await stage.seen[1].left()
        assert len(stage.seen) == 2
        stage.script(answers())
        assert (await stage.ask(body())).status == 200


async def test_b46_a_kept_connection_that_died_unseen_costs_no_second_engine(stage: Stage) -> None:
    """Every engine closes its connection right after an answer, as vLLM does after five idle seconds."""

    async def answer_and_close(link: Link) -> None:
        await answers()(link)
        link.fin()

    stage.script(answer_and_close)
    for number in range(1, 9):
        assert (await stage.ask(body(temperature=0.5))).status == 200
        assert len(stage.seen) == number


@contextlib.asynccontextmanager
async def dead(stage: Stage, *engines: Engine) -> AsyncIterator[None]:
    """Inside, nothing listens on the ports of these engines."""
    for engine in engines:
        await engine.refuse()
    try:
        yield
    finally:
        for engine in engines:
            await engine.listen()


@pytest.mark.slow
async def test_b46_a_refused_connection_is_answered_by_the_other_pool_at_once(stage: Stage) -> None:
    speculative = [engine for engine in stage.all_engines if engine is not stage.base]
    async with dead(stage, *speculative):
        for _ in range(3):
            pool, _, reply = await stage.routed(body(temperature=0.5))
            assert (pool, reply.status) == (BASE, 200)
        health = await stage.router.health_of()
        assert {engine.name for engine in speculative if health[engine.name] == "ready"} == set()


@pytest.mark.slow
async def test_b46_baseline_dead_falls_to_speculation_except_for_what_that_refuses(stage: Stage) -> None:
    async with dead(stage, stage.base):
        first, second = [await stage.ask(body(temperature=1.5, min_p=0.05)) for _ in range(2)]
        assert first.status in {502, 503}  # the router may learn of the death from this very request
        assert int(second["Retry-After"]) >= 1
        refused(second, 503)
        assert stage.seen == []
        pool, _, reply = await stage.routed(body(temperature=1.5))
        assert (pool, reply.status) == (SPEC, 200)


@pytest.mark.slow
async def test_b59_with_everything_down_the_answer_is_503_and_the_process_lives(stage: Stage) -> None:
    async with dead(stage, *stage.all_engines):
        for engine in stage.all_engines:
            await stage.router.lost(engine.name)
        async with stage.counting("refused", times=2):
            for stream in (True, False):
                reply = await stage.ask(body(stream=stream))
                error = refused(reply, 503)
                assert (error["type"], error["code"]) == ("service_unavailable", "no_backend")
                assert int(reply["Retry-After"]) >= 1
        assert ((await stage.router.get("/health")).status, (await stage.router.get("/ready")).status) == (200, 503)
    await stage.router.settled()
    assert (await stage.ask(body())).status == 200


@pytest.mark.slow
async def test_b48_a_connection_that_is_never_accepted_ends_at_the_connect_limit(tmp_path_factory: Any) -> None:
    """A full backlog drops further SYNs, as a blackhole does; the engine was in order when it was probed."""
    settings = {**SLOW_PROBES, "connect_timeout_s": CONNECT_S}
    async with staged(tmp_path_factory.mktemp("blackhole"), settings) as stage:
        await stage.spec.refuse()
        with socket.create_server(("127.0.0.1", stage.spec.port), backlog=0), contextlib.ExitStack() as held:
            for _ in range(4):
                filler = held.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", stage.spec.port))
            asked_s = time.monotonic()
            pool, _, reply = await stage.routed(body(temperature=0.5))
            took_s = time.monotonic() - asked_s
    assert (pool, reply.status) == (BASE, 200)
    assert CONNECT_S * 0.9 <= took_s < CONNECT_S + 3


@pytest.mark.slow
async def test_b59_a_router_that_starts_before_its_engines_lives_and_waits(tmp_path_factory: Any) -> None:
    spec, base = Engine(f"{SPEC}-0"), Engine(f"{BASE}-0")
    for engine in (spec, base):
        await engine.listen()
        await engine.refuse()
    async with staged(tmp_path_factory.mktemp("early"), base=[base], spec=[spec], settle=False) as stage:
        assert ((await stage.router.get("/health")).status, (await stage.router.get("/ready")).status) == (200, 503)
        refused(await stage.ask(body()), 503)
        await base.listen()
        await stage.router.settled(base.name)
        assert (await stage.router.get("/ready")).status == 200
        assert (await stage.routed(body(temperature=0.2)))[2]["x-breakeven-reason"] == "health"
