"""B58 and B91: the router lives before any engine does, uses one as soon as it can serve, and survives its restarts."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.field.client import body, refused
from tests.field.router import Router, until
from tests.field.scripted_engine import Engine
from tests.field.scripts import answers
from tests.field.stage import BASE, SPEC, Stage, pools, staged
from tests.house.needs import missing, needs

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

COLD = body(temperature=0.2)
LOADING = answers(b"", 503, headers=())
SERVES = answers(b"", headers=())


async def health_becomes(stage: Stage, engine: Engine, wanted: str) -> None:
    async def is_so() -> bool:
        return (await stage.router.health_of())[engine.name] == wanted

    await until(is_so, f"{engine.name} is {wanted}")


async def statuses(router: Router) -> tuple[int | None, int | None]:
    """Of liveness and of readiness."""
    return (await router.get("/health")).status, (await router.get("/ready")).status


async def test_b58_b91_a_router_without_engines_is_live_and_each_engine_is_used_when_it_has_loaded(
    tmp_path: Path,
) -> None:
    base, spec = Engine(f"{BASE}-0"), Engine(f"{SPEC}-0")
    for engine in (base, spec):
        await engine.listen()
        await engine.refuse()  # it has its port and nobody listens there
    async with staged(tmp_path, base=[base], spec=[spec], settle=False) as stage:
        await health_becomes(stage, spec, "down")
        assert await statuses(stage.router) == (200, 503)
        refused(await stage.ask(COLD), 503)
        spec.probes["/health"] = LOADING
        await spec.listen()
        await health_becomes(stage, spec, "loading")
        assert await statuses(stage.router) == (200, 503)
        await base.listen()
        await health_becomes(stage, base, "ready")
        assert await statuses(stage.router) == (200, 200)
        assert (await stage.ask(COLD))["x-breakeven-backend"] == base.name
        assert spec.requests == []
        spec.probes["/health"] = SERVES
        await health_becomes(stage, spec, "ready")
        assert (await stage.ask(COLD))["x-breakeven-backend"] == spec.name


@contextlib.asynccontextmanager
async def traffic(stage: Stage) -> AsyncIterator[list[int | None]]:
    """Requests without a pause, each on a connection of its own; the statuses of all that were made."""
    got: list[int | None] = []
    over = asyncio.Event()

    async def ask() -> None:
        while not over.is_set():
            got.append((await stage.ask(COLD)).status)

    asking = [asyncio.create_task(ask()) for _ in range(4)]
    yield got
    over.set()
    await asyncio.gather(*asking)


async def test_b58_an_engine_that_restarts_under_traffic_loses_no_request(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage, traffic(stage) as got:
        await stage.spec.refuse()
        await health_becomes(stage, stage.spec, "down")
        stage.spec.probes["/health"] = LOADING
        await stage.spec.listen()
        await health_becomes(stage, stage.spec, "loading")
        while_loading = len(stage.spec.requests)
        await stage.base.request(len(stage.base.requests) + 10)
        assert len(stage.spec.requests) == while_loading
        stage.spec.probes["/health"] = SERVES
        await stage.spec.request(while_loading + 10)
    assert set(got) == {200}


async def test_b58_an_engine_that_comes_back_at_another_address_of_its_name_is_found(tmp_path: Path) -> None:
    """The name is in a hosts file that only this router sees."""
    if os.geteuid() != 0:
        missing("needs root, to give the router a hosts file of its own")
    unshare, hosts = needs("unshare", "apt-get install util-linux"), tmp_path / "hosts"
    engine = Engine(f"{SPEC}-0")
    await engine.listen()
    hosts.write_text("127.0.0.1 engine.test\n")
    (pool,) = pools([], [engine])
    named = {**pool, "backends": [{"name": engine.name, "url": f"http://engine.test:{engine.port}"}]}
    router = Router(tmp_path, {"pools": [named]})
    mounted = f'mount --bind {hosts} /etc/hosts && exec "$@"'
    router.run_by = (unshare, "--mount", "sh", "-c", mounted, "sh")
    stage = Stage(router, engine, engine, [engine])
    try:
        await router.start()
        await router.settled()
        assert (await stage.ask(COLD)).status == 200
        await engine.refuse()
        await router.lost(engine.name)
        engine.host = "127.0.0.2"
        await engine.listen()
        with hosts.open("r+") as file:  # in place: the mount shows this file, not this name
            file.write("127.0.0.2 engine.test\n")
        await router.settled()
        assert (await stage.ask(COLD)).status == 200
        await router.stop()
    finally:
        await router.kill()
        await engine.refuse()
