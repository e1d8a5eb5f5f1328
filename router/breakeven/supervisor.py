"""One router of several processes: this one asks the engines, counts together and shows; its workers serve.

It is a `Router` whose data plane is a `Crew`. What it finds out about the engines it tells all workers, and what only
they can see they tell it, so that it alone judges and all believe the same within milliseconds. What they count and
what they have in flight is read from the table that all of them map.
"""

import asyncio
import json
import ssl
from dataclasses import replace

from breakeven.api_keys import ApiKeys
from breakeven.config import BackendAddress
from breakeven.crew import Crew, Worker
from breakeven.fleet import (
    Believed,
    ConnectRefused,
    Drained,
    Ejection,
    EndedElsewhere,
    Erred,
    Fleet,
    FleetEvent,
    ModelsListed,
    PoolSpec,
    Resumed,
    Scraped,
    SignalsForgotten,
)
from breakeven.in_flight import InFlight
from breakeven.key_file import keys_in_force
from breakeven.metric_table import ATTEMPTS
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory
from breakeven.probe import Listeners, Prober, Rhythm
from breakeven.proxy import Proxy
from breakeven.record import AttemptResult
from breakeven.reload import Plan
from breakeven.shared_table import new_table, rows_of
from breakeven.wiring import Router
from breakeven.worker_messages import AskedWell, Listed, Measured, Message, PolicySwitched, Well
from breakeven_policies.measured import Table
from breakeven_policies.measurement import Measurement
from breakeven_policies.snapshot import Health, Suspicion


class Supervisor(Router):
    """The first process of a router with several workers."""

    def _prepare(self) -> None:
        # A row of its own, and two for each worker: one more for whoever replaces it as it leaves.
        count = 1 + 2 * self.settings.workers
        self._table = new_table(count)
        self._rows = rows_of(self._table, count)
        self._directory: ModelDirectory
        self._crew: Crew
        self._answered: dict[tuple[str, str], float] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._moved: set[str] = set()

    def ready(self) -> bool:
        """As of one process, and somebody has to serve."""
        return super().ready() and self._crew.serving

    def _make_metrics(self, specs: tuple[PoolSpec, ...]) -> Metrics:
        own, *others = self._rows
        return Metrics(specs, own, lambda: others)

    def _make_fleet(self, specs: tuple[PoolSpec, ...], ejection: Ejection) -> Fleet:
        own, *others = self._rows
        counts = InFlight(own, others)
        return Fleet(specs, self.settings.probe_failures_max, self._health_changed, ejection, counts)

    def _make_prober(self, addresses: tuple[BackendAddress, ...], rhythm: Rhythm, listeners: Listeners) -> Prober:
        self._directory = listeners.directory
        return Prober(addresses, rhythm, replace(listeners, apply=self._found_out))

    def _make_data_plane(self, proxy: Proxy) -> Crew:
        del proxy  # every worker has its own
        self._crew = Crew(
            self.settings,
            self._table,
            self._rows,
            self._clock,
            keys=keys_in_force(self.settings),
            greet=self._greet,
            hear=self._hear,
            on_replaced=self.metrics.worker_replaced,
        )
        return self._crew

    # -- downwards

    def _found_out(self, event: FleetEvent) -> None:
        """A probe has an answer: what follows from it for the health of the engine, `_health_changed` tells."""
        self._learn(event)
        if isinstance(event, Scraped | SignalsForgotten):
            self._crew.tell(event)
        elif isinstance(event, ModelsListed):
            self._crew.tell(self._listed(event.backend))

    def _learn(self, event: FleetEvent) -> None:
        """Take it into account. That a trial is passed changes no health, but workers have to hear of it."""
        backend = event.backend
        on_trial = self.fleet.knows(backend) and self.fleet.suspicion(backend) is Suspicion.TRIAL
        self.fleet.apply(event)
        if on_trial and self.fleet.suspicion(backend) is None and self.fleet.health(backend) is Health.READY:
            self._crew.tell(Believed(backend, Health.READY))

    def _health_changed(self, pool: str, backend: str, health: Health) -> None:
        super()._health_changed(pool, backend, health)
        self._crew.tell(self._belief(backend, health))

    def _belief(self, backend: str, health: Health) -> Believed:
        return Believed(backend, health, self.fleet.suspicion(backend), self.fleet.is_closed(backend))

    def _wish(self, event: Drained | Resumed) -> None:
        """Workers have to know also where that changes no health: what is down and drained may come back to them."""
        before = self.fleet.health(event.backend)
        super()._wish(event)
        if self.fleet.health(event.backend) is before:
            self._crew.tell(self._belief(event.backend, before))

    def switch_policy(self, spec: str | None, by: str) -> None:
        """As of one process, and every worker decides by it."""
        super().switch_policy(spec, by)
        self._crew.tell(PolicySwitched(spec))

    def _take_measurements(self, measurements: dict[str, Measurement]) -> None:
        super()._take_measurements(measurements)
        self._crew.tell(Measured(measurements))

    def _listed(self, backend: str) -> Listed:
        return Listed(backend, json.dumps(self._directory.cards(backend)).encode("ascii"))

    def _greet(self, worker: Worker) -> None:
        """Tell a new worker what is known."""
        if self._policy.switched_to is not None:
            worker.send(PolicySwitched(self._policy.switched_to))
        if self.measurements:
            worker.send(Measured(self.measurements))
        for pool in self._sights.snapshot().pools:
            for backend in pool.backends:
                worker.send(Believed(backend.name, backend.health, backend.suspicion, backend.draining))
                if backend.models is not None:
                    worker.send(self._listed(backend.name))
                if backend.signals is not None and backend.scraped_at_s is not None:
                    worker.send(Scraped(backend.name, backend.signals, backend.scraped_at_s))

    # -- upwards

    def take_over(
        self, plan: Plan, keys: ApiKeys | None, context: ssl.SSLContext | None, tables: tuple[Table, ...]
    ) -> None:
        """As of one process; and remember whom a worker that has not heard of it yet may mistake for another."""
        self._moved.update(address.name for address in plan.unasked)
        super().take_over(plan, keys, context, tables)

    def _hear(self, worker: Worker, message: Message) -> None:
        if isinstance(message, ConnectRefused | EndedElsewhere | Erred):
            if message.backend not in self._moved or self._crew.is_up_to_date(worker):
                self._hear_of(message)  # else it speaks of the engine that had the name before
        elif isinstance(message, AskedWell):
            task = asyncio.create_task(self._answer(worker, message))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    def _hear_of(self, message: ConnectRefused | EndedElsewhere | Erred) -> None:
        """What a worker has met at an engine."""
        if isinstance(message, ConnectRefused):
            self._learn(message)
        elif isinstance(message, EndedElsewhere):
            self._count_failure(message)
        else:
            for pool in self._sights.snapshot().pools:
                for backend in pool.backends:
                    self._note_answers(backend.name)
            self._learn(message)

    def _count_failure(self, failure: EndedElsewhere) -> None:
        if not self.fleet.knows(failure.backend):
            return  # a reload took it away
        self._note_answers(failure.backend)
        self._learn(failure)

    def _note_answers(self, backend: str) -> None:
        """A worker tells of failures only; whether requests were answered since the last one stands in the table."""
        place = (self.fleet.pool_of(backend), backend)
        answered = self._answered_by(*place)
        if answered != self._answered.get(place, 0.0):
            self._answered[place] = answered
            self._learn(EndedElsewhere(backend, answered=True))

    def _answered_by(self, pool: str, backend: str) -> float:
        labels = (pool, backend, AttemptResult.ANSWERED)
        count = 0.0
        for row in self._rows:
            row.refresh()
            place = row.found(ATTEMPTS.name, labels)
            if place is not None:
                count += row.cells[place]
        return count

    async def _answer(self, worker: Worker, asked: AskedWell) -> None:
        worker.send(Well(asked.number, await self._prober.is_well(asked.backend)))
