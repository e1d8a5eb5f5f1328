"""One replica of the router as a policy meets it: its own requests exactly, engines' pages as of the last scrape."""

from collections.abc import Sequence

from breakeven_bench.fleet_model.engine import Engine
from breakeven_bench.fleet_model.pairs import Pool
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, PoolView

SCRAPE_EVERY_S = 1.0
"""The router's default."""


class Router:
    """`engines` are in the order of the pools' backends. Replicas know nothing of each other."""

    def __init__(self, pools: Sequence[Pool], engines: Sequence[Engine]) -> None:
        self._pools = tuple(pools)
        self._engines = engines
        self._names = [f"{pool.name}-{number}" for pool in pools for number in range(pool.backends)]
        self._index = {name: index for index, name in enumerate(self._names)}
        self._in_flight = [0] * len(engines)
        self._at_scrape = [0] * len(engines)
        self._signals: list[EngineSignals | None] = [None] * len(engines)
        self._scraped_at_s: float | None = None
        self._views: list[BackendView | None] = [None] * len(engines)

    def engine_of(self, backend: str) -> int:
        """The number of the engine with this name."""
        return self._index[backend]

    def scrape(self, now_s: float) -> None:
        """Read the pages of all engines."""
        self._signals = [engine.signals(now_s) for engine in self._engines]
        self._at_scrape = list(self._in_flight)
        self._scraped_at_s = now_s
        self._views = [None] * len(self._engines)

    def sent(self, engine: int) -> None:
        """A request goes to this engine."""
        self._in_flight[engine] += 1
        self._views[engine] = None

    def ended(self, engine: int) -> None:
        """One of our requests ended there."""
        self._in_flight[engine] -= 1
        self._views[engine] = None

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
        return FleetSnapshot(now_s, tuple(pools))

    def _view(self, index: int) -> BackendView:
        view = self._views[index]
        if view is None:
            view = self._views[index] = BackendView(
                name=self._names[index],
                in_flight=self._in_flight[index],
                signals=self._signals[index],
                scraped_at_s=self._scraped_at_s,
                in_flight_at_scrape=self._at_scrape[index],
            )
        return view
