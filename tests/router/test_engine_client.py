"""`breakeven.engine_client`: every answer an engine can give, bounded in time and size (field cases B56, B65, B73)."""

import asyncio
import gc
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from breakeven import equivalence
from breakeven.config import BackendAddress
from breakeven.engine_client import JSON_BYTES_MAX, METRICS_BYTES_MAX, EngineClient, EngineError
from breakeven.fleet import ProbeFailed, ProbeSucceeded
from tests.router.scripted_engine import Answer, ScriptedEngine, drips, free_port, never, says, scripted_engine, sends

TLS = ssl.create_default_context()
METRICS = b'vllm:num_requests_running{engine="0"} 3.0\nvllm:num_requests_waiting{engine="0"} 1.0\n'
MODELS = json.dumps({"object": "list", "data": [{"id": "m", "max_model_len": 4096}]}).encode()

Question = Callable[[EngineClient], Awaitable[object]]


def client_of(port: int, timeout_s: float = 5.0, authorization: bytes | None = None) -> EngineClient:
    address = BackendAddress("spec-0", "spec", "127.0.0.1", port, tls=False, authorization=authorization)
    return EngineClient(address, timeout_s, TLS)


@asynccontextmanager
async def asked(timeout_s: float = 5.0, **answers: Answer) -> AsyncIterator[tuple[EngineClient, ScriptedEngine]]:
    async with scripted_engine(**answers) as engine, client_of(engine.port, timeout_s) as client:
        yield client, engine


async def test_a_refused_connection_is_told_apart_from_other_failures() -> None:
    async with client_of(await free_port()) as client:
        assert await client.health() == ProbeFailed("spec-0", "GET /health: connection refused", refused=True)


async def test_a_name_that_does_not_exist_is_no_refusal() -> None:
    address = BackendAddress("spec-0", "spec", "engine.invalid", 1, tls=False)
    async with EngineClient(address, 5.0, TLS) as client:
        event = await client.health()
    assert event == ProbeFailed("spec-0", "GET /health: cannot connect")


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "GET /health: connection closed, or not HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "GET /health: connection closed, or not HTTP"),
        (b"HTTP/1.1 200", "GET /health: connection closed, or not HTTP"),
    ],
)
async def test_what_does_not_speak_http_has_failed(data: bytes, error: str) -> None:
    async with asked(health=sends(data)) as (client, _):
        assert await client.health() == ProbeFailed("spec-0", error)


async def test_an_engine_that_accepts_and_never_answers_has_failed_in_time() -> None:
    async with asked(timeout_s=0.05, health=never) as (client, _):
        assert await client.health() == ProbeFailed("spec-0", "GET /health took longer than 0.05 s")


@pytest.mark.parametrize("ask", [EngineClient.signals, EngineClient.cards], ids=["metrics", "models"])
async def test_an_answer_that_never_ends_is_cut_as_a_whole_and_not_per_read(ask: Question) -> None:
    async with asked(timeout_s=0.1, metrics=drips, v1_models=drips) as (client, _):
        with pytest.raises(EngineError, match="took longer than"):
            await ask(client)


@pytest.mark.parametrize(
    ("ask", "bytes_max"),
    [(EngineClient.signals, METRICS_BYTES_MAX), (EngineClient.cards, JSON_BYTES_MAX)],
    ids=["metrics", "models"],
)
async def test_an_answer_without_bound_is_cut_at_the_limit(ask: Question, bytes_max: int) -> None:
    endless = says(200, b"#" * (bytes_max + 1))
    async with asked(metrics=endless, v1_models=endless) as (client, _):
        with pytest.raises(EngineError, match=f"more than {bytes_max} bytes"):
            await ask(client)


@pytest.mark.parametrize("ask", [EngineClient.signals, EngineClient.cards], ids=["metrics", "models"])
async def test_another_status_than_200_is_no_answer(ask: Question) -> None:
    async with asked(metrics=says(401), v1_models=says(401)) as (client, _):
        with pytest.raises(EngineError, match="answered 401"):
            await ask(client)


async def test_a_compressed_page_that_nobody_asked_for_is_refused() -> None:
    async with asked(metrics=says(200, b"\x1f\x8b", b"content-encoding: gzip")) as (client, engine):
        with pytest.raises(EngineError, match="compressed"):
            await client.signals()
        assert b"accept-encoding: identity" in engine.heads[0].lower()


async def test_a_redirect_is_not_followed() -> None:
    async with scripted_engine(metrics=says(200, METRICS)) as elsewhere:
        location = b"location: http://127.0.0.1:%d/metrics" % elsewhere.port
        async with asked(metrics=says(307, b"", location), health=says(307, b"", location)) as (client, _):
            with pytest.raises(EngineError, match="answered 307"):
                await client.signals()
            assert await client.health() == ProbeFailed("spec-0", "GET /health answered 307")
        assert elsewhere.heads == []


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{await free_port()}")
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{await free_port()}")
    async with asked(health=says(200)) as (client, _):
        assert await client.health() == ProbeSucceeded("spec-0")


@pytest.mark.parametrize("page", [b"", b"<html></html>", b"other_metric 1\n"])
async def test_a_page_without_metrics_of_the_engine_is_an_error(page: bytes) -> None:
    async with asked(metrics=says(200, page)) as (client, _):
        with pytest.raises(EngineError, match="no metrics of vLLM"):
            await client.signals()


async def test_a_list_of_models_that_is_none_is_an_error() -> None:
    async with asked(v1_models=says(200, b'{"error": "x"}')) as (client, _):
        with pytest.raises(EngineError, match="GET /v1/models: no list of models"):
            await client.cards()


async def test_a_healthy_engine_answers_every_question() -> None:
    async with asked(
        health=says(200),
        metrics=says(200, METRICS),
        v1_models=says(200, MODELS),
        version=says(200, b'{"version":"0.33.0"}'),
    ) as (client, _):
        assert await client.health() == ProbeSucceeded("spec-0")
        assert (await client.signals()).load == 4.0
        assert await client.cards() == ({"id": "m", "max_model_len": 4096},)
        assert await client.version() == "0.33.0"


@pytest.mark.parametrize("answer", [says(404), says(200, b"0.33"), says(200, b"[]"), says(200, b'{"version": 33}')])
async def test_a_version_that_is_not_told_is_unknown(answer: Answer) -> None:
    async with asked(version=answer) as (client, _):
        assert await client.version() is None


async def test_the_key_of_the_pool_goes_with_every_question_and_into_no_error() -> None:
    async with (
        scripted_engine(health=says(200)) as engine,
        client_of(engine.port, authorization=b"Bearer sesame") as client,
    ):
        await client.health()
        with pytest.raises(EngineError) as caught:
            await client.signals()
        assert all(b"authorization: Bearer sesame\r\n" in head for head in engine.heads)
        assert "sesame" not in str(caught.value)
        assert str(engine.port) not in str(caught.value)


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with asked(health=says(200)) as (client, engine):
        await client.health()
        assert b"authorization" not in engine.heads[0].lower()


async def test_every_question_opens_a_connection_of_its_own() -> None:
    async with asked(health=says(200)) as (client, engine):
        for _ in range(3):
            await client.health()
        assert len(engine.heads) == 3


async def test_a_big_page_lets_the_loop_run_in_between() -> None:
    async with asked(metrics=says(200, METRICS * 20_000)) as (client, _):
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        await client.signals()
        counting.cancel()
        assert turns > 10


async def test_an_ipv6_address_is_asked_as_one() -> None:
    address = BackendAddress("spec-0", "spec", "::1", await free_port(), tls=False)
    async with EngineClient(address, 5.0, TLS) as client:
        event = await client.health()
    assert isinstance(event, ProbeFailed)
    assert event.error in {"GET /health: connection refused", "GET /health: cannot connect"}


async def test_an_engine_without_tls_where_tls_is_configured_has_failed() -> None:
    async def refuse_the_handshake(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse_the_handshake, "127.0.0.1", 0) as server:
        address = BackendAddress("spec-0", "spec", "127.0.0.1", server.sockets[0].getsockname()[1], tls=True)
        async with EngineClient(address, 5.0, TLS) as client:
            assert await client.health() == ProbeFailed("spec-0", "GET /health: cannot connect")


@pytest.mark.parametrize("line", [b"Set-Cookie: a=\xff\xfe; Path=/", b"set-cookie: a=b", b"X-Odd: \xff\x00"])
async def test_no_header_of_an_engine_is_more_than_a_failed_question(line: bytes) -> None:
    async with scripted_engine(health=says(200, b"", line)) as engine:
        address = BackendAddress("spec-0", "spec", "127.0.0.1", engine.port, tls=False)
        async with EngineClient(address, 5.0, TLS) as client:
            for _ in range(2):
                assert isinstance(await client.health(), ProbeSucceeded | ProbeFailed)
    assert not any(b"cookie" in head.lower() for head in engine.heads)


async def test_whatever_a_library_raises_is_a_failed_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def trips(*_: object, **__: object) -> None:
        raise KeyError("odd")

    async with EngineClient(BackendAddress("spec-0", "spec", "127.0.0.1", 1, tls=False), 5.0, TLS) as client:
        monkeypatch.setattr(client._http, "stream", trips)
        assert await client.health() == ProbeFailed("spec-0", "GET /health: cannot be read (KeyError)")


async def test_an_engine_is_asked_for_one_token_of_a_model_as_a_client_would() -> None:
    async with asked(v1_completions=says(200, b'{"choices": []}')) as (client, engine):
        assert await client.makes_token("m")
        (head,) = engine.heads
        assert head.startswith(b"POST /v1/completions HTTP/1.1\r\n")
        assert b"content-type: application/json" in head.lower()


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_refusal_to_make_a_token_is_no_failure(status: int) -> None:
    async with asked(v1_completions=says(status)) as (client, _):
        assert not await client.makes_token("m")


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (says(500), "POST /v1/completions answered 500"),
        (says(503), "POST /v1/completions answered 503"),
        (sends(b""), "POST /v1/completions: connection closed, or not HTTP"),
        (never, "POST /v1/completions took longer than 0.1 s"),
    ],
)
async def test_an_engine_that_fails_to_make_a_token_is_an_error(answer: Answer, trouble: str) -> None:
    async with asked(timeout_s=0.1, v1_completions=answer) as (client, _):
        with pytest.raises(EngineError) as caught:
            await client.makes_token("m")
    assert str(caught.value) == trouble


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b'{"choices": [{"text": "ab", "token_ids": [1, 2], "index": 0}]}', equivalence.Answer("ab", (1, 2))),
        (b'{"choices": [{"text": "ab", "token_ids": null}]}', equivalence.Answer("ab")),
        (b'{"choices": [{"text": "ab"}]}', equivalence.Answer("ab")),
    ],
)
async def test_a_greedy_answer_has_ids_where_the_engine_tells_them(body: bytes, answer: equivalence.Answer) -> None:
    async with asked(v1_completions=says(200, body)) as (client, engine):
        assert await client.greedy_answer("m", "1 2", 8) == answer
        assert engine.heads[0].startswith(b"POST /v1/completions HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (says(400), "POST /v1/completions answered 400"),
        (says(200, b'{"choices": []}'), "POST /v1/completions: no completion in the answer"),
        (says(200, b'{"choices": [{"text": 3}]}'), "POST /v1/completions: no completion in the answer"),
        (says(200, b"\xff"), "POST /v1/completions: no completion in the answer"),
        (says(200, b"#" * (JSON_BYTES_MAX + 1)), f"POST /v1/completions answered more than {JSON_BYTES_MAX} bytes"),
    ],
)
async def test_what_is_no_greedy_answer_is_an_error(answer: Answer, trouble: str) -> None:
    async with asked(v1_completions=answer) as (client, _):
        with pytest.raises(EngineError) as caught:
            await client.greedy_answer("m", "1 2", 8)
    assert str(caught.value) == trouble


@pytest.mark.parametrize(
    "answer", [says(200), says(404), sends(b"HTTP/1.1 200"), None], ids=["200", "404", "cut", "no"]
)
async def test_a_question_leaves_nothing_to_the_collector(answer: Answer | None) -> None:
    async with asked(health=answer or never, metrics=answer or never) as (client, _):
        if answer is None:
            client = client_of(await free_port())
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await client.health()
                with pytest.raises(EngineError):
                    await client.signals()
            left = [each for each in gc.get_objects() if isinstance(each, httpx.Response | httpx.HTTPError)]
        finally:
            gc.enable()
    assert left == []
