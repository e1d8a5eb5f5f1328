"""One replica of the router as a policy meets it: its own requests exactly, engines' pages as of the last scrape."""

from collections.abc import Sequence

from breakeven_bench.fleet_model.engine import Engine, Job
from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX
from breakeven_bench.fleet_model.pairs import Pool
from breakeven_policies.learning import Learning, Observed
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, PoolView
from breakeven_policies.workload import workload_of

SCRAPE_EVERY_S = 1.0
"""The router's default."""


class Router:
    """`engines` are in the order of the pools' backends. Replicas know nothing of each other but their number.

    `learning` is None where the policy in force does not learn.
    """

    def __init__(
        self, pools: Sequence[Pool], engines: Sequence[Engine], replicas: int = 1, learning: Learning | None = None
    ) -> None:
        self._replicas = float(replicas)
        self._learning = learning
        self._pool_of = [pool.name for pool in pools for _ in range(pool.backends)]
        self._batch_before: dict[int, float] = {}
        self._pools = tuple(pools)
        self._engines = engines
        self._names = [f"{pool.name}-{number}" for pool in pools for number in range(pool.backends)]
        self._index = {name: index for index, name in enumerate(self._names)}
        self._in_flight = [0] * len(engines)
        self._at_scrape = [0] * len(engines)
        self._signals: list[EngineSignals] = []  # none before the first scrape
        self._scraped_at_s: float | None = None
        self._views: list[BackendView | None] = [None] * len(engines)

    def engine_of(self, backend: str) -> int:
        """The number of the engine with this name."""
        return self._index[backend]

    def scrape(self, now_s: float) -> None:
        """Read the pages of all engines."""
        before, self._signals = self._signals, [engine.signals(now_s) for engine in self._engines]
        if self._learning is not None and self._scraped_at_s is not None:
            seconds = now_s - self._scraped_at_s
            for pool, old, new in zip(self._pool_of, before, self._signals, strict=True):
                self._learning.scraped(pool, old, new, seconds, now_s)
        self._at_scrape = list(self._in_flight)
        self._scraped_at_s = now_s
        self._views = [None] * len(self._engines)

    def sent(self, job: Job, engine: int) -> None:
        """A request goes to this engine."""
        self._in_flight[engine] += 1
        self._views[engine] = None
        if self._learning is not None:
            self._batch_before[job.arrival.index] = self._view(engine).load

    def ended(self, job: Job, engine: int, now_s: float) -> None:
        """One of our requests ended there."""
        batch_after = self._view(engine).load if self._learning is not None else 0.0
        self._in_flight[engine] -= 1
        self._views[engine] = None
        if self._learning is not None:
            batch = (self._batch_before.pop(job.arrival.index) + batch_after) / 2.0
            self._learning.observe(_observed(job, self._pool_of[engine], min(batch, SEQUENCES_MAX), now_s))

    def snapshot(self, now_s: float) -> FleetSnapshot:
        """What a policy sees now."""
        pools = []
        first = 0
        for pool in self._pools:
            views = tuple([self._view(index) for index in range(first, first + pool.backends)])
            first += pool.backends
            kind = pool.engine_kind()
            method = "eagle3" if kind.draft_tokens else "none"
            pools.append(PoolView(pool.name, pool.pool_kind, views, method, kind.draft_tokens))
        learned = None if self._learning is None else self._learning.view()
        return FleetSnapshot(now_s, tuple(pools), learned, self._replicas)

    def _view(self, index: int) -> BackendView:
        view = self._views[index]
        if view is None:
            view = self._views[index] = BackendView(
                name=self._names[index],
                in_flight=self._in_flight[index],
                signals=self._signals[index] if self._signals else None,
                scraped_at_s=self._scraped_at_s,
                in_flight_at_scrape=self._at_scrape[index],
            )
        return view


def _observed(job: Job, pool: str, batch: float, now_s: float) -> Observed:
    """What a router tells of a request that has ended: tokens only where the answer told them."""
    arrival = job.arrival
    began_s = now_s if job.first_token_s is None else job.first_token_s
    return Observed(
        pool=pool,
        workload=workload_of(arrival.view),
        now_s=now_s,
        batch=batch,
        prompt_bytes=arrival.view.prompt_bytes,
        prompt_tokens=arrival.prompt_tokens if arrival.tells_usage else None,
        completion_tokens=arrival.output_tokens if arrival.tells_usage else None,
        events=job.pulls,
        decode_s=now_s - began_s,
        ttft_s=began_s - arrival.at_s,
    )
