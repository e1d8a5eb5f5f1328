"""The only writer of what the router believes about its engines.

Everything that happens to an engine arrives as an event; `snapshot` hands out an immutable picture. Views are rebuilt
only for backends that an event touched, so that a snapshot costs the same however large the fleet is. Health follows
these rules:

- a refused connection takes a backend out at once, whoever noticed it: nothing listens there;
- any other failed probe takes a ready backend out only after `probe_failures_max` in a row: busy is not dead;
- one good probe brings it back: it answered, and a wrong belief costs one failover;
- what has never been probed is `unknown`, and unknown is not routed to;
- who is drained is given no requests until resumed, whatever happens to the engine meanwhile;
- an engine whose health checks are answered and whose requests are not is `ejected`: after `failures_max` requests in a
  row that failed there while nothing was answered, or after holding requests for `frozen_s` (field case B53). Where its
  metrics count tokens and steps they have the last word at each scrape, since busy is not dead (B54): one that moves
  forgives. So is one that answers with server errors what others answer well (`error_row`);
- an ejected engine comes back by making a token, never by a health check; where it cannot be asked for one, after a
  pause (`probe`); or by a restart, seen by a refused connection or by its loading. One that made no token, and one that
  was out for errors, comes back on trial: it gets one request at a time until one is answered, and is out again with
  the first that is not.
"""

from collections.abc import Callable, Collection
from typing import Any

from msgspec import Struct

from breakeven.backend_state import BackendState
from breakeven.error_row import ErrorRow
from breakeven.in_flight import InFlight
from breakeven_policies.learning import Learning
from breakeven_policies.snapshot import EngineSignals, FleetSnapshot, Health, PoolKind, PoolView, Suspicion


class Started(Struct, frozen=True):
    """A request was given to the backend (before its connection exists)."""

    backend: str


class Finished(Struct, frozen=True):
    """That request ended there.

    `answered`: True, the engine answered it, whatever it said; False, it failed where an engine that works would not
    have; None, nothing follows from it (the client left first).
    """

    backend: str
    answered: bool | None = None


class Believed(Struct, frozen=True, tag=True):
    """The process that asks the engines believes this of one now (`mirror`)."""

    backend: str
    health: Health
    suspicion: Suspicion | None = None
    draining: bool = False


class Erred(Struct, frozen=True, tag=True):
    """The engine answered a request with a server error; `request` tells requests apart (`error_row.fingerprint`)."""

    backend: str
    request: int
    now_s: float


class EndedElsewhere(Struct, frozen=True, tag=True):
    """A request that another process of this router had sent there ended; `answered` as in `Finished`."""

    backend: str
    answered: bool | None = None


class ConnectRefused(Struct, frozen=True, tag=True):
    """The engine's port refused a connection: out at once."""

    backend: str


class ProbeSucceeded(Struct, frozen=True):
    """GET /health answered 200 (or 401/404: the process lives; `warning` then says what is misconfigured)."""

    backend: str
    warning: str | None = None


class ProbeFailed(Struct, frozen=True):
    """`loading`: the engine answered 503; `refused`: nothing listens; else a time-out or another failure.

    `unasked`: the router had no descriptor left to ask with, from which nothing follows.
    """

    backend: str
    error: str
    refused: bool = False
    loading: bool = False
    unasked: bool = False


class Scraped(Struct, frozen=True, tag=True):
    """A metrics page was read at `now_s`."""

    backend: str
    signals: EngineSignals
    now_s: float


class SignalsForgotten(Struct, frozen=True, tag=True):
    """The metrics page could not be read for so long that the last figures are no fact any more."""

    backend: str


class Revived(Struct, frozen=True):
    """An ejected engine has made a token for the router itself, or cannot be asked to and has been out long enough."""

    backend: str
    made_token: bool = False


class Drained(Struct, frozen=True):
    """Somebody wants the backend to be given no requests any more; those that run there finish."""

    backend: str


class Resumed(Struct, frozen=True):
    """It may be given requests again."""

    backend: str


class ModelsListed(Struct, frozen=True):
    """The ids that the engine's /v1/models listed."""

    backend: str
    models: frozenset[str]


FleetEvent = (
    Started
    | Finished
    | ConnectRefused
    | ProbeSucceeded
    | ProbeFailed
    | Scraped
    | SignalsForgotten
    | ModelsListed
    | Revived
    | EndedElsewhere
    | Believed
    | Erred
    | Drained
    | Resumed
)


class PoolSpec(Struct, frozen=True):
    """A pool as configured: names only, no addresses."""

    name: str
    kind: PoolKind
    method: str
    speculative_tokens: int
    backends: tuple[str, ...]
    in_flight_max: int = 0
    """Requests that each backend may have of this router at once; 0: no limit."""


class Ejection(Struct, frozen=True):
    """When an engine that is up is taken out: failed requests in a row, seconds without a token; 0: never."""

    failures_max: int = 0
    frozen_s: float = 0.0


NO_EJECTION = Ejection()

GONE_MAX = 1000
"""Backends that a reload took away and that are still remembered, because requests may still end there, or be tried
there where their engine was chosen before: no request lives through a thousand removals.
"""


class Fleet:
    """The state of every configured backend; backend names are unique over all pools.

    `on_health(pool, backend, health)` is called on every change of health, never for a belief that stays the same;
    `on_room()` where a request has left a backend that may have only so many.
    """

    def __init__(
        self,
        pools: tuple[PoolSpec, ...],
        probe_failures_max: int = 3,
        on_health: Callable[[str, str, Health], None] = lambda _pool, _backend, _health: None,
        ejection: Ejection = NO_EJECTION,
        in_flight: InFlight | None = None,
    ) -> None:
        self.on_health = on_health
        self.on_room: Callable[[], None] = lambda: None  # until somebody wants to know of room
        self.learning: Learning | None = None  # where a policy wants it (`lessons`)
        self.replicas = 1.0
        self._in_flight = InFlight() if in_flight is None else in_flight
        self._shared = self._in_flight.shared
        self._by_name: dict[str, BackendState] = {}
        self._gone: dict[str, BackendState] = {}
        self._dirty: set[BackendState] = set()
        self.reconfigure(pools, probe_failures_max, ejection)
        self._apply: dict[type, Callable[[BackendState, Any], None]] = {
            Started: self._started,
            Finished: self._finished,
            ConnectRefused: self._connect_refused,
            ProbeSucceeded: self._probe_succeeded,
            ProbeFailed: self._probe_failed,
            Scraped: self._scraped,
            SignalsForgotten: self._signals_forgotten,
            ModelsListed: self._models_listed,
            Revived: self._revived,
            EndedElsewhere: self._ended_elsewhere,
            Erred: self._erred,
            Drained: self._drained,
            Resumed: self._resumed,
        }

    def reconfigure(
        self,
        pools: tuple[PoolSpec, ...],
        probe_failures_max: int,
        ejection: Ejection,
        renewed: Collection[str] = (),
    ) -> None:
        """Know these backends from now on, and believe nothing of `renewed`: another engine has their name now.

        What is believed of all others stays, and so does the count of what runs anywhere; where a backend is gone it is
        shown no more and ends as ever.
        """
        if len({name for spec in pools for name in spec.backends}) != sum(len(spec.backends) for spec in pools):
            message = "backend names must be unique over all pools"
            raise ValueError(message)
        self._ejection = ejection
        self._probe_failures_max = probe_failures_max
        self._specs = pools
        before, self._by_name = self._by_name, {}
        for pool, spec in enumerate(pools):
            for index, name in enumerate(spec.backends):
                known = before.pop(name, None)
                self._by_name[name] = self._state_of(name, pool, index, known, renewed=name in renewed)
        self._gone.update(before)
        while len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self._states = [[self._by_name[name] for name in spec.backends] for spec in pools]
        self._views = [[state.view() for state in states] for states in self._states]
        self._pools = [self._pool_view(pool) for pool in range(len(pools))]
        self._dirty.clear()

    def _state_of(self, name: str, pool: int, index: int, known: BackendState | None, *, renewed: bool) -> BackendState:
        """What stays known of a backend under another configuration."""
        spec, cells = self._specs[pool], self._in_flight.cells
        place = self._in_flight.place(spec.name, name)
        before = self._gone.pop(name, None) if known is None else known
        if before is not None and before.place != place:  # what runs there is counted under its pool of now
            cells[place] += cells[before.place]
            cells[before.place] = 0.0
        if known is None or renewed:
            fresh = BackendState(name, pool, index, spec.in_flight_max, cells, place)
            fresh.draining = known is not None and known.draining
            return fresh
        known.pool, known.index, known.in_flight_max, known.place = pool, index, spec.in_flight_max, place
        return known

    def apply(self, event: FleetEvent) -> None:
        """Take one event into account; KeyError for a backend that was never configured."""
        try:
            state = self._by_name[event.backend]
        except KeyError:
            self._apply_gone(event)
            return
        self._apply[type(event)](state, event)
        self._dirty.add(state)

    def _apply_gone(self, event: FleetEvent) -> None:
        """Of a backend that a reload took away only what runs there is of interest."""
        state = self._gone[event.backend]
        if isinstance(event, Started):
            state.cells[state.place] += 1.0
        elif isinstance(event, Finished):
            state.cells[state.place] -= 1.0

    def snapshot(self, now_s: float) -> FleetSnapshot:
        """The fleet at `now_s`. Costs two small objects per backend that changed since the last call."""
        if self._shared:
            self._look_elsewhere()
        if self._dirty:
            for state in self._dirty:
                self._views[state.pool][state.index] = state.view()
                self._pools[state.pool] = self._pool_view(state.pool)
            self._dirty.clear()
        return FleetSnapshot(now_s, tuple(self._pools), self.learning.view() if self.learning else None, self.replicas)

    def ready(self) -> bool:
        """Whether at least one backend can be routed to."""
        return any(state.shown is Health.READY for state in self._by_name.values())

    def health(self, backend: str) -> Health:
        """What is believed of one backend; KeyError if it is not configured."""
        return self._by_name[backend].shown

    def suspicion(self, backend: str) -> Suspicion | None:
        """What is held against one backend; KeyError if it is not configured."""
        return self._by_name[backend].suspicion

    def has_room(self, backend: str) -> bool:
        """Whether no request has to wait for one backend; KeyError if it is not configured."""
        return self._by_name[backend].has_room

    def is_closed(self, backend: str) -> bool:
        """Whether nothing may be sent there, however little else is left: it is drained, or not configured any more."""
        state = self._by_name.get(backend)
        return state is None or state.draining

    def knows(self, backend: str) -> bool:
        """Whether it is configured."""
        return backend in self._by_name

    def pool_of(self, backend: str) -> str:
        """The pool it is in; KeyError likewise."""
        return self._specs[self._by_name[backend].pool].name

    def load_of(self, backend: str) -> float:
        """Sequences on one backend, as its view has them; 0 where it is gone."""
        return self._by_name[backend].view().load if backend in self._by_name else 0.0

    def own_in_flight(self) -> int:
        """Requests of this process, on all backends."""
        return sum(int(state.cells[state.place]) for state in (*self._by_name.values(), *self._gone.values()))

    def _look_elsewhere(self) -> None:
        """See what other processes have in flight now."""
        self._in_flight.look()
        for spec, states in zip(self._specs, self._states, strict=True):
            for state in states:
                count = self._in_flight.elsewhere(spec.name, state.name)
                if count != state.elsewhere:
                    state.elsewhere = count
                    self._dirty.add(state)

    def _pool_view(self, pool: int) -> PoolView:
        spec = self._specs[pool]
        return PoolView(spec.name, spec.kind, tuple(self._views[pool]), spec.method, spec.speculative_tokens)

    def _started(self, state: BackendState, _event: Started) -> None:
        state.cells[state.place] += 1.0

    def _finished(self, state: BackendState, event: Finished) -> None:
        if state.cells[state.place] <= 0.0:
            message = f"a request finished on {state.name} that never started there"
            raise ValueError(message)
        state.cells[state.place] -= 1.0
        if state.in_flight_max:
            self.on_room()
        self._judge_end(state, event.answered)

    def _ended_elsewhere(self, state: BackendState, event: EndedElsewhere) -> None:
        self._judge_end(state, event.answered)

    def _judge_end(self, state: BackendState, answered: bool | None) -> None:
        if answered:
            state.failed_in_a_row = 0
            state.errors = None
            state.well = True
            if state.trial_max:
                self._bring_back(state)
        elif answered is False:
            self._failed(state)

    def _failed(self, state: BackendState) -> None:
        state.failed_in_a_row += 1
        if state.trial_max or (not state.counts and self._has_failed(state)):
            self._eject(state, Suspicion.FAILURES)

    def _erred(self, state: BackendState, event: Erred) -> None:
        limit = self._ejection.failures_max
        others = [other for other in self._by_name.values() if other is not state]
        if state.errors is None:
            state.errors = ErrorRow(event.now_s)
            for other in others:
                other.well = False
        state.errors.add(event.request, event.now_s)
        if state.trial_max:
            if any(other.shown is Health.READY for other in others):
                self._eject(state, Suspicion.ERRORS)
            else:
                self._bring_back(state)
        elif limit and state.errors.blames(limit):
            better = any(other.well and other.shown is Health.READY for other in others)
            if better:
                self._eject(state, Suspicion.ERRORS)

    def _connect_refused(self, state: BackendState, _event: ConnectRefused) -> None:
        state.forgive()  # the process is gone: what comes back is another one
        self._become(state, Health.DOWN)

    def _probe_succeeded(self, state: BackendState, _event: ProbeSucceeded) -> None:
        state.failures = 0
        self._become(state, Health.READY)

    def _probe_failed(self, state: BackendState, event: ProbeFailed) -> None:
        if event.unasked:
            return
        state.failures += 1
        restarts = event.refused or (event.loading and state.ejected)  # one that is forgiven must not look ready
        if event.refused or event.loading:
            state.forgive()
        if restarts or state.health is not Health.READY or state.failures >= self._probe_failures_max:
            self._become(state, Health.LOADING if event.loading else Health.DOWN)

    def _scraped(self, state: BackendState, event: Scraped) -> None:
        if self.learning is not None and state.signals is not None and state.scraped_at_s is not None:
            pool, seconds = self._specs[state.pool].name, event.now_s - state.scraped_at_s
            self.learning.scraped(pool, state.signals, event.signals, seconds, event.now_s)
        state.signals = event.signals
        state.scraped_at_s = event.now_s
        if self._shared:
            self._look_elsewhere()
        state.in_flight_at_scrape = state.in_flight
        self._judge_progress(state, event.signals, event.now_s)

    def _signals_forgotten(self, state: BackendState, _event: SignalsForgotten) -> None:
        state.signals = state.scraped_at_s = None
        state.progress = ()

    def _models_listed(self, state: BackendState, event: ModelsListed) -> None:
        state.models = event.models

    def _judge_progress(self, state: BackendState, signals: EngineSignals, now_s: float) -> None:
        """Whether the engine works at what it holds."""
        before = state.progress
        state.progress = (signals.generation_tokens, signals.prompt_tokens, signals.engine_steps)
        if state.progress != before or not signals.load or state.in_flight == 0:
            state.progress_at_s = now_s
        if before and state.progress != before:
            state.failed_in_a_row = 0
            # An engine that is out for errors made tokens all the time.
            if (signals.generation_tokens or 0.0) > (before[0] or 0.0) and state.suspicion is not Suspicion.ERRORS:
                self._bring_back(state)
        elif state.counts and self._has_failed(state):
            self._eject(state, Suspicion.FAILURES)
        elif state.counts and 0 < self._ejection.frozen_s <= now_s - state.progress_at_s:
            self._eject(state, Suspicion.FROZEN)

    def _has_failed(self, state: BackendState) -> bool:
        return 0 < self._ejection.failures_max <= state.failed_in_a_row

    def _eject(self, state: BackendState, why: Suspicion) -> None:
        if state.shown is Health.READY:
            state.suspicion = why
            state.trial_max = 0
            self.on_health(self._specs[state.pool].name, state.name, Health.EJECTED)

    def _revived(self, state: BackendState, event: Revived) -> None:
        if not state.ejected:
            return
        on_trial = not event.made_token or state.suspicion is Suspicion.ERRORS
        state.forgive()
        if on_trial:
            state.try_out()
        if state.shown is Health.READY:
            self.on_health(self._specs[state.pool].name, state.name, Health.READY)

    def _bring_back(self, state: BackendState) -> None:
        was_ejected = state.shown is Health.EJECTED
        state.forgive()
        if was_ejected:
            self.on_health(self._specs[state.pool].name, state.name, Health.READY)

    def _drained(self, state: BackendState, _event: Drained) -> None:
        self._set_draining(state, draining=True)

    def _resumed(self, state: BackendState, _event: Resumed) -> None:
        self._set_draining(state, draining=False)

    def _set_draining(self, state: BackendState, *, draining: bool) -> None:
        before = state.shown
        state.draining = draining
        if state.shown is not before:
            self.on_health(self._specs[state.pool].name, state.name, state.shown)

    def _become(self, state: BackendState, health: Health) -> None:
        if state.health is health:
            return
        state.health = health
        if health is not Health.READY:
            # What a gone engine measured says nothing about the one that comes back. Its list of models stays: it says
            # what may be routed there from the first good probe on, and for whom a refusal is "later" and not "never".
            state.signals = None
            state.scraped_at_s = None
            state.progress = ()  # nobody saw it stand still: that it holds requests for so long is to be seen anew
        self.on_health(self._specs[state.pool].name, state.name, state.shown)
