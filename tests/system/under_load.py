"""What tests of restarts share: engines, clients at work meanwhile, and the verdict that none of them noticed."""

import asyncio
from contextlib import asynccontextmanager

from tests.field.router import Router
from tests.system.chaos.load import visitor
from tests.system.chaos.run import Engines, settings_of
from tests.system.chaos.verdict import read_journals

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
