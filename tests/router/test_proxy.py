"""The data plane as a whole, in one process: a proxy between real sockets and a scripted engine."""

import asyncio
import gzip
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from msgspec.structs import replace

from breakeven.addresses import bound_sockets
from breakeven.api_keys import ApiKeys
from breakeven.config import Settings
from breakeven.fleet import Fleet, ModelsListed, ProbeSucceeded
from breakeven.metric_table import COMPLETION_TOKENS, REQUESTS, SHADOW_DECISIONS, Metric
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory
from breakeven.proxy import Proxy
from breakeven.record import RequestRecord
from breakeven.recorder import Recorder
from breakeven_policies.decision import AcceptanceSource, Decision, Prediction
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot
from tests.router.scripted_engine import ScriptedEngine, says, scripted_engine

CHAT = "/v1/chat/completions"
ANSWER = b'{"model": "m", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}}'
JSON = b"content-type: application/json"
BODY = {"model": "m", "messages": [], "temperature": 1.5}


@dataclass
class InForce:
    current: Policy


@dataclass
class Running:
    """A proxy that listens, its engine, and a client of it."""

    proxy: Proxy
    engine: ScriptedEngine
    client: httpx.AsyncClient
    metrics: Metrics
    fleet: Fleet
    policy: InForce

    def counted(self, metric: Metric = REQUESTS) -> dict[tuple[str, ...], float]:
        """The values of one counter, by labels."""
        return {labels: number for labels, (number,) in self.metrics.counted(metric).items()}


@asynccontextmanager
async def running(*, ready: bool = True, **changes: object) -> AsyncIterator[Running]:
    """One plain backend behind a proxy."""
    async with scripted_engine(v1_chat_completions=says(200, ANSWER, JSON)) as engine:
        settings = Settings(baseline=[f"http://127.0.0.1:{engine.port}"], **changes)
        fleet = Fleet(settings.pool_specs())
        directory = ModelDirectory(["baseline-0"], settings.aliases)
        directory.update("baseline-0", ({"id": "m", "object": "model"},))
        if ready:
            fleet.apply(ProbeSucceeded("baseline-0"))
            fleet.apply(ModelsListed("baseline-0", frozenset({"m"})))
        metrics = Metrics(settings.pool_specs())
        policy = InForce(settings.build_policy())

        async def is_well(_: str) -> bool:
            return True

        proxy = Proxy(
            settings=settings,
            fleet=fleet,
            policy=policy,
            directory=directory,
            metrics=metrics,
            recorder=Recorder(None, lambda: datetime.now(UTC)),
            clock=asyncio.get_running_loop().time,
            chance=random.Random(7),  # noqa: S311  # repeatable
            is_well=is_well,
        )
        port = await proxy.listen_at(await bound_sockets("127.0.0.1", 0))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            yield Running(proxy, engine, client, metrics, fleet, policy)
        proxy.close()
        await proxy.drain(5)


@pytest.fixture
async def run() -> AsyncIterator[Running]:
    async with running() as run:
        yield run


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("POST", "/nowhere", 404, "not_found"),
        ("POST", "/v1/../metrics", 404, "not_found"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("PUT", CHAT, 405, "method_not_allowed"),
        ("OPTIONS", CHAT, 405, "method_not_allowed"),
    ],
)
async def test_what_is_not_served_is_refused_in_the_shape_of_openai_and_counted(
    run: Running, method: str, path: str, status: int, code: str
) -> None:
    answer = await run.client.send(httpx.Request(method, f"{run.client.base_url}".rstrip("/") + path))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["x-request-id"]
    assert run.counted() == {("none", code, "client_error"): 1}


async def test_a_body_that_cannot_be_read_is_refused_and_nothing_is_sent(run: Running) -> None:
    answer = await run.client.post(CHAT, content=b"{")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
    assert run.engine.times_asked(CHAT) == 0


async def test_a_model_that_nobody_serves_is_not_found(run: Running) -> None:
    answer = await run.client.post(CHAT, json={**BODY, "model": "nope"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert run.counted() == {("none", "unknown_model", "client_error"): 1}


def fails(*_: object) -> None:
    message = "a fault of ours"
    raise KeyError(message)


async def test_a_fault_at_a_packed_body_is_a_500_of_its_client_alone(
    run: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed, coded = gzip.compress(json.dumps(BODY).encode()), {"content-encoding": "gzip"}
    with monkeypatch.context() as patch:
        patch.setattr(run.proxy, "_view", fails)
        answer = await run.client.post(CHAT, content=packed, headers=coded)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert (await run.client.post(CHAT, content=packed, headers=coded)).status_code == 200


async def test_a_fault_after_a_packed_request_was_sent_on_its_way_closes_its_connection_and_leaves_nothing_there(
    run: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run.proxy._roster.engines["baseline-0"].connections, "take", fails)
    with pytest.raises(httpx.TransportError):
        await run.client.post(
            CHAT, content=gzip.compress(json.dumps(BODY).encode()), headers={"content-encoding": "gzip"}
        )
    assert run.fleet.own_in_flight() == 0
    assert [(labels[-1], number) for labels, number in run.counted().items()] == [("client_closed", 1)]


async def test_without_a_ready_engine_the_answer_is_503_and_when_to_come_back() -> None:
    async with running(ready=False) as run:
        answer = await run.client.post(CHAT, json=BODY)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["error"]["code"] == "no_backend"
        assert run.counted() == {("none", "no_backend", "refused"): 1}


async def test_what_a_policy_cannot_place_says_which_rule_forbids_it() -> None:
    async with scripted_engine(v1_chat_completions=says(200, ANSWER, JSON)) as only, running() as run:
        run.policy.current = Settings(
            speculative=[f"http://127.0.0.1:{only.port}"], policy="pinned:speculative"
        ).build_policy()
        assert (await run.client.post(CHAT, json=BODY)).headers["x-breakeven-reason"] == "no_such_pool"


async def test_a_request_that_is_no_http_is_answered_and_counted(run: Running) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", run.client.base_url.port)
    writer.write(b"NONSENSE\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    writer.close()
    await writer.wait_closed()
    assert run.counted() == {("none", "invalid_request", "client_error"): 1}


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/models", "/v1/models/m"])
async def test_pages_of_our_own_are_answered_without_an_engine_and_not_counted(run: Running, path: str) -> None:
    assert (await run.client.get(path)).status_code == 200
    assert (await run.client.head(path)).content == b""
    assert run.counted() == {}
    assert run.engine.heads == []


async def test_a_page_that_says_no_is_not_counted_either() -> None:
    async with running(ready=False) as run:
        assert (await run.client.get("/ready")).status_code == 503
        assert run.counted() == {}


async def test_an_answer_says_where_it_came_from_and_why(run: Running) -> None:
    answer = await run.client.post(CHAT, json=BODY, headers={"x-request-id": "mine"})
    assert answer.content == ANSWER
    assert {name: value for name, value in answer.headers.items() if name.startswith("x-")} == {
        "x-request-id": "mine",
        "x-breakeven-pool": "baseline",
        "x-breakeven-backend": "baseline-0",
        "x-breakeven-reason": "temperature_above_threshold",
        "x-breakeven-policy": "threshold",
    }
    assert run.counted() == {("baseline", "temperature_above_threshold", "completed"): 1}
    assert run.counted(COMPLETION_TOKENS) == {("baseline",): 2}


async def test_a_generated_request_id_reaches_engine_and_client_alike(run: Running) -> None:
    answer = await run.client.post(CHAT, json=BODY)
    assert f"x-request-id: {answer.headers['x-request-id']}\r\n".encode() in run.engine.heads[0]


async def test_an_alias_goes_out_under_the_models_name_and_comes_back_under_its_own() -> None:
    async with running(aliases={"fast": "m"}) as run:
        answer = await run.client.post(CHAT, json={**BODY, "model": "fast"})
        assert answer.json()["model"] == "fast"
        assert b"content-length: %d\r\n" % len(json.dumps({**BODY}, separators=(",", ":"))) in run.engine.heads[0]


async def test_a_packed_body_is_unpacked_in_slices_and_decided_by_what_is_in_it(run: Running) -> None:
    body = json.dumps({**BODY, "padding": "x" * 3_000_000}).encode()
    answer = await run.client.post(CHAT, content=gzip.compress(body), headers={"content-encoding": "gzip"})
    assert answer.headers["x-breakeven-reason"] == "temperature_above_threshold"
    assert b"content-encoding" not in run.engine.heads[0]
    assert b"content-length: %d\r\n" % len(body) in run.engine.heads[0]


@pytest.mark.parametrize("text", ["x", "é"])
async def test_a_large_body_is_served_as_any_other(text: str) -> None:
    async with running(aliases={"fast": "m"}) as run:
        body = json.dumps({**BODY, "model": "fast", "padding": text * 3_000_000}, ensure_ascii=False).encode()
        answer = await run.client.post(CHAT, content=body)
        assert (answer.status_code, answer.json()["model"]) == (200, "fast")
        assert answer.headers["x-breakeven-reason"] == "temperature_above_threshold"
        assert b"content-length: %d\r\n" % (len(body) - 3) in run.engine.heads[0]


async def test_a_large_body_that_is_no_utf_8_or_no_json_is_refused(run: Running) -> None:
    for content in (b'{"model":"m","x":"' + b"\xff" * 2_000_000 + b'"}', b"{" * 2_000_000):
        answer = await run.client.post(CHAT, content=content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_json")
    assert run.engine.heads == []


async def test_a_packed_body_that_is_broken_or_too_large_is_refused() -> None:
    async with running(body_max_bytes=1024) as run:
        for content, status in ((b"no gzip", 400), (gzip.compress(b"x" * 5000), 413)):
            answer = await run.client.post(CHAT, content=content, headers={"content-encoding": "gzip"})
            assert answer.status_code == status
        assert (await run.client.post(CHAT, content=b"x", headers={"content-encoding": "zstd"})).status_code == 415
        assert run.engine.heads == []


async def test_a_client_that_leaves_while_its_body_is_unpacked_starts_nothing(run: Running) -> None:
    packed = gzip.compress(b"x" * 60_000_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", run.client.base_url.port)
    writer.write(
        b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"
        % (CHAT.encode(), len(packed))
    )
    writer.write(packed)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    assert run.engine.heads == []
    assert run.counted() == {("none", "none", "client_closed"): 1}


async def test_a_policy_that_fails_costs_its_request_a_500_and_nothing_else(
    run: Running, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        name = "broken"

        def decide(self, request: object, fleet: object) -> Decision:
            raise KeyError(request)

    whole, run.policy.current = run.policy.current, Broken()
    answer = await run.client.post(CHAT, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "policy broken failed" in caplog.text
    run.policy.current = whole
    assert (await run.client.post(CHAT, json=BODY)).status_code == 200


async def test_shadow_policies_decide_every_request_once_and_change_none() -> None:
    async with running(shadow=["pinned:baseline", "least_loaded", "pinned:baseline"]) as run:
        answer = await run.client.post(CHAT, json=BODY)
        assert answer.headers["x-breakeven-policy"] == "threshold"
        await run.client.post(CHAT, json={**BODY, "model": "nobody's"})
        counts = {labels: number for labels, number in run.counted(SHADOW_DECISIONS).items() if number}
    assert counts == {
        (policy, "same", wanted): 1 for policy in ("pinned:baseline", "least_loaded") for wanted in ("baseline", "none")
    }


CHOOSING = {
    "policy_header": "X-Breakeven-Policy",
    "policy_choices": ["least_loaded"],
    "aliases": {"cool": "m"},
    "alias_policies": {"cool": "pinned:baseline"},
}


async def test_a_client_that_asks_for_a_policy_which_it_may_not_have_is_told_so_and_nothing_is_sent() -> None:
    async with running(**CHOOSING) as run:
        answer = await run.client.post(CHAT, json=BODY, headers={"x-breakeven-policy": "pinned:baseline"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unknown_policy")
        assert run.counted() == {("none", "unknown_policy", "client_error"): 1}
        assert run.engine.heads == []


async def test_a_client_may_choose_a_policy_by_a_header_that_no_engine_sees_and_by_an_alias() -> None:
    async with running(**CHOOSING) as run:
        for model, headers, policy in (
            ("m", {}, "threshold"),
            ("m", {"x-breakeven-policy": "least_loaded"}, "least_loaded"),
            ("cool", {}, "pinned:baseline"),
            ("cool", {"x-breakeven-policy": "least_loaded"}, "least_loaded"),
        ):
            answer = await run.client.post(CHAT, json={**BODY, "model": model}, headers=headers)
            assert (answer.status_code, answer.headers["x-breakeven-policy"]) == (200, policy)
        assert not any(b"x-breakeven-policy" in head.lower() for head in run.engine.heads)


async def test_where_no_header_is_configured_none_chooses_a_policy(run: Running) -> None:
    answer = await run.client.post(CHAT, json=BODY, headers={"x-breakeven-policy": "nonsense"})
    assert (answer.status_code, answer.headers["x-breakeven-policy"]) == (200, "threshold")


async def test_browsers_may_call_where_they_are_allowed() -> None:
    async with running(cors_origins=["https://app.example"]) as run:
        asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
        preflight = await run.client.options(CHAT, headers=asked)
        assert (preflight.status_code, preflight.content) == (204, b"")
        assert preflight.headers.get_list("access-control-allow-origin") == ["https://app.example"]
        assert preflight.headers["access-control-allow-headers"] == "authorization, content-type"
        answer = await run.client.post(CHAT, json=BODY, headers={"origin": "https://app.example"})
        assert answer.headers["access-control-allow-origin"] == "https://app.example"


async def test_a_browser_may_read_why_its_request_was_refused_unread() -> None:
    async with running(cors_origins=["https://app.example"], body_max_bytes=1024) as run:
        headers = {"origin": "https://app.example", "x-request-id": "mine"}
        answer = await run.client.post(CHAT, content=b"x" * 1025, headers=headers)
        assert answer.status_code == 413
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert answer.headers["x-request-id"] == "mine"


async def test_who_is_idle_for_too_long_is_sent_away_and_who_waits_for_an_answer_is_not() -> None:
    release = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await says(200, ANSWER, JSON)(writer)

    async with running(client_keepalive_s=0.1) as run:
        run.engine.answers[CHAT] = slow
        port = run.client.base_url.port
        waiting = asyncio.create_task(run.client.post(CHAT, json=BODY))
        await run.engine.until_asked(CHAT, 1)
        silent, its_writer = await asyncio.open_connection("127.0.0.1", port)
        halfway, other_writer = await asyncio.open_connection("127.0.0.1", port)
        other_writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 9\r\n\r\nhalf")
        async with asyncio.timeout(5):
            assert await silent.read() == b""
        its_writer.close()
        assert not waiting.done()
        assert not halfway.at_eof()
        release.set()
        assert (await waiting).status_code == 200
        other_writer.close()


async def test_without_a_limit_an_idle_client_stays() -> None:
    async with running(client_keepalive_s=0) as run:
        await run.client.get("/health")
        (client,) = run.proxy._clients._open
        run.proxy._sweep()
        await run.client.get("/health")
        assert run.proxy._clients._open == {client}


async def test_open_connections_are_counted(run: Running) -> None:
    await run.client.get("/health")
    assert run.metrics.client_connections == 1


async def test_a_drained_proxy_is_not_ready_and_takes_nobody_new(run: Running) -> None:
    assert await run.proxy.drain(5)
    with pytest.raises(httpx.ConnectError):
        await run.client.get("/health")


async def test_where_another_process_accepts_clients_readiness_stays_and_who_is_connected_may_ask_once_more(
    run: Running,
) -> None:
    await run.client.get("/health")
    leaving = asyncio.create_task(run.proxy.drain(5, idle_s=60))
    async with asyncio.timeout(5):
        answer = await run.client.get("/ready")
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert await leaving


async def test_a_proxy_that_parts_is_not_ready_and_serves_everybody_once_more(run: Running) -> None:
    await run.client.get("/health")
    run.proxy.part()
    async with httpx.AsyncClient(base_url=run.client.base_url) as other:
        for client in (run.client, other):
            answer = await client.get("/ready")
            assert (answer.status_code, answer.headers["connection"]) == (503, "close")


async def test_a_key_that_is_withdrawn_lets_nobody_in_who_came_in_with_it_before() -> None:
    async with running() as run:
        run.proxy._keys = ApiKeys({"team": "sk-1"})
        headers = {"authorization": "Bearer sk-1"}
        for _ in range(3):  # from the second on its head is remembered
            assert (await run.client.post(CHAT, json=BODY, headers=headers)).status_code == 200
        run.proxy._keys = ApiKeys({"team": "sk-2"})
        answer = await run.client.post(CHAT, json=BODY, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert run.engine.times_asked(CHAT) == 3


async def test_what_nobody_wants_to_be_written_down_is_not_kept(run: Running) -> None:
    finished: list[RequestRecord] = []
    run.proxy._recorder = SimpleNamespace(write=finished.append)
    await run.client.post(CHAT, json=BODY)
    assert [(record.considered, record.spans, record.trace) for record in finished] == [(None, None, None)]


async def test_where_a_journal_is_kept_a_request_carries_what_was_decided(tmp_path: Path) -> None:
    async with running(journal=str(tmp_path / "journal")) as run:
        finished: list[RequestRecord] = []
        run.proxy._recorder = SimpleNamespace(write=finished.append)
        await run.client.post(CHAT, json=BODY)
        await run.client.post(CHAT, json={**BODY, "model": "nope"})
        assert [record.considered and record.considered.decision.policy for record in finished] == ["threshold"] * 2


@dataclass
class Predicts:
    """A policy whose decisions began with that table."""

    policy: Policy
    table: str | None

    name = "predicts"

    def decide(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        prediction = Prediction(1, 0.02, 1.0, AcceptanceSource.PLAIN, 1.0, 0.0, 1.0, table=self.table)
        return replace(self.policy.decide(request, fleet), prediction=prediction)


async def test_an_answer_names_the_table_only_where_one_took_part(run: Running) -> None:
    assert "x-breakeven-table" not in (await run.client.post(CHAT, json=BODY)).headers
    static = run.policy.current
    for table in (None, "0123456789ab"):
        run.policy.current = Predicts(static, table)
        assert (await run.client.post(CHAT, json=BODY)).headers.get("x-breakeven-table") == table
