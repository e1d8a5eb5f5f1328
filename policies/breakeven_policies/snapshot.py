"""An immutable picture of the fleet at one instant: all that a policy may know about load and health."""

from enum import StrEnum

from msgspec import Struct

from breakeven_policies.learned import Learned


class PoolKind(StrEnum):
    """Whether the engines of a pool draft tokens ahead."""

    PLAIN = "plain"
    SPECULATIVE = "speculative"


class Health(StrEnum):
    """What the router believes of a backend. Only `READY` is routed to.

    `EJECTED` answers its health checks only; `DRAINING` would be ready, but somebody wants it to be given no requests.
    """

    UNKNOWN = "unknown"
    READY = "ready"
    LOADING = "loading"
    EJECTED = "ejected"
    DRAINING = "draining"
    DOWN = "down"


class Suspicion(StrEnum):
    """What is held against an engine whose health checks are answered."""

    FAILURES = "failures"
    """Ejected: its requests failed."""
    FROZEN = "frozen"
    """Ejected: it held requests and made no token."""
    ERRORS = "errors"
    """Ejected: it answered with server errors what others answered well."""
    TRIAL = "trial"
    """It is given single requests until one is answered."""


class EngineSignals(Struct, frozen=True):
    """One scrape of an engine's metrics page. None: the engine does not report it (never zero).

    `running` and `waiting` count requests; `kv_usage` is a share in [0, 1]; the counters are totals since the engine
    started. Acceptance length is 1 + accepted/drafts over a window of two scrapes (vLLM 0.33.0,
    `v1/spec_decode/metrics.py`).
    """

    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    drafts: float | None = None
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_tokens_per_position: tuple[float, ...] = ()
    engine_steps: float | None = None

    @property
    def load(self) -> float | None:
        """Requests running and waiting, or None where the engine reports neither."""
        if self.running is None and self.waiting is None:
            return None
        return (self.running or 0.0) + (self.waiting or 0.0)


class BackendView(Struct, frozen=True):
    """One engine, as the router sees it.

    `in_flight` counts this router's own requests there, exactly; `in_flight_at_scrape` is what it was when `signals`
    were read, at `scraped_at_s` on the clock of the snapshot. `models` is None until the engine has listed them.
    `in_flight_max` is how many this router may have there at once, 0 where it has no such limit. `suspicion` says why
    the engine is ejected, or that it is on trial. `draining`: it is given no requests until somebody resumes it,
    whatever its health.
    """

    name: str
    health: Health = Health.READY
    in_flight: int = 0
    signals: EngineSignals | None = None
    scraped_at_s: float | None = None
    in_flight_at_scrape: int = 0
    models: frozenset[str] | None = None
    in_flight_max: int = 0
    suspicion: Suspicion | None = None
    draining: bool = False

    @property
    def full(self) -> bool:
        """Whether it may be given no further request now."""
        return 0 < self.in_flight_max <= self.in_flight

    def signals_age_s(self, now_s: float) -> float | None:
        """Seconds since the last good scrape; None: there was none."""
        return None if self.scraped_at_s is None else now_s - self.scraped_at_s

    @property
    def load(self) -> float:
        """Requests there now: the larger of our own count and the scraped load corrected by what we sent since.

        Without a scrape our own count is all that is known. Source: design section 1, n with one replica.
        """
        scraped = None if self.signals is None else self.signals.load
        if scraped is None:
            return float(self.in_flight)
        return max(float(self.in_flight), scraped + self.in_flight - self.in_flight_at_scrape)


class PoolView(Struct, frozen=True):
    """Engines of one kind that serve the same models; `speculative_tokens` is k, 0 on a plain pool."""

    name: str
    kind: PoolKind
    backends: tuple[BackendView, ...]
    method: str = "none"
    speculative_tokens: int = 0


class FleetSnapshot(Struct, frozen=True):
    """Every pool in configuration order, at `now_s` on the router's monotonic clock.

    `learned` is what `learning` has made of finished requests and scrapes, None where nobody learns. `replicas` is how
    many routers like this one send to the same engines, 0: that is to be found out.
    """

    now_s: float
    pools: tuple[PoolView, ...] = ()
    learned: Learned | None = None
    replicas: float = 1.0
