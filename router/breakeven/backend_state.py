"""What is known of one backend now: the notes of `fleet`, which alone writes them."""

from breakeven.error_row import ErrorRow
from breakeven.ledger import Cells
from breakeven_policies.snapshot import BackendView, EngineSignals, Health, Suspicion


class BackendState:
    """What is known of one backend now; `view` freezes it."""

    __slots__ = (
        "cells",
        "draining",
        "elsewhere",
        "errors",
        "failed_in_a_row",
        "failures",
        "health",
        "in_flight_at_scrape",
        "in_flight_max",
        "index",
        "models",
        "name",
        "place",
        "pool",
        "progress",
        "progress_at_s",
        "scraped_at_s",
        "signals",
        "suspicion",
        "trial_max",
        "well",
    )

    def __init__(self, name: str, pool: int, index: int, in_flight_max: int, cells: Cells, place: int) -> None:
        self.name = name
        self.cells = cells
        self.place = place
        self.elsewhere = 0
        self.pool = pool
        self.index = index
        self.health = Health.UNKNOWN
        self.failures = 0
        self.draining = False
        self.in_flight_at_scrape = 0
        self.in_flight_max = in_flight_max
        self.signals: EngineSignals | None = None
        self.scraped_at_s: float | None = None
        self.models: frozenset[str] | None = None
        self.progress: tuple[float | None, ...] = ()
        self.progress_at_s = 0.0
        self.forgive()

    def forgive(self) -> None:
        """Nothing is held against the engine."""
        self.suspicion: Suspicion | None = None
        self.trial_max = 0
        self.failed_in_a_row = 0
        self.errors: ErrorRow | None = None
        self.well = False  # it has answered without an error since another one began to answer with them

    def try_out(self) -> None:
        """Give it one request beyond those that it holds: what was sent before it was ejected may never end."""
        self.suspicion = Suspicion.TRIAL
        self.trial_max = self.in_flight + 1

    @property
    def in_flight(self) -> int:
        """Requests there now: our own, and those of other processes as they were last looked at."""
        return int(self.cells[self.place]) + self.elsewhere

    @property
    def counts(self) -> bool:
        """Whether its metrics tell what it has made."""
        return self.signals is not None and self.signals.generation_tokens is not None

    @property
    def shown(self) -> Health:
        """The health that others see."""
        if self.health is Health.READY and (self.ejected or self.draining):
            return Health.DRAINING if self.draining else Health.EJECTED
        return self.health

    @property
    def ejected(self) -> bool:
        """Whether it is taken out although its health checks may be answered."""
        return self.suspicion is not None and self.suspicion is not Suspicion.TRIAL

    @property
    def most(self) -> int:
        """Requests that it may have at once; 0: any number."""
        if self.trial_max and self.in_flight_max:
            return min(self.trial_max, self.in_flight_max)
        return self.trial_max or self.in_flight_max

    def view(self) -> BackendView:
        """The picture of it now."""
        return BackendView(
            self.name,
            self.shown,
            self.in_flight,
            self.signals,
            self.scraped_at_s,
            self.in_flight_at_scrape,
            self.models,
            self.most,
            self.suspicion,
            self.draining,
        )

    @property
    def has_room(self) -> bool:
        """Whether it may be given a further request."""
        return not self.most or self.in_flight < self.most
