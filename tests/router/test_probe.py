"""`breakeven.probe`: answers become events, and a slow engine delays no other (field cases B54, B56, B58, B73)."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from breakeven.clock import monotonic_s
from breakeven.config import BackendAddress
from breakeven.engine_client import EngineClient
from breakeven.fleet import (
    Ejection,
    Finished,
    Fleet,
    FleetEvent,
    ModelsListed,
    PoolSpec,
    ProbeFailed,
    ProbeSucceeded,
    Revived,
    Scraped,
    SignalsForgotten,
    Started,
)
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory
from breakeven.probe import SCRAPE_FAILURES_MAX, EngineWatch, Listeners, Prober, Rhythm, ask_once
from breakeven.table_book import Identified
from breakeven_policies.snapshot import EngineSignals, Health, PoolKind
from tests.router.scripted_engine import Answer, ScriptedEngine, free_port, never, says, scripted_engine

POOL = PoolSpec("spec", PoolKind.SPECULATIVE, "eagle3", 3, ("spec-0", "spec-1"))
METRICS = b"vllm:num_requests_running 3.0\n"
MODELS = json.dumps({"data": [{"id": "m"}, {"id": "n"}]}).encode()
TLS = ssl.create_default_context()
FAST = Rhythm(health_s=0.01, scrape_s=0.01, models_s=0.01, timeout_s=5.0)
SLOW = Rhythm(health_s=0.01, scrape_s=3600, models_s=3600, timeout_s=5.0)


class Ear:
    """Hears events; the fleet hears them too."""

    def __init__(self) -> None:
        self.events: list[FleetEvent] = []
        self.fleet = Fleet((POOL,), ejection=Ejection(failures_max=1))
        self.metrics = Metrics((POOL,))
        self.directory = ModelDirectory(POOL.backends, {})
        self.heard = asyncio.Condition()
        self.listeners = Listeners(self.hear, self.metrics, self.directory, monotonic_s)

    def hear(self, event: FleetEvent) -> None:
        self.events.append(event)
        self.fleet.apply(event)
        asyncio.get_running_loop().create_task(self.wake())

    async def wake(self) -> None:
        async with self.heard:
            self.heard.notify_all()

    def count(self, kind: type[FleetEvent], backend: str = "spec-0") -> int:
        return sum(isinstance(event, kind) and event.backend == backend for event in self.events)

    async def until(self, kind: type[FleetEvent], times: int = 1, backend: str = "spec-0") -> None:
        async with self.heard:
            await self.heard.wait_for(lambda: self.count(kind, backend) >= times)

    def health(self, index: int = 0) -> Health:
        return self.fleet.snapshot(0.0).pools[0].backends[index].health

    async def failures(self, kind: str) -> float:
        page = (await self.metrics.render(self.fleet.snapshot(0.0), "x")).decode()
        prefix = f'breakeven_backend_{kind}_failures_total{{backend="spec-0",pool="spec"}} '
        return float(page.split(prefix)[1].split("\n")[0])


@asynccontextmanager
async def watch(ear: Ear, **answers: Answer) -> AsyncIterator[tuple[EngineWatch, ScriptedEngine]]:
    async with scripted_engine(**answers) as engine:
        address = BackendAddress("spec-0", "spec", "127.0.0.1", engine.port, tls=False)
        async with EngineClient(address, 5.0, TLS) as client:
            yield EngineWatch(client, FAST, ear.listeners), engine


@asynccontextmanager
async def probing(ear: Ear, rhythm: Rhythm, *ports: int) -> AsyncIterator[None]:
    addresses = tuple(
        BackendAddress(f"spec-{index}", "spec", "127.0.0.1", port, tls=False) for index, port in enumerate(ports)
    )
    task = asyncio.create_task(Prober(addresses, rhythm, ear.listeners).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_failed_health_check_is_an_event_and_counted() -> None:
    ear = Ear()
    async with watch(ear, health=says(500)) as (engine, _):
        await engine.check_health()
    assert ear.events == [ProbeFailed("spec-0", "GET /health answered 500")]
    assert await ear.failures("probe") == 1


async def test_a_metrics_page_that_cannot_be_read_takes_nothing_out_and_is_counted() -> None:
    ear = Ear()
    async with watch(ear, health=says(200), metrics=says(500)) as (engine, _):
        await engine.check_health()
        await engine.scrape()
    assert ear.events == [ProbeSucceeded("spec-0")]
    assert ear.health() is Health.READY
    assert await ear.failures("scrape") == 1


async def test_figures_that_can_no_longer_be_read_are_forgotten_once() -> None:
    ear = Ear()
    async with watch(ear, metrics=says(200, METRICS)) as (engine, script):
        await engine.scrape()
        script.answers["/metrics"] = says(500)
        for _ in range(SCRAPE_FAILURES_MAX - 1):
            await engine.scrape()
        assert ear.count(Scraped) == 1
        for _ in range(3):
            await engine.scrape()
    assert [type(event) for event in ear.events] == [Scraped, SignalsForgotten]


async def test_a_list_of_models_that_fails_leaves_the_last_one() -> None:
    ear = Ear()
    async with watch(ear, v1_models=says(200, MODELS)) as (engine, script):
        await engine.list_models()
        script.answers["/v1/models"] = says(500)
        await engine.list_models()
    assert ear.events == [ModelsListed("spec-0", frozenset({"m", "n"}))]
    assert ear.directory.card("m") == b'{"id":"m"}'


async def test_an_engine_says_what_it_is_whenever_it_lists_its_models() -> None:
    cards = [{"id": "m", "root": "org/m"}, {"id": "adapter", "root": "x", "parent": "m"}]
    said: list[Identified] = []
    ear = Ear()
    ear.listeners = replace(ear.listeners, identified=said.append)
    answers = {
        "v1_models": says(200, json.dumps({"data": cards}).encode()),
        "version": says(200, b'{"version": "1.0"}'),
    }
    async with watch(ear, **answers) as (engine, script):
        await engine.list_models()
        script.answers["/version"] = says(404)
        await engine.list_models()
        script.answers["/v1/models"] = says(500)
        await engine.list_models()
    names = frozenset({"m", "org/m"})
    assert said == [Identified("spec-0", names, "1.0"), Identified("spec-0", names, None)]


async def test_trouble_is_logged_when_it_begins_changes_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ear = Ear()
    async with watch(ear, health=says(200)) as (engine, script):
        for status in (200, 500, 500, 503, 401, 401, 200, 200):
            script.answers["/health"] = says(status)
            await engine.check_health()
    told = [record.getMessage() for record in caplog.records if record.name == "breakeven.probe"]
    assert [line.removeprefix("spec-0: health: ") for line in told] == [
        "GET /health answered 500",
        "GET /health answered 503",
        "GET /health answered 401: the pool's api_key is missing or not accepted",
        "works again",
    ]


async def test_an_engine_is_asked_at_once_and_then_for_everything_it_knows() -> None:
    ear = Ear()
    async with (
        scripted_engine(health=says(200), metrics=says(200, METRICS), v1_models=says(200, MODELS)) as engine,
        probing(ear, Rhythm(3600, 3600, 3600, 5.0), engine.port),
    ):
        await ear.until(Scraped)
        await ear.until(ModelsListed)
    assert ear.count(ProbeSucceeded) == 1
    backend = ear.fleet.snapshot(0.0).pools[0].backends[0]
    assert (backend.health, backend.models) == (Health.READY, frozenset({"m", "n"}))
    assert backend.signals == EngineSignals(running=3.0)


async def test_everything_is_asked_again_and_again() -> None:
    ear = Ear()
    async with (
        scripted_engine(health=says(200), metrics=says(200, METRICS), v1_models=says(200, MODELS)) as engine,
        probing(ear, FAST, engine.port),
    ):
        for kind in (ProbeSucceeded, Scraped, ModelsListed):
            await ear.until(kind, times=3)


async def test_an_engine_that_never_answers_delays_no_other() -> None:
    ear = Ear()
    async with (
        scripted_engine(health=never, metrics=never, v1_models=never) as hung,
        scripted_engine(health=says(200), metrics=says(200, METRICS), v1_models=never) as well,
        probing(ear, FAST, hung.port, well.port),
    ):
        await ear.until(Scraped, times=3, backend="spec-1")
        await ear.until(ProbeSucceeded, times=3, backend="spec-1")
    assert ear.count(ProbeSucceeded, "spec-0") == ear.count(ProbeFailed, "spec-0") == 0


async def test_an_engine_that_is_not_there_is_not_asked_for_more_and_used_once_it_is() -> None:
    ear = Ear()
    port = await free_port()
    async with probing(ear, SLOW, port):
        await ear.until(ProbeFailed, times=2)
        assert ear.health() is Health.DOWN
        assert await ear.failures("scrape") == 0
        answers = {"/health": says(503), "/metrics": says(200, METRICS), "/v1/models": says(200, MODELS)}
        engine = ScriptedEngine(answers)
        server = await asyncio.start_server(engine.serve, "127.0.0.1", port)
        await engine.until_asked("/health", 2)
        assert engine.times_asked("/metrics") == engine.times_asked("/v1/models") == 0
        answers["/health"] = says(200)
        await ear.until(Scraped)
        await ear.until(ModelsListed)
        assert ear.health() is Health.READY
        server.close()
        await server.wait_closed()


async def test_an_engine_that_comes_back_is_asked_anew() -> None:
    ear = Ear()
    async with (
        scripted_engine(health=says(200), metrics=says(200, METRICS), v1_models=says(200, MODELS)) as engine,
        probing(ear, SLOW, engine.port),
    ):
        await ear.until(ModelsListed)
        engine.answers["/health"] = says(503)
        await ear.until(ProbeFailed)
        engine.answers["/health"] = says(200)
        await ear.until(ModelsListed, times=2)
        await ear.until(Scraped, times=2)


async def test_a_busy_engine_that_misses_a_probe_is_still_scraped() -> None:
    ear = Ear()
    async with watch(ear, health=says(200), metrics=says(200, METRICS)) as (engine, script):
        keeping = asyncio.create_task(engine.keep_signals())
        await engine.check_health()
        await ear.until(Scraped)
        script.answers["/health"] = says(500)
        await engine.check_health()
        seen = ear.count(Scraped)
        await ear.until(Scraped, times=seen + 2)
        keeping.cancel()
    assert ear.health() is Health.READY


async def test_a_key_is_sent_with_every_probe() -> None:
    ear = Ear()
    async with scripted_engine(health=says(200), v1_models=says(200, MODELS), metrics=says(200, METRICS)) as engine:
        address = BackendAddress("spec-0", "spec", "127.0.0.1", engine.port, tls=False, authorization=b"Bearer sesame")
        task = asyncio.create_task(Prober((address,), SLOW, ear.listeners).run())
        await ear.until(ModelsListed)
        await ear.until(Scraped)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert all(b"authorization: Bearer sesame" in head for head in engine.heads)


@asynccontextmanager
async def ejected(
    ear: Ear, models: bytes = MODELS, **answers: Answer
) -> AsyncIterator[tuple[EngineWatch, ScriptedEngine]]:
    """An engine that is asked whether it can make tokens, since a request failed there."""
    async with watch(ear, v1_models=says(200, models), **answers) as (watched, engine):
        ear.fleet.on_health = lambda _pool, _backend, health: watched.on_health(health)
        await watched.list_models()
        ear.fleet.apply(ProbeSucceeded("spec-0"))
        ear.fleet.apply(Started("spec-0"))
        ear.fleet.apply(Finished("spec-0", answered=False))
        assert ear.health() is Health.EJECTED
        reviving = asyncio.create_task(watched.keep_reviving())
        try:
            yield watched, engine
        finally:
            reviving.cancel()
            await asyncio.gather(reviving, return_exceptions=True)


async def test_an_ejected_engine_is_asked_for_a_token_until_it_makes_one() -> None:
    ear = Ear()
    async with ejected(ear, v1_completions=says(500)) as (_, engine):
        await engine.until_asked("/v1/completions", 3)
        assert ear.health() is Health.EJECTED
        engine.answers["/v1/completions"] = says(200, b"{}")
        await ear.until(Revived)
        assert ear.health() is Health.READY
        asked = engine.times_asked("/v1/completions")
        await asyncio.sleep(5 * FAST.health_s)
        assert engine.times_asked("/v1/completions") == asked


async def test_an_engine_that_goes_down_while_it_is_ejected_is_not_asked_for_tokens() -> None:
    ear = Ear()
    async with ejected(ear, v1_completions=says(500)) as (_, engine):
        await engine.until_asked("/v1/completions", 1)
        ear.fleet.apply(ProbeFailed("spec-0", "refused", refused=True))
        await asyncio.sleep(2 * FAST.health_s)
        asked = engine.times_asked("/v1/completions")
        await asyncio.sleep(10 * FAST.health_s)
        assert engine.times_asked("/v1/completions") == asked


@pytest.mark.parametrize("models", [MODELS, b'{"data": []}'], ids=["a refusal", "no model"])
async def test_an_engine_that_cannot_be_asked_comes_back_after_pauses_that_double(models: bytes) -> None:
    ear = Ear()
    async with ejected(ear, models, v1_completions=says(404)) as (watched, _):
        for times in range(1, 5):
            await ear.until(Revived, times)
            assert watched._revival_pause_s == pytest.approx(FAST.health_s * 2**times)
            ear.fleet.apply(Started("spec-0"))
            ear.fleet.apply(Finished("spec-0", answered=False))


async def test_the_pause_is_short_again_after_a_token() -> None:
    ear = Ear()
    async with ejected(ear, v1_completions=says(500)) as (watched, engine):
        await engine.until_asked("/v1/completions", 3)
        engine.answers["/v1/completions"] = says(200, b"{}")
        await ear.until(Revived)
        assert watched._revival_pause_s == FAST.health_s


async def test_an_engine_that_makes_tokens_for_us_and_fails_clients_comes_back_ever_more_slowly() -> None:
    ear = Ear()
    async with ejected(ear, v1_completions=says(200, b"{}")) as (watched, _):
        for times in range(1, 4):
            await ear.until(Revived, times)
            assert ear.health() is Health.READY
            assert watched._revival_pause_s == pytest.approx(FAST.health_s * 2 ** (times - 1))
            ear.fleet.apply(Started("spec-0"))
            ear.fleet.apply(Finished("spec-0", answered=False))


async def test_another_configuration_asks_who_is_new_and_no_longer_who_is_gone() -> None:
    ear = Ear()
    answers = {"health": says(200), "metrics": says(200, METRICS), "v1_models": says(200, MODELS)}
    async with scripted_engine(**answers) as first, scripted_engine(**answers) as second:

        def at(name: str, port: int) -> BackendAddress:
            return BackendAddress(name, "spec", "127.0.0.1", port, tls=False)

        prober = Prober((at("spec-0", first.port),), FAST, ear.listeners)
        task = asyncio.create_task(prober.run())
        async with asyncio.timeout(10):
            await ear.until(ProbeSucceeded, 2)
            prober.reconfigure((at("spec-1", second.port),), FAST)
            asked = first.times_asked("/health")
            await ear.until(ProbeSucceeded, 3, "spec-1")
            await ear.until(ModelsListed, 1, "spec-1")
        assert first.times_asked("/health") <= asked + 1  # one question may have been on its way
        assert not await prober.is_well("spec-0")
        assert await prober.is_well("spec-1")
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_who_stays_is_not_asked_anew_and_nobody_waits_for_who_is_gone() -> None:
    ear = Ear()
    async with scripted_engine(health=says(200)) as engine:
        stays = BackendAddress("spec-0", "spec", "127.0.0.1", engine.port, tls=False)
        gone = BackendAddress("spec-1", "spec", "127.0.0.1", engine.port, tls=False)
        prober = Prober((stays, gone), SLOW, ear.listeners)
        waiting = asyncio.create_task(prober.asked_all())
        await asyncio.sleep(0)
        before = prober._watches["spec-0"]
        prober.reconfigure((stays,), SLOW)
        assert prober._watches == {"spec-0": before}
        prober.reconfigure((stays,), FAST)
        assert prober._watches["spec-0"] is not before
        async with asyncio.timeout(10):
            await waiting


@pytest.mark.parametrize(("health", "models", "asked"), [(200, 200, 1), (200, 500, 1), (503, 200, 0)])
async def test_all_are_known_once_who_is_well_was_asked_for_its_models(health: int, models: int, asked: int) -> None:
    ear = Ear()
    async with scripted_engine(health=says(health), v1_models=says(models, MODELS)) as engine:
        ports = {"spec-0": engine.port, "spec-1": await free_port()}
        addresses = (BackendAddress(name, "spec", "127.0.0.1", port, tls=False) for name, port in ports.items())
        prober = Prober(tuple(addresses), SLOW, ear.listeners)
        task = asyncio.create_task(prober.run())
        async with asyncio.timeout(10):
            await prober.known_all()
        assert engine.times_asked("/v1/models") == asked
        assert ear.count(ProbeFailed, "spec-1") >= 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_engines_are_asked_once_and_all_at_the_same_time() -> None:
    async with scripted_engine(health=says(200)) as well:
        addresses = [
            BackendAddress("a", "spec", "127.0.0.1", well.port, tls=False),
            BackendAddress("b", "spec", "127.0.0.1", await free_port(), tls=False),
        ]
        good, bad = await ask_once(addresses, 5.0)
    assert good == ProbeSucceeded("a")
    assert isinstance(bad, ProbeFailed)
    assert bad.refused
