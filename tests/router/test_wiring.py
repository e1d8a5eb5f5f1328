"""`breakeven.wiring`: the order in which things start and stop (field cases B51, B58)."""

import asyncio
import json
import logging
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from breakeven.clock import utc_now
from breakeven.config import Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.fleet import Drained, Resumed
from breakeven.inherited import Inherited
from breakeven.recorder import Recorder, lines_to
from breakeven.wiring import OPEN_FILES_MIN, Router, StartError, bind, mark_log, raise_open_files, reason
from breakeven_policies.measured import short_hash
from tests.policies.tables import DOCUMENT, table, written
from tests.router.scripted_engine import free_port, never, says, scripted_engine

pytestmark = pytest.mark.usefixtures("clean_environment")


def settings(**values: Any) -> Settings:
    fixed = {"host": "127.0.0.1", "port": 0, "admin_port": 0, "probe_interval_s": 0.02, "drain_timeout_s": 0.2}
    return build_settings(Settings, {"baseline": "http://127.0.0.1:1", **fixed, **values})


@asynccontextmanager
async def running(**values: Any) -> AsyncIterator[tuple[Router, httpx.AsyncClient]]:
    router = Router(settings(**values), Recorder(None, utc_now))
    await router.start()
    async with httpx.AsyncClient() as client:
        try:
            yield router, client
        finally:
            await router.stop()


async def until_ready(router: Router, client: httpx.AsyncClient) -> None:
    while (await client.get(f"http://127.0.0.1:{router.port}/ready")).status_code != 200:  # noqa: ASYNC110  # over HTTP
        await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_router_without_an_engine_lives_and_is_not_ready() -> None:
    async with running(baseline=f"http://127.0.0.1:{await free_port()}") as (router, client):
        for port in (router.port, router.admin_port):
            assert (await client.get(f"http://127.0.0.1:{port}/health")).status_code == 200
            assert (await client.get(f"http://127.0.0.1:{port}/ready")).status_code == 503


async def test_a_switch_of_the_policy_is_logged_shown_and_outlasts_a_reload(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as (router, client):
        admin = f"http://127.0.0.1:{router.admin_port}"
        await client.put(f"{admin}/policy", json={"policy": "least_loaded"})
        assert "policy switched by somebody on this machine from threshold to least_loaded" in caplog.text
        await router.reload(settings(threshold=0.5))
        page = (await client.get(f"{admin}/metrics")).text
        assert 'breakeven_policy_info{policy="least_loaded",table_hash="none"} 1.0' in page
        assert "breakeven_policy_switched 1.0" in page
        await router.reload(settings(policy="pinned:baseline"))
        assert "the policy is the configured one again, pinned:baseline" in caplog.text
        assert "breakeven_policy_switched 0.0" in (await client.get(f"{admin}/metrics")).text


@pytest.mark.parametrize("setting", ["port", "admin_port"])
async def test_a_port_in_use_is_named_and_nothing_stays_behind(setting: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        before = asyncio.all_tasks()
        router = Router(settings(**{setting: port}), Recorder(None, utc_now))
        with pytest.raises(StartError) as caught:
            await router.start()
        assert str(caught.value) == f"{setting}: cannot listen on 127.0.0.1:{port}: address already in use"
        assert asyncio.all_tasks() == before


@pytest.mark.slow
async def test_an_engine_that_answers_makes_the_router_ready_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with (
        scripted_engine(health=says(200)) as engine,
        running(baseline=f"http://127.0.0.1:{engine.port}") as (router, client),
    ):
        await until_ready(router, client)
        page = (await client.get(f"http://127.0.0.1:{router.admin_port}/metrics")).text
    assert "baseline-0 (baseline) is ready" in caplog.text
    assert 'breakeven_backend_ready{backend="baseline-0",pool="baseline"} 1.0' in page
    assert 'breakeven_backend_health_changes_total{backend="baseline-0",health="ready",pool="baseline"} 1.0' in page


def engine_of_the_table(version: str = "0.33.0") -> dict[str, Any]:
    cards = {"data": [{"id": "llama", "root": DOCUMENT["provenance"]["model"]}]}
    return {
        "health": says(200),
        "v1_models": says(200, json.dumps(cards).encode()),
        "version": says(200, json.dumps({"version": version}).encode()),
    }


async def until_matched(router: Router, why: str) -> None:
    while [match.why for match in router.metrics.tables_in_use] != [why]:  # noqa: ASYNC110  # nobody tells tests
        await asyncio.sleep(0.005)


@pytest.mark.slow
async def test_a_table_that_fits_the_engines_is_used_until_they_are_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "t.json"
    path.write_bytes(written(provenance__expires_on="2999-01-01"))
    made = table(provenance__expires_on="2999-01-01")
    async with scripted_engine(**engine_of_the_table()) as engine:
        given = {"baseline": f"http://127.0.0.1:{engine.port}", "tables": str(path), "models_interval_s": 0.02}
        async with asyncio.timeout(20), running(**given) as (router, client):
            await until_matched(router, "applies")
            page = (await client.get(f"http://127.0.0.1:{router.admin_port}/metrics")).text
            shown = (await client.get(f"http://127.0.0.1:{router.admin_port}/policy")).json()
            engine.answers["/version"] = says(200, b'{"version": "0.34.0"}')
            await until_matched(router, "engine_version")
            assert router.measurements == {}
    digest = short_hash(made)
    assert f'breakeven_policy_info{{policy="threshold",table_hash="{digest}"}} 1.0' in page
    applies = f'breakeven_policy_table_applies{{pool="baseline",table_hash="{digest}",why="applies"}} 1.0'
    assert applies in page
    used = {"table": "llama-on-a100", "hash": digest, "setup": "plain"}
    assert shown["pools"] == [{"pool": "baseline", "applies": True, **used}]
    levels = [(each.levelname, each.message) for each in caplog.records if "llama-on-a100" in each.message]
    assert levels == [
        ("INFO", f"baseline: table llama-on-a100 ({digest}), setup plain"),
        (
            "WARNING",
            f"baseline: unmeasured; nearest table llama-on-a100 ({digest}): it is about 0.33.0, the pool runs 0.34.0",
        ),
    ]


@pytest.mark.slow
async def test_tables_that_cannot_be_used_stop_a_start_and_leave_a_running_router_with_those_it_has(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b"[]")
    with pytest.raises(ConfigError, match=r"t\.json: expected object, got array"):
        Router(settings(tables=str(path)), Recorder(None, utc_now))
    path.write_bytes(written())
    async with running(tables=str(path)) as (router, _):
        path.write_bytes(written(format=2))
        with pytest.raises(ConfigError, match=r"t\.json: format: must be 1"):
            await router.reload(router.settings)
        assert router._tables.tables == (table(),)
        path.write_bytes(written(name="other"))
        await router.reload(router.settings)
        assert router._tables.tables == (table(name="other"),)


@pytest.mark.slow
async def test_greedy_answers_are_compared_once_a_reload_wants_it() -> None:
    answers = engine_of_the_table() | {"v1_completions": says(200, b'{"choices": [{"text": "a"}]}')}
    async with scripted_engine(**answers) as plain, scripted_engine(**answers) as spec:
        given = {
            "baseline": f"http://127.0.0.1:{plain.port}",
            "speculative": f"http://127.0.0.1:{spec.port}",
            "models_interval_s": 0.02,
        }
        async with asyncio.timeout(20), running(**given) as (router, _):
            await router.reload(settings(**given, equivalence_interval_s=1))
            await plain.until_asked("/v1/completions", 2)
    assert spec.times_asked("/v1/completions") >= 1


@pytest.mark.slow
async def test_a_stopping_router_is_not_ready_and_takes_no_new_connection() -> None:
    async with scripted_engine(health=says(200)) as engine, httpx.AsyncClient() as client:
        router = Router(settings(baseline=f"http://127.0.0.1:{engine.port}"), Recorder(None, utc_now))
        await router.start()
        await until_ready(router, client)
        await router.stop()
        assert not router.ready()
        for port in (router.port, router.admin_port):
            with pytest.raises(httpx.ConnectError):
                await client.get(f"http://127.0.0.1:{port}/health")


def listening_sockets(count: int) -> list[socket.socket]:
    return [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]


@pytest.mark.slow
async def test_who_waits_at_an_inherited_socket_is_let_in_once_the_engines_are_known() -> None:
    models = says(200, b'{"data": [{"id": "m"}]}')
    chat = says(200, b"{}", b"content-type: application/json")
    api, admin = listening_sockets(2)
    places = [each.getsockname()[1] for each in (api, admin)]
    with api.dup() as held:
        async with (
            scripted_engine(health=says(200), v1_models=models, v1_chat_completions=chat) as engine,
            httpx.AsyncClient() as client,
        ):
            url = f"http://127.0.0.1:{places[0]}/v1/chat/completions"
            waiting = asyncio.create_task(client.post(url, json={"model": "m", "messages": []}))
            router = Router(settings(baseline=f"http://127.0.0.1:{engine.port}"), Recorder(None, utc_now))
            await router.start(Inherited([api], [admin]))
            assert [router.port, router.admin_port] == places
            assert (await waiting).status_code == 200
            assert (await client.get(f"http://127.0.0.1:{places[1]}/policy")).status_code == 200
            await router.stop()
        with socket.create_connection(held.getsockname(), timeout=10):
            pass  # whoever keeps it still has a socket that takes clients


@pytest.mark.slow
async def test_who_could_serve_nothing_takes_over_for_nobody() -> None:
    sockets = listening_sockets(2)
    reading, writing = os.pipe()
    before = asyncio.all_tasks()
    router = Router(settings(baseline=f"http://127.0.0.1:{await free_port()}"), Recorder(None, utc_now))
    with pytest.raises(StartError, match="no engine is ready, so there is nothing to take over for"):
        await router.start(Inherited(sockets[:1], sockets[1:], ready=writing))
    assert asyncio.all_tasks() == before
    for descriptor in (reading, writing):
        os.close(descriptor)
    sockets[0].close()


@pytest.mark.slow
async def test_a_router_that_was_succeeded_leaves_both_ports_at_once_and_is_asked_until_its_last_answer() -> None:
    async with scripted_engine(health=says(200)) as engine, httpx.AsyncClient() as client:
        values = settings(baseline=f"http://127.0.0.1:{engine.port}", drain_delay_s=60, drain_timeout_s=0)
        router = Router(values, Recorder(None, utc_now))
        await router.start()
        await until_ready(router, client)
        assert [name for name, _ in router.sockets] == ["api", "admin"]
        assert router.drained == []
        router.fleet.apply(Drained("baseline-0"))
        assert router.drained == ["baseline-0"]
        router.fleet.apply(Resumed("baseline-0"))
        held = [each.dup() for _, each in router.sockets]
        stopping = asyncio.create_task(router.stop(succeeded=True))
        await asyncio.sleep(0)
        answer = await client.get(f"http://127.0.0.1:{router.port}/ready")
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        async with asyncio.timeout(5):
            assert await stopping
        for each in held:
            with each, socket.create_connection(each.getsockname()):
                pass  # whoever has them as well is still connected to


def test_the_log_says_who_writes_it_where_another_process_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    mark_log("before (process 7): ")
    record = logging.LogRecord("breakeven.wiring", logging.INFO, "", 0, "stopped", (), None)
    assert handler.format(record).endswith(" INFO before (process 7): breakeven.wiring: stopped")


@pytest.mark.slow
async def test_the_router_runs_until_it_is_told_to_stop() -> None:
    async with running() as (router, _):
        stop = asyncio.Event()
        serving = asyncio.create_task(router.run_until(stop))
        await asyncio.sleep(0)
        assert not serving.done()
        stop.set()
        await serving


@pytest.mark.slow
async def test_a_probe_that_breaks_ends_the_router_instead_of_leaving_it_blind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: object) -> None:
        message = "a fault of ours"
        raise ValueError(message)

    monkeypatch.setattr("breakeven.probe.Prober.run", broken)
    async with running() as (router, _):
        with pytest.raises(ValueError, match="a fault of ours"):
            await router.run_until(asyncio.Event())


@pytest.mark.slow
async def test_that_no_engine_is_ready_is_said_once_the_first_probes_are_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scripted_engine(health=says(200)) as engine:
        for port, said in ((await free_port(), True), (engine.port, False)):
            caplog.clear()
            async with running(baseline=f"http://127.0.0.1:{port}") as (router, _):
                serving = asyncio.create_task(router.run_until(asyncio.Event()))
                await router.first_probes()
                await asyncio.sleep(0)
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
            assert ("no engine is ready: requests are answered with 503 until one is" in caplog.text) is said


def told_by(caplog: pytest.LogCaptureFixture, *beginnings: str) -> list[str]:
    """What the router said of its end, in order."""
    return [record.message for record in caplog.records if record.message.startswith(beginnings)]


STAGES = ("draining", "drained", "some requests", "stopped")


@pytest.mark.slow
async def test_the_end_of_an_idle_router_is_told_step_by_step(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running():
        pass
    assert told_by(caplog, *STAGES) == [
        "draining: 0 requests running, up to 0.2 s",
        "drained: every request had finished",
        "stopped",
    ]


@pytest.mark.slow
async def test_a_router_told_to_hurry_does_not_wait_and_has_cut_what_ran_when_it_stops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    at_once = asyncio.Event()
    at_once.set()
    async with (
        asyncio.timeout(5),
        scripted_engine(health=says(200), v1_chat_completions=never) as engine,
        httpx.AsyncClient() as client,
    ):
        lines: list[bytes] = []
        recorder = Recorder(lines_to(lines.append), utc_now)
        values = settings(baseline=f"http://127.0.0.1:{engine.port}", drain_timeout_s=60)
        router = Router(values, recorder)
        await router.start()
        await until_ready(router, client)
        url = f"http://127.0.0.1:{router.port}/v1/chat/completions"
        asking = asyncio.create_task(client.post(url, json={"model": "m", "messages": []}))
        await engine.until_asked("/v1/chat/completions", 1)
        await router.stop(at_once)
        await asyncio.gather(asking, return_exceptions=True)
        recorder.close(1.0)
        page = await router.metrics.render(router.fleet.snapshot(0.0), "threshold")
    assert b"cut_by_drain" in b"".join(lines)
    assert b'outcome="cut_by_drain",pool="baseline"' in page
    assert told_by(caplog, *STAGES) == [
        "draining: 1 requests running, up to 60 s",
        "some requests had not finished and were cut",
        "stopped",
    ]


@pytest.mark.slow
async def test_until_balancers_know_of_its_end_a_router_takes_whom_they_send() -> None:
    async with scripted_engine(health=says(200)) as engine, httpx.AsyncClient() as client:
        router = Router(settings(baseline=f"http://127.0.0.1:{engine.port}", drain_delay_s=60), Recorder(None, utc_now))
        await router.start()
        await until_ready(router, client)
        at_once = asyncio.Event()
        stopping = asyncio.create_task(router.stop(at_once))
        await asyncio.sleep(0)
        async with httpx.AsyncClient() as newcomer:
            for port in (router.port, router.admin_port):
                assert (await newcomer.get(f"http://127.0.0.1:{port}/ready")).status_code == 503
            answer = await newcomer.get(f"http://127.0.0.1:{router.port}/health")
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        at_once.set()
        async with asyncio.timeout(5):
            await stopping
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{router.port}/health")


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(StartError, match=r"^admin_port: cannot listen on nowhere\.invalid:1: "):
        bind("nowhere.invalid", 1, "admin_port")


def test_the_reason_of_an_error_is_the_systems_own_word() -> None:
    assert reason(OSError(98, "error while attempting to bind on address ('127.0.0.1', 1): in use")) == (
        "address already in use"
    )
    assert reason(OSError("Odd")) == "odd"


@pytest.mark.parametrize(
    ("limits", "asked_for", "allowed"),
    [((100, 200), [(200, 200)], 200), ((200, 200), [], 200), ((100, resource.RLIM_INFINITY), [], 100)],
)
def test_descriptors_are_raised_to_what_the_system_grants(
    limits: tuple[int, int], asked_for: list[tuple[int, int]], allowed: int,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    granted: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, wanted: granted.append(wanted))
    raise_open_files()
    assert granted == asked_for
    assert f"only {allowed} open files" in caplog.text


def test_enough_descriptors_are_nothing_to_talk_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (OPEN_FILES_MIN, OPEN_FILES_MIN))
    raise_open_files()
    assert caplog.text == ""
