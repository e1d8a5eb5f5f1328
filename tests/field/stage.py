"""A router between a baseline and a speculative pool of scripted engines: what most field tests play on."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.field.client import Client, Reply
from tests.field.router import Router, Samples, total, until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Seen

BASE = "baseline"
SPEC = "speculative"
REQUESTS = "breakeven_requests_total"
IN_FLIGHT = "breakeven_requests_in_flight"


@dataclass(slots=True)
class Stage:
    """The parts; `all_engines` also holds what is neither the first baseline nor the first speculative engine."""

    router: Router
    base: Engine
    spec: Engine
    all_engines: list[Engine] = field(default_factory=list)
    log_mark: int = 0

    def clear(self) -> None:
        """Every engine answers plainly and remembers nothing."""
        for engine in self.all_engines:
            engine.clear()

    async def prepare(self) -> None:
        """Before a test: engines cleared, every backend ready."""
        self.clear()
        self.log_mark = len(self.router.log)
        await self.router.settled()

    def check(self) -> None:
        """After a test: no engine saw a malformed request, no script failed, no traceback was logged."""
        faults = {engine.name: engine.faults for engine in self.all_engines if engine.faults}
        assert not faults, faults
        log = "\n".join(self.router.log[self.log_mark :])
        assert "Traceback" not in log, log

    def script(self, script: Any) -> None:
        """The same script for every engine."""
        for engine in self.all_engines:
            engine.script = script

    @property
    def seen(self) -> list[Seen]:
        """What reached any engine."""
        return [seen for engine in self.all_engines for seen in engine.requests]

    async def client(self) -> Client:
        """A new connection to the router."""
        return await Client.connect(self.router.port)

    async def admin(self) -> Client:
        """A new connection to the admin port."""
        return await Client.connect(self.router.admin_port)

    async def ask(self, content: bytes | None, **how: Any) -> Reply:
        """One exchange on a connection of its own."""
        async with await self.client() as client:
            return await client.ask(content, **how)

    async def routed(self, content: bytes, **how: Any) -> tuple[str, Seen, Reply]:
        """One exchange; the pool whose engine got it (counted in the engines), and what that engine saw."""
        before = {engine.name: len(engine.requests) for engine in self.all_engines}
        reply = await self.ask(content, **how)
        new = [(engine, seen) for engine in self.all_engines for seen in engine.requests[before[engine.name] :]]
        assert len(new) == 1, f"{len(new)} engine calls; the answer was {reply.status} {reply.body[:300]!r}"
        engine, seen = new[0]
        pool = engine.name.rsplit("-", 1)[0]
        assert reply["x-breakeven-pool"] == pool
        assert reply["x-breakeven-backend"] == engine.name
        return pool, seen, reply

    @contextlib.asynccontextmanager
    async def counting(self, outcome: str, times: int = 1, **labels: str) -> AsyncIterator[None]:
        """What happens inside is counted as that outcome so many times, and as no other."""
        before = await self.router.samples(REQUESTS)
        yield
        after: Samples = {}

        async def counted() -> bool:
            nonlocal after
            after = await self.router.samples(REQUESTS)
            return total(after, REQUESTS) - total(before, REQUESTS) >= times

        with contextlib.suppress(AssertionError):
            await until(counted, "requests counted", 5)
        grown = {key: value - before.get(key, 0) for key, value in after.items() if key[0] == REQUESTS}
        grown = {key: value for key, value in grown.items() if value}
        wanted = {("outcome", outcome), *labels.items()}
        assert sum(grown.values()) == times, grown
        assert all(wanted <= key[1] for key in grown), f"wanted {wanted}, counted {grown}"

    async def idle(self) -> None:
        """Wait until no request is in flight by the router's own count; it must not pass below zero."""

        async def none() -> bool:
            values = list((await self.router.samples(IN_FLIGHT)).values())
            assert all(value >= 0 for value in values), values
            return sum(values) == 0

        await until(none, "nothing in flight")


def pools(base: list[Engine], spec: list[Engine]) -> list[dict[str, Any]]:
    """The `pools` setting for these engines; a pool without engines is not configured."""

    def backends(engines: list[Engine]) -> list[dict[str, str]]:
        return [{"name": engine.name, "url": engine.url} for engine in engines]

    plain = {"name": BASE, "kind": "plain", "backends": backends(base)}
    drafting = {"kind": "speculative", "method": "eagle3", "speculative_tokens": 5}
    speculative = {"name": SPEC, **drafting, "backends": backends(spec)}
    return [pool for pool in (plain, speculative) if pool["backends"]]


@contextlib.asynccontextmanager
async def staged(
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    base: list[Engine] | None = None,
    spec: list[Engine] | None = None,
    settle: bool = True,
) -> AsyncIterator[Stage]:
    """Engines and a router that knows them all; an engine that does not listen yet does so first."""
    base = base if base is not None else [Engine(f"{BASE}-0")]
    spec = spec if spec is not None else [Engine(f"{SPEC}-0")]
    engines = [*base, *spec]
    for engine in engines:
        if not engine.port:
            await engine.listen()
    router = Router(folder, {"pools": pools(base, spec), **(settings or {})})
    stage = Stage(router, base[0] if base else spec[0], spec[0] if spec else base[0], engines)
    try:
        await router.start()
        if settle:
            await router.settled()
        yield stage
        await router.stop()
    finally:
        await router.kill()
        for engine in engines:
            await engine.refuse()
