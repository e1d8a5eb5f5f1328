"""B51: where the router has no descriptors left it says so, blames no engine, and works again once some are free."""

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.field.client import body, refused
from tests.field.router import Router, total, until
from tests.field.stage import Stage, staged

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

SHORTAGES = "breakeven_descriptor_shortages_total"
CPU_S = 0.5


def allow(router: Router, descriptors: int) -> None:
    """Let the router open so many; what it has open above that stays open."""
    _, hard = resource.prlimit(router.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(router.pid, resource.RLIMIT_NOFILE, (descriptors, hard))


@contextmanager
def crowd(stage: Stage, count: int) -> Iterator[None]:
    """Inside, so many clients are connected and say nothing."""
    with ExitStack() as clients:
        for _ in range(count):
            clients.enter_context(socket.create_connection(("127.0.0.1", stage.router.port), timeout=10))
        yield


async def test_b51_without_descriptors_clients_wait_in_vain_and_the_router_does_not_spin(tmp_path: Path) -> None:
    async with staged(tmp_path, {"probe_interval_s": 60, "scrape_interval_s": 60}) as stage:
        async with await stage.client() as early:
            assert (await early.ask(None, method="GET", path="/health")).status == 200
            allow(stage.router, psutil.Process(stage.router.pid).num_fds() + 2)
            with crowd(stage, 30):
                used_s = sum(psutil.Process(stage.router.pid).cpu_times()[:2])
                for _ in range(5):
                    assert (await early.ask(None, method="GET", path="/health")).status == 200
                    await asyncio.sleep(0.2)  # the case: a second in which nothing can be done for those who wait
                assert sum(psutil.Process(stage.router.pid).cpu_times()[:2]) - used_s < CPU_S
        allow(stage.router, 1024)

        async def served() -> bool:
            try:
                return (await stage.ask(body())).status == 200
            except (OSError, AssertionError):
                return False

        await until(served, "a client that comes later is served")


async def test_b51_without_descriptors_no_engine_is_blamed_and_the_log_and_a_metric_say_why(tmp_path: Path) -> None:
    async with staged(tmp_path, {"connect_timeout_s": 2}) as stage, await stage.client() as early:
        assert (await early.ask(body())).status == 200
        allow(stage.router, 3)
        while (reply := await early.ask(body())).status == 200:
            for engine in stage.all_engines:  # kept connections are closed, so that new ones are needed
                for connection in list(engine.connections):
                    connection.transport.abort()
        refused(reply, 503)
        await stage.router.logged("engines cannot be reached: too many open files")
        await stage.router.logged("health: .*no descriptor left to ask with")
        allow(stage.router, 1024)
        assert "down" not in (await stage.router.health_of()).values()
        assert total(await stage.router.samples(SHORTAGES), SHORTAGES, side="engines") >= 1
