"""Asks a speculative and a plain engine for the same greedy answers now and then, and acts where too many differ.

Off unless an interval is set. One comparison runs at a time, three short answers each, and none where requests wait at
one of the engines: a check must not make them wait longer. What the answers mean is decided by `equivalence`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from itertools import count
from typing import NamedTuple

from breakeven.config import BackendAddress, Settings
from breakeven.engine_client import EngineClient, EngineError
from breakeven.equivalence import PROMPTS, TOKENS, Answer, Equivalence, Finding, Rule, parted_at
from breakeven.fleet import Drained
from breakeven.metric_table import Compared
from breakeven.metrics import Metrics
from breakeven.tls import engine_context
from breakeven_policies.snapshot import BackendView, FleetSnapshot, Health, PoolKind

LOG = logging.getLogger(__name__)

ANSWER_TIMEOUT_S = 60.0
"""32 tokens take a large model a second and a small one on a laptop five: after a minute the engine stands still."""


class Pair(NamedTuple):
    """Who is compared with whom, and by which model of both."""

    pool: str
    backend: str
    reference: str
    model: str


class EquivalenceGuard:
    """Compares while `run` runs and an interval is set. `apply` drains an engine where that is wanted."""

    def __init__(
        self,
        settings: Settings,
        snapshot: Callable[[], FleetSnapshot],
        metrics: Metrics,
        apply: Callable[[Drained], object],
    ) -> None:
        self._snapshot = snapshot
        self._metrics = metrics
        self._apply = apply
        self._wanted = asyncio.Event()
        self._turn = count()
        self._drained: set[str] = set()
        self._told: dict[Pair, str | None] = {}
        self._equivalence = Equivalence(rule_of(settings))
        self.reconfigure(settings)

    def reconfigure(self, settings: Settings, strangers: Iterable[str] = ()) -> None:
        """Compare by these settings from now on; `strangers` are backends that are others now, or gone."""
        self._settings = settings
        self._addresses = {address.name: address for address in settings.addresses()}
        self._equivalence.reconfigure(rule_of(settings))
        self._equivalence.forget(strangers)
        self._told.clear()
        if settings.equivalence_interval_s:
            self._wanted.set()
        else:
            self._wanted.clear()
            self._equivalence.forget(list(self._equivalence.findings()))
        self._show()

    async def run(self) -> None:
        """Compare again and again until cancelled."""
        while True:
            await self._wanted.wait()
            await asyncio.sleep(self._settings.equivalence_interval_s)
            try:
                await self.compare(next(self._turn))
            except Exception:  # a comparison that goes wrong, in whatever way, must not end a router that serves
                LOG.exception("equivalence: the comparison failed")

    async def compare(self, turn: int) -> None:
        """One comparison; the turn says which engines and which prompt."""
        fleet = self._snapshot()
        self._begin_anew(fleet)
        pairs = pairs_of(fleet)
        if not pairs:
            return
        pair, prompt = pairs[turn % len(pairs)], PROMPTS[turn // len(pairs) % len(PROMPTS)]
        if busy(fleet, pair):
            self._metrics.compared(pair.pool, pair.backend, Compared.SKIPPED)
            return
        try:
            reference, answer = await asyncio.gather(
                self._ask(pair.reference, pair.model, prompt), self._ask(pair.backend, pair.model, prompt)
            )
            again = await self._ask(pair.reference, pair.model, prompt)
        except EngineError as error:
            self._tell(pair, str(error))
            self._metrics.compared(pair.pool, pair.backend, Compared.FAILED)
            return
        self._tell(pair, None)
        self._judge(pair, parted_at(reference, answer), parted_at(reference, again))

    async def _ask(self, backend: str, model: str, prompt: str) -> Answer:
        address: BackendAddress = self._addresses[backend]
        context = engine_context(address.trust) if address.tls else None
        async with EngineClient(address, ANSWER_TIMEOUT_S, context) as engine:
            return await engine.greedy_answer(model, prompt, TOKENS)

    def _judge(self, pair: Pair, parted: int | None, control: int | None) -> None:
        was_broken = self._is_broken(pair.backend)
        finding = self._equivalence.compared(pair.backend, pair.reference, parted, control)
        self._metrics.compared(pair.pool, pair.backend, Compared.SAME if parted is None else Compared.DIVERGED)
        self._show()
        if finding.broken and not was_broken:
            drains = self._settings.equivalence_action == "drain"
            LOG.warning("equivalence: %s", broken_line(pair.backend, finding, drained=drains))
            if drains:
                self._drained.add(pair.backend)
                self._apply(Drained(pair.backend))
        elif was_broken and not finding.broken:
            LOG.info("equivalence: %s answers as plain engines do again", pair.backend)

    def _tell(self, pair: Pair, trouble: str | None) -> None:
        """Log what is wrong when it begins or changes, not each time."""
        if trouble is not None and self._told.get(pair) != trouble:
            LOG.warning("equivalence: %s and %s cannot be compared: %s", pair.backend, pair.reference, trouble)
        self._told[pair] = trouble

    def _is_broken(self, backend: str) -> bool:
        finding = self._equivalence.findings().get(backend)
        return finding is not None and finding.broken

    def _begin_anew(self, fleet: FleetSnapshot) -> None:
        """Whoever was taken out here and has been resumed since is judged by what it answers from now on."""
        draining = {backend.name for pool in fleet.pools for backend in pool.backends if backend.draining}
        resumed = self._drained - draining
        if resumed:
            self._drained -= resumed
            self._equivalence.forget(resumed)
            self._show()

    def _show(self) -> None:
        self._metrics.equivalence = self._equivalence.findings()


def rule_of(settings: Settings) -> Rule:
    """How answers are judged."""
    return Rule(settings.equivalence_window, settings.equivalence_divergence_max)


def pairs_of(fleet: FleetSnapshot) -> list[Pair]:
    """Who can be compared: each speculative engine that is ready with each plain one, by a model of both."""
    plain = [backend for _, backend in _ready(fleet, PoolKind.PLAIN)]
    return [
        Pair(pool, backend.name, reference.name, min(shared))
        for pool, backend in _ready(fleet, PoolKind.SPECULATIVE)
        for reference in plain
        if (shared := (backend.models or frozenset()) & (reference.models or frozenset()))
    ]


def _ready(fleet: FleetSnapshot, kind: PoolKind) -> list[tuple[str, BackendView]]:
    return [
        (pool.name, backend)
        for pool in fleet.pools
        if pool.kind is kind
        for backend in pool.backends
        if backend.health is Health.READY
    ]


def busy(fleet: FleetSnapshot, pair: Pair) -> bool:
    """Whether requests wait at one of the two."""
    two = (backend for pool in fleet.pools for backend in pool.backends if backend.name in pair[1:3])
    return any(backend.signals is not None and bool(backend.signals.waiting) for backend in two)


def broken_line(backend: str, finding: Finding, *, drained: bool) -> str:
    """What a person has to know."""
    differ = round(finding.share * finding.answers)
    place = "" if finding.parted_at is None else f", from token {finding.parted_at:g} on in the middle"
    action = "; it is given no more requests until it is resumed" if drained else ""
    return f"{backend}: {differ} of {finding.answers} greedy answers differ from those of plain engines{place}{action}"
