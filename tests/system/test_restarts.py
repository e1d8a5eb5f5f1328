"""Restarts under load, one after the other: of all engines, and of the routers behind a balancer."""

import asyncio
from contextlib import AsyncExitStack

import psutil
import pytest

from tests.field.client import Client
from tests.field.router import Router, until
from tests.system.chaos.balancer import Balancer
from tests.system.chaos.plan import Blow, Harm
from tests.system.chaos.run import LIMITS, evidence, settings_of
from tests.system.chaos.verdict import DIED, judge
from tests.system.under_load import CLIENTS, EVER, engines_in, load_on, nothing_failed, replica, some_more, unserved

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
"""Seconds where nothing else runs; many processes start here, and each start takes a busy machine long."""


@pytest.mark.parametrize("drained", [False, True], ids=["at once", "drained"])
async def test_engines_restarted_one_by_one_fail_no_request_that_had_not_started(tmp_path, drained):
    """Drained before, they fail none at all."""
    async with engines_in(tmp_path) as engines:
        router = Router(tmp_path, settings_of(engines, tmp_path) | EVER)
        try:
            await router.start()
            await router.settled()
            async with load_on(router.port) as fates:
                for name in engines.ports:
                    if drained:
                        await drain(router, name)
                    await engines.strike(Blow(name, Harm.RESTART, 0.0, 0.0))
                    if drained:
                        await told(router, name, "resume")
                    await router.settled(name)
            await router.stop()
        finally:
            await router.kill()
        assert unserved(fates) == []
        verdict = judge(evidence(engines, tmp_path, fates), LIMITS)
        assert verdict.faults == []
        assert set(verdict.explained) <= (set() if drained else {DIED})
        assert {outage.engine for outage in engines.outages} == set(engines.ports)


async def drain(router, name):
    """Give it no more requests, and wait until none runs there."""
    await told(router, name, "drain")

    async def empty():
        return (await router.backends())[name]["in_flight"] == 0

    await until(empty, f"{name} has nothing to do")


async def told(router, name, word):
    """Say it to the admin port."""
    async with await Client.connect(router.admin_port) as client:
        reply = await client.ask(b"", path=f"/backends/{name}/{word}")
        assert reply.status == 200, reply.body


async def test_routers_restarted_one_by_one_behind_a_balancer_fail_no_request(tmp_path):
    async with engines_in(tmp_path) as engines, AsyncExitStack() as stack:
        routers = await asyncio.gather(*(replica(stack, engines, tmp_path, number) for number in range(2)))
        balancer = Balancer(router.port for router in routers)
        await balancer.open()
        stack.push_async_callback(balancer.close)
        async with load_on(balancer.port, again := []) as fates:
            for number, router in enumerate(routers):
                served = len(fates)
                await router.stop()
                routers[number] = await replica(stack, engines, tmp_path, number, router)
                await some_more(fates, served)
        nothing_failed(engines, fates, again)


async def test_workers_restarted_one_by_one_fail_no_request(tmp_path):
    async with engines_in(tmp_path) as engines, AsyncExitStack() as stack:
        router = await replica(stack, engines, tmp_path, 0, workers=2)
        supervisor = psutil.Process(router.pid)
        async with load_on(router.port, again := []) as fates:
            for worker in supervisor.children():
                served = len(fates)
                worker.terminate()
                await replaced(supervisor, worker)
                await some_more(fates, served)
        assert len(fates) > 2 * CLIENTS
        await router.stop()
        nothing_failed(engines, fates, again)


async def replaced(supervisor, worker):
    """Wait until that worker has left and there are two again."""
    async with asyncio.timeout(60):
        while worker.is_running() or len(supervisor.children()) < 2:  # noqa: ASYNC110  # only the system tells
            await asyncio.sleep(0.05)
