"""The only writer of what the router believes about its engines.

Everything that happens to an engine arrives as an event; `snapshot` hands out an immutable picture. Views are rebuilt
only for backends that an event touched, so that a snapshot costs the same however large the fleet is. Health follows
four rules:

- a refused connection takes a backend out at once, whoever noticed it: nothing listens there;
- any other failed probe takes a ready backend out only after `probe_failures_max` in a row: busy is not dead;
- one good probe brings it back: it answered, and a wrong belief costs one failover;
- what has never been probed is `unknown`, and unknown is not routed to.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolKind, PoolView


class Started(Struct, frozen=True):
    """A request was given to the backend (before its connection exists)."""

    backend: str


class Finished(Struct, frozen=True):
    """That request ended there, in whatever way."""

    backend: str


class ConnectRefused(Struct, frozen=True):
    """The engine's port refused a connection: out at once."""

    backend: str


class ProbeSucceeded(Struct, frozen=True):
    """GET /health answered 200 (or 401/404: the process lives; `warning` then says what is misconfigured)."""

    backend: str
    warning: str | None = None


class ProbeFailed(Struct, frozen=True):
    """`loading`: the engine answered 503; `refused`: nothing listens; else a time-out or another failure."""

    backend: str
    error: str
    refused: bool = False
    loading: bool = False


class Scraped(Struct, frozen=True):
    """A metrics page was read at `now_s`."""

    backend: str
    signals: EngineSignals
    now_s: float


class SignalsForgotten(Struct, frozen=True):
    """The metrics page could not be read for so long that the last figures are no fact any more."""

    backend: str


class ModelsListed(Struct, frozen=True):
    """The ids that the engine's /v1/models listed."""

    backend: str
    models: frozenset[str]


FleetEvent = (
    Started | Finished | ConnectRefused | ProbeSucceeded | ProbeFailed | Scraped | SignalsForgotten | ModelsListed
)


class PoolSpec(Struct, frozen=True):
    """A pool as configured: names only, no addresses."""

    name: str
    kind: PoolKind
    method: str
    speculative_tokens: int
    backends: tuple[str, ...]


class _BackendState:
    """What is known of one backend now; `view` freezes it."""

    __slots__ = (
        "failures",
        "health",
        "in_flight",
        "in_flight_at_scrape",
        "index",
        "models",
        "name",
        "pool",
        "scraped_at_s",
        "signals",
    )

    def __init__(self, name: str, pool: int, index: int) -> None:
        self.name = name
        self.pool = pool
        self.index = index
        self.health = Health.UNKNOWN
        self.failures = 0
        self.in_flight = 0
        self.in_flight_at_scrape = 0
        self.signals: EngineSignals | None = None
        self.scraped_at_s: float | None = None
        self.models: frozenset[str] | None = None

    def view(self) -> BackendView:
        return BackendView(
            self.name,
            self.health,
            self.in_flight,
            self.signals,
            self.scraped_at_s,
            self.in_flight_at_scrape,
            self.models,
        )


class Fleet:
    """The state of every configured backend; backend names are unique over all pools.

    `on_health(pool, backend, health)` is called on every change of health, never for a belief that stays the same.
    """

    def __init__(
        self,
        pools: tuple[PoolSpec, ...],
        probe_failures_max: int = 3,
        on_health: Callable[[str, str, Health], None] = lambda _pool, _backend, _health: None,
    ) -> None:
        self.on_health = on_health
        self._probe_failures_max = probe_failures_max
        self._specs = pools
        self._states = [
            [_BackendState(name, pool, index) for index, name in enumerate(spec.backends)]
            for pool, spec in enumerate(pools)
        ]
        self._by_name = {state.name: state for states in self._states for state in states}
        if len(self._by_name) != sum(len(spec.backends) for spec in pools):
            message = "backend names must be unique over all pools"
            raise ValueError(message)
        self._views = [[state.view() for state in states] for states in self._states]
        self._pools = [self._pool_view(pool) for pool in range(len(pools))]
        self._dirty: set[_BackendState] = set()
        self._apply: dict[type, Callable[[_BackendState, Any], None]] = {
            Started: self._started,
            Finished: self._finished,
            ConnectRefused: self._connect_refused,
            ProbeSucceeded: self._probe_succeeded,
            ProbeFailed: self._probe_failed,
            Scraped: self._scraped,
            SignalsForgotten: self._signals_forgotten,
            ModelsListed: self._models_listed,
        }

    def apply(self, event: FleetEvent) -> None:
        """Take one event into account; KeyError for a backend that is not configured."""
        state = self._by_name[event.backend]
        self._apply[type(event)](state, event)
        self._dirty.add(state)

    def snapshot(self, now_s: float) -> FleetSnapshot:
        """The fleet at `now_s`. Costs two small objects per backend that changed since the last call."""
        if self._dirty:
            for state in self._dirty:
                self._views[state.pool][state.index] = state.view()
                self._pools[state.pool] = self._pool_view(state.pool)
            self._dirty.clear()
        return FleetSnapshot(now_s, tuple(self._pools))

    def ready(self) -> bool:
        """Whether at least one backend can be routed to."""
        return any(state.health is Health.READY for state in self._by_name.values())

    def health(self, backend: str) -> Health:
        """What is believed of one backend; KeyError if it is not configured."""
        return self._by_name[backend].health

    def _pool_view(self, pool: int) -> PoolView:
        spec = self._specs[pool]
        return PoolView(spec.name, spec.kind, tuple(self._views[pool]), spec.method, spec.speculative_tokens)

    def _started(self, state: _BackendState, _event: Started) -> None:
        state.in_flight += 1

    def _finished(self, state: _BackendState, _event: Finished) -> None:
        if state.in_flight == 0:
            message = f"a request finished on {state.name} that never started there"
            raise ValueError(message)
        state.in_flight -= 1

    def _connect_refused(self, state: _BackendState, _event: ConnectRefused) -> None:
        self._become(state, Health.DOWN)

    def _probe_succeeded(self, state: _BackendState, _event: ProbeSucceeded) -> None:
        state.failures = 0
        self._become(state, Health.READY)

    def _probe_failed(self, state: _BackendState, event: ProbeFailed) -> None:
        state.failures += 1
        if event.refused or state.health is not Health.READY or state.failures >= self._probe_failures_max:
            self._become(state, Health.LOADING if event.loading else Health.DOWN)

    def _scraped(self, state: _BackendState, event: Scraped) -> None:
        state.signals = event.signals
        state.scraped_at_s = event.now_s
        state.in_flight_at_scrape = state.in_flight

    def _signals_forgotten(self, state: _BackendState, _event: SignalsForgotten) -> None:
        state.signals = None
        state.scraped_at_s = None

    def _models_listed(self, state: _BackendState, event: ModelsListed) -> None:
        state.models = event.models

    def _become(self, state: _BackendState, health: Health) -> None:
        if state.health is health:
            return
        state.health = health
        if health is not Health.READY:
            # What a gone engine measured says nothing about the one that comes back. Its list of models stays: it says
            # what may be routed there from the first good probe on, and for whom a refusal is "later" and not "never".
            state.signals = None
            state.scraped_at_s = None
        self.on_health(self._specs[state.pool].name, state.name, health)
