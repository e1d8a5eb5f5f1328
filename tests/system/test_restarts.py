"""Restarts under load, one after the other: of all engines, and of the routers behind a balancer."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import psutil
import pytest

from tests.field.client import Client
from tests.field.router import Router, until
from tests.system.chaos.balancer import Balancer
from tests.system.chaos.load import visitor
from tests.system.chaos.plan import Blow, Harm
from tests.system.chaos.run import LIMITS, Engines, evidence, settings_of
from tests.system.chaos.verdict import DIED, judge, read_journals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
"""Seconds where nothing else runs; many processes start here, and each start takes a busy machine long."""

CLIENTS = 8
EVER = {"first_byte_timeout_s": 0, "idle_timeout_s": 0}
"""As by default: nothing is cut for being slow."""

AGAIN_MAX = CLIENTS
"""At most one each, of dozens: who asks in the very moment in which a connection ends that it has used before."""

DELAY_S = 1.0
"""Longer than the balancer needs to notice, and than any client thinks between two requests on one connection."""


@asynccontextmanager
async def engines_in(folder):
    engines = Engines(folder, lambda _: None)
    try:
        await asyncio.gather(*map(engines.start, engines.ports))
        yield engines
    finally:
        await engines.stop()


@asynccontextmanager
async def load_on(port, again=None):
    """Clients at work for the length of the block, and until their last answer has come; their fates."""
    fates, over = [], asyncio.Event()
    working = (visitor(number, "restarts", port, over.is_set, fates, again) for number in range(CLIENTS))
    visitors = [asyncio.create_task(work) for work in working]
    yield fates
    over.set()
    await asyncio.gather(*visitors)


def unserved(fates):
    """Those who got no answer, or an error instead of one."""
    return [fate for fate in fates if not fate.left and (fate.lost or fate.status != 200)]


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


def nothing_failed(engines, fates, again):
    """Every request was served, and none by two engines."""
    assert [fate for fate in fates if not fate.left and not fate.done] == []
    # A stream that began before SIGTERM could not announce that its connection ends with it.
    assert len(again) <= AGAIN_MAX
    journals = read_journals({name: engines.journal(name).read_text() for name in engines.ports})
    assert {token: journal.asked for token, journal in journals.items() if journal.asked.total() > 1} == {}


async def replica(stack, engines, folder, number, before=None, workers=1):
    """A router that all engines serve; where there was one before, in its place."""
    folder = folder / f"replica-{number}"
    folder.mkdir(exist_ok=True)
    places = {} if before is None else {"port": before.port, "admin_port": before.admin_port}
    router = Router(
        folder, settings_of(engines, folder) | EVER | places | {"drain_delay_s": DELAY_S, "workers": workers}
    )
    router.port, router.admin_port = router.settings["port"], router.settings["admin_port"]
    stack.push_async_callback(router.kill)
    await router.start()
    await router.settled()
    return router


async def some_more(fates, than):
    """Wait until so many requests more have been made as there are clients."""
    async with asyncio.timeout(30):
        while len(fates) < than + CLIENTS:  # noqa: ASYNC110  # the list tells nobody
            await asyncio.sleep(0.05)
