"""Learns from a journal what the router learned from its requests: step times, acceptance, lengths.

A journal holds less than a router sees: no figure of the engine about a single request, scrapes only as far as
decisions carry them, and no events of streams. How many steps a drafting engine made for a stream is what its step
counter tells for that time. So what is learned here comes later and is somewhat coarser.
"""

from collections import deque
from collections.abc import Mapping

from msgspec.structs import replace

from breakeven_bench.replay.order import decided_s, ended_s
from breakeven_policies.journal import Entry
from breakeven_policies.learned import Learned
from breakeven_policies.learning import Learning, Observed, PoolFacts, PoolPrior
from breakeven_policies.measured import Table
from breakeven_policies.measurement import measurement_of
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, PoolKind, PoolView
from breakeven_policies.table_prior import prior_of
from breakeven_policies.workload import workload_of

PENDING_MAX = 20_000
"""Outcomes of requests that ended after the decision that is looked at: more than there are requests in flight."""

STEPS_MIN = 5.0
"""Between two scrapes; fewer tell the time of a step no better than to a fifth."""

COUNTERS = ("generation_tokens", "engine_steps", "drafts", "accepted_tokens")


class Relearned:
    """What would have been known at each decision; entries come in the order of their decisions.

    `tables`: measured tables that a pool of the same kind, method and number of drafts begins with, whatever they say
    of model and engine: who replays with one wants to see what it does.
    """

    def __init__(self, tables: tuple[Table, ...] = ()) -> None:
        self._tables = tables
        self._facts: dict[str, PoolFacts] = {}
        self._learning = Learning({})
        self._pending: deque[tuple[float, Observed, str | None]] = deque(maxlen=PENDING_MAX)
        self._scrapes: dict[str, tuple[EngineSignals, float]] = {}
        self._step_s: dict[str, float] = {}

    def at(self, entry: Entry) -> Learned:
        """What was known when this was decided, on the clock of its fleet."""
        fleet, now_s = entry.considered.fleet, decided_s(entry)
        self._meet(fleet)
        for pool in fleet.pools:
            for backend in pool.backends:
                self._scrape(pool.name, backend, now_s)
        while self._pending and self._pending[0][0] <= now_s:
            _, observed, served_by = self._pending.popleft()
            self._learning.observe(self._completed(observed, served_by, fleet))
        view = self._learning.view()
        return replace(view, now_s=fleet.now_s - max(0.0, now_s - view.now_s))

    def note(self, entry: Entry) -> None:
        """What came of a request is known from its end on."""
        observed = observation(entry)
        if observed is None:
            return
        item = (observed.now_s, observed, entry.happened.backend)
        place = len(self._pending)
        while place and self._pending[place - 1][0] > item[0]:
            place -= 1
        if place == len(self._pending):
            self._pending.append(item)
        elif len(self._pending) < PENDING_MAX:
            self._pending.insert(place, item)

    def _meet(self, fleet: FleetSnapshot) -> None:
        """Pools that were not there before, or are of another kind now."""
        before = dict(self._facts)
        for pool in fleet.pools:
            known = self._facts.get(pool.name)
            if known is None or (known.kind, known.speculative_tokens) != (pool.kind, pool.speculative_tokens):
                self._facts[pool.name] = PoolFacts(
                    pool.kind, pool.speculative_tokens, prior=table_prior(self._tables, pool)
                )
        if self._facts != before:
            self._learning.reconfigure(self._facts)

    def _scrape(self, pool: str, backend: BackendView, now_s: float) -> None:
        """Two scrapes of a backend that follow each other in the journal, unless its counters began anew."""
        signals, scraped_at_s = backend.signals, backend.scraped_at_s
        if signals is None or scraped_at_s is None:
            return
        before = self._scrapes.get(backend.name)
        if before is not None and scraped_at_s == before[1]:
            return
        self._scrapes[backend.name] = signals, scraped_at_s
        if before is None or scraped_at_s < before[1] or _fell(before[0], signals):
            self._step_s.pop(backend.name, None)
            return
        seconds = scraped_at_s - before[1]
        self._learning.scraped(pool, before[0], signals, seconds, now_s)
        busy = before[0].running and signals.running
        if busy and before[0].engine_steps is not None and signals.engine_steps is not None:
            steps = signals.engine_steps - before[0].engine_steps
            if steps >= STEPS_MIN:
                self._step_s[backend.name] = seconds / steps

    def _completed(self, observed: Observed, backend: str | None, fleet: FleetSnapshot) -> Observed:
        """With what is known about its end: who else was there then, and how many steps it took."""
        batch, at_the_end = observed.batch, load_of(fleet, backend)
        if batch is not None and at_the_end is not None:
            batch = (batch + at_the_end + 1.0) / 2.0
        events, step_s, decode_s = None, self._step_s.get(backend or ""), observed.decode_s
        drafts = self._facts[observed.pool].kind is PoolKind.SPECULATIVE if observed.pool in self._facts else False
        if drafts and step_s is not None and decode_s is not None:
            events = 1 + round(decode_s / step_s)
        return replace(observed, batch=batch, events=events)


def observation(entry: Entry) -> Observed | None:
    """What a finished request teaches; None: it was not served to its end by the first engine that was tried."""
    request, happened = entry.considered.request, entry.happened
    if happened.outcome != "completed" or happened.attempts != 1 or happened.pool is None or not request.sampled:
        return None
    tokens, token_s = happened.completion_tokens, happened.token_s
    there = load_of(entry.considered.fleet, happened.backend)
    return Observed(
        pool=happened.pool,
        workload=workload_of(request),
        now_s=ended_s(entry),
        batch=None if there is None else there + request.sequences,
        prompt_bytes=request.prompt_bytes,
        prompt_tokens=happened.prompt_tokens,
        completion_tokens=tokens,
        decode_s=None if tokens is None or token_s is None else token_s * (tokens - 1),
        ttft_s=_between(happened.sent_s, happened.first_token_s),
    )


def table_prior(tables: tuple[Table, ...], pool: PoolView) -> PoolPrior | None:
    """What the first of the tables that knows such a pool says of it."""
    for table in tables:
        for setup in table.setups:
            same = (setup.kind, setup.speculative_tokens) == (pool.kind, pool.speculative_tokens)
            if same and pool.method in (setup.method, "unknown"):
                return prior_of(measurement_of(table, setup))
    return None


def load_of(fleet: FleetSnapshot, backend: str | None) -> float | None:
    """Requests on a backend; None: it is not there."""
    loads: Mapping[str, float] = {each.name: each.load for pool in fleet.pools for each in pool.backends}
    return None if backend is None else loads.get(backend)


def _between(first_s: float | None, last_s: float | None) -> float | None:
    return None if first_s is None or last_s is None else last_s - first_s


def _fell(before: EngineSignals, after: EngineSignals) -> bool:
    """Whether a counter is lower than it was: the engine has started anew."""
    pairs = [(getattr(before, name), getattr(after, name)) for name in COUNTERS]
    return any(first is not None and last is not None and last < first for first, last in pairs)
