"""SIGKILL to a whole real engine under load, seen by clients of the router: what was started breaks, the rest moves.

The router is told nothing: neither of the death nor of the restart.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

from breakeven_bench.fleets import until_all_serve
from breakeven_bench.launch import Launcher
from breakeven_bench.vllm.host import Environment
from breakeven_bench.vllm.pair import Pair, Ports, start_pair
from tests.contract.engine import DONE, Engine, body, events_of, started
from tests.contract.targets import VLLM
from tests.field.client import Client, Reply

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.usefixtures("real_vllm"),
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

STREAMS = WHOLES = 3
"""Of each kind in flight when the engine dies: enough to fill a batch, few enough for one other engine to take over."""

LONG = {"max_tokens": 1500, "ignore_eos": True}
"""Half a minute of tokens: no answer ends by itself before the kill."""

WHOLE = {"max_tokens": 48, "ignore_eos": True}
"""Some seconds of tokens, in one piece at the end: longer than it takes to see them run and to kill."""

SHORT = {"max_tokens": 16, "ignore_eos": True}

COLD, HOT = {"temperature": 0.7}, {"temperature": 1.2}
"""What the default policy sends to the speculative and to the plain engine."""

AWAY = ("failover", "health")
"""Why a request is served elsewhere: it met the dead engine, or the router knew of the death by then."""

ONLY_PLAIN = {"temperature": 0.7, "min_p": 0.05}
"""What a speculative engine would refuse."""


@dataclass(frozen=True, slots=True)
class Site:
    """The pair, by pool the engines, and who starts another."""

    pair: Pair
    launcher: Launcher
    engines: dict[str, Engine]

    async def connect(self) -> Client:
        """A connection to the router, with the patience of a real engine."""
        client = await Client.connect(port_of(self.pair.router_url))
        client.patience_s = VLLM.patience_s
        return client

    async def ask(self, **fields: object) -> Reply:
        """The router's answer to these fields."""
        async with await self.connect() as client:
            return await client.ask(body(**fields))

    async def send(self, stack: AsyncExitStack, count: int, **fields: object) -> list[Client]:
        """So many requests under way, each on a connection of its own."""
        clients = [await stack.enter_async_context(await self.connect()) for _ in range(count)]
        for client in clients:
            await client.send(started(**fields), "POST")
        return clients

    async def holds(self, pool: str, requests: int) -> None:
        """Wait until the pool's engine works on so many requests."""
        await self.engines[pool].until(lambda page: page.value("vllm:num_requests_running") == requests)

    async def restart(self, pool: str) -> None:
        """Start the engine as it was started first, and wait until the router has found it by itself."""
        dead = self.engines[pool]
        server = self.launcher.start(dead.server.command)
        await server.ready()
        self.engines[pool] = Engine(VLLM, server, dead.port)
        async with asyncio.timeout(VLLM.patience_s):
            await until_all_serve(self.pair.admin_url)

    async def in_flight(self) -> list[int]:
        """What the router believes to be under way, backend by backend."""
        async with httpx.AsyncClient() as client:
            fleet = (await client.get(f"{self.pair.admin_url}/fleet")).json()
        return [backend["in_flight"] for pool in fleet["pools"] for backend in pool["backends"]]


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def service(reply: Reply) -> tuple[int | None, str, str]:
    """The status, and which pool answered for what reason."""
    return reply.status, reply["x-breakeven-pool"], reply["x-breakeven-reason"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory, real_vllm: Environment) -> AsyncIterator[Site]:
    async with Launcher(tmp_path_factory.mktemp("pair")) as launcher:
        pair = await start_pair(launcher, real_vllm, Ports(0, 0, 0, 0), print)
        plain, speculative, _ = launcher.servers
        engines = {
            "baseline": Engine(VLLM, plain, port_of(pair.baseline_url)),
            "speculative": Engine(VLLM, speculative, port_of(pair.eagle3_url)),
        }
        yield Site(pair, launcher, engines)


@pytest_asyncio.fixture(loop_scope="module")
async def site(fleet: Site) -> Site:
    """The same pair for all tests; an engine that a failed test left dead is started again."""
    for pool, engine in fleet.engines.items():
        if engine.server.exit_status is not None:
            await fleet.restart(pool)
    return fleet


@pytest.mark.parametrize(
    ("pool", "other", "fields"),
    [("speculative", "baseline", COLD), ("baseline", "speculative", HOT)],
    ids=["speculative", "plain"],
)
async def test_a_killed_engine_loses_its_started_streams_and_nothing_else_and_is_back_after_its_restart(
    site, pool, other, fields
):
    async with AsyncExitStack() as stack:
        streams = await site.send(stack, STREAMS, stream=True, **LONG, **fields)
        for client in streams:
            await client.has(b'"content":" ')
        wholes = await site.send(stack, WHOLES, **WHOLE, **fields)
        await site.holds(pool, STREAMS + WHOLES)
        site.engines[pool].server.kill()
        broken = [await client.end() for client in streams]
        moved = [await client.end() for client in wholes]
    assert site.engines[pool].server.exit_status == -signal.SIGKILL

    for reply in broken:
        *_, text, told, done = events_of(reply.body)
        assert (reply.status, reply.complete, done) == (200, True, DONE)
        assert (text["choices"][0]["finish_reason"], told["error"]["code"]) == (None, "upstream_error")
    assert [service(reply) for reply in moved] == [(200, other, "failover")] * WHOLES
    assert [reply.json()["usage"]["completion_tokens"] for reply in moved] == [WHOLE["max_tokens"]] * WHOLES
    status, answered, reason = service(await site.ask(**SHORT, **fields))
    assert (status, answered) == (200, other)
    assert reason in AWAY
    assert await site.in_flight() == [0, 0]

    await site.restart(pool)
    before = await site.engines[pool].idle()
    status, answered, reason = service(await site.ask(**SHORT, **fields))
    assert (status, answered) == (200, pool)
    assert reason not in AWAY
    assert (await site.engines[pool].after(before)).value("vllm:generation_tokens_total") == SHORT["max_tokens"]


async def test_what_only_the_killed_engine_may_serve_goes_nowhere_else(site):
    async with AsyncExitStack() as stack:
        (waiting,) = await site.send(stack, 1, **ONLY_PLAIN, **LONG)
        await site.holds("baseline", 1)
        site.engines["baseline"].server.kill()
        lost = await waiting.end()
    refused = await site.ask(**ONLY_PLAIN, **SHORT)
    # A request that went out on a kept connection is tried once more on a new one, which is refused.
    assert lost.status in (502, 503)
    assert refused.status == 503
    assert refused.values("x-breakeven-pool") == []
    assert (await site.ask(**COLD, **SHORT)).status == 200
    await site.restart("baseline")
    assert service(await site.ask(**ONLY_PLAIN, **SHORT))[:2] == (200, "baseline")
