"""A process that serves clients and asks no engine: it is told by its supervisor, over the socket that it is given.

It ends, after its requests have, when it is told to, on SIGTERM, and when its supervisor is gone; other signals are for
the supervisor (`worker_start`).
"""

import asyncio
import itertools
import json
import logging
import pickle
import signal
import socket
from contextlib import ExitStack

from breakeven.api_keys import ApiKeys
from breakeven.channel import Channel
from breakeven.clock import utc_now
from breakeven.config import BackendAddress, Settings
from breakeven.config_sources import ConfigError
from breakeven.fleet import Believed, Ejection, Fleet, ModelsListed, PoolSpec, Scraped, SignalsForgotten
from breakeven.in_flight import InFlight
from breakeven.inherited import NOTHING, Inherited
from breakeven.metrics import Metrics
from breakeven.mirror import Mirror
from breakeven.model_cards import ModelDirectory
from breakeven.probe import Listeners, Rhythm
from breakeven.proxy import Proxy
from breakeven.recorder import Recorder, Recorders, Tracing
from breakeven.recorders import open_recorders, open_tracing
from breakeven.reload import plan_of
from breakeven.schooling import arrange_learning
from breakeven.shared_table import rows_of
from breakeven.tls import client_context, require_engine_files
from breakeven.wiring import Router, calm_collector, raise_open_files, run_in_loop, start_logging
from breakeven.worker_messages import (
    AskedWell,
    Assignment,
    Drain,
    Hurry,
    Leaving,
    Left,
    Listed,
    Measured,
    Message,
    Part,
    PolicySwitched,
    Reconfigured,
    Serving,
    TookOver,
    Well,
)
from breakeven_policies.measured import Table
from breakeven_policies.snapshot import Health

LOG = logging.getLogger(__name__)


class Questions:
    """What a worker has instead of a prober: it asks the supervisor, which asks the engine."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._numbers = itertools.count()
        self._open: dict[int, asyncio.Future[bool]] = {}
        self._given_up = False

    async def run(self) -> None:
        """Nothing is asked in a rhythm."""

    async def asked_all(self) -> None:
        """The supervisor knows."""

    known_all = asked_all

    async def is_well(self, backend: str) -> bool:
        """Ask one engine now."""
        if self._given_up:
            return True
        number = next(self._numbers)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._open[number] = answer
        self._channel.send(AskedWell(number, backend))
        try:
            return await answer
        finally:
            del self._open[number]

    def answer(self, answer: Well) -> None:
        """The supervisor answers; the request may be gone."""
        waiting = self._open.get(answer.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer.well)

    def give_up(self) -> None:
        """Nobody answers any more: nothing speaks against the engines."""
        self._given_up = True
        for number in list(self._open):
            self.answer(Well(number, well=True))

    def on_health(self, backend: str, health: Health) -> None:
        """The supervisor acts on it."""

    def reconfigure(self, addresses: tuple[BackendAddress, ...], rhythm: Rhythm) -> None:
        """The supervisor asks others now."""


class WorkerRouter(Router):
    """A router without probes and admin port, at the sockets of its supervisor."""

    def __init__(
        self,
        settings: Settings,
        recorder: Recorder | Recorders,
        tracing: Tracing | None,
        assignment: Assignment,
        channel: Channel,
        keys: ApiKeys | None = None,
    ) -> None:
        self._first_keys = keys
        rows = rows_of(assignment.table, assignment.rows)
        self._row = rows.pop(assignment.row)
        self._other_rows = rows
        self._channel = channel
        self._questions = Questions(channel)
        self._directory: ModelDirectory
        self._serving: Proxy
        super().__init__(settings, recorder, tracing=tracing)
        self._sockets = [socket.socket(fileno=descriptor) for descriptor in assignment.sockets]

    def _read_keys(self, settings: Settings) -> ApiKeys | None:
        del settings  # the supervisor has read them
        return self._first_keys

    def _read_tables(self, settings: Settings) -> tuple[Table, ...]:
        del settings  # the supervisor compares them with the engines
        return ()

    def _make_metrics(self, specs: tuple[PoolSpec, ...]) -> Metrics:
        return Metrics(specs, self._row)

    def _make_fleet(self, specs: tuple[PoolSpec, ...], ejection: Ejection) -> Fleet:
        del ejection  # the supervisor judges
        return Mirror(specs, InFlight(self._row, self._other_rows), self._channel.send)

    def _make_prober(self, addresses: tuple[BackendAddress, ...], rhythm: Rhythm, listeners: Listeners) -> Questions:
        del addresses, rhythm
        self._directory = listeners.directory
        return self._questions

    def _make_data_plane(self, proxy: Proxy) -> Proxy:
        self._serving = proxy
        return proxy

    def _match_tables(self) -> None:
        """The supervisor does, and tells what it found."""

    def _health_changed(self, pool: str, backend: str, health: Health) -> None:
        """The supervisor tells and counts it."""

    async def start(self, inherited: Inherited = NOTHING) -> None:
        """Accept clients at the sockets of the assignment."""
        del inherited
        self.port = await self._serving.listen_at(self._sockets)

    def hear(self, message: Message) -> None:
        """Take what the supervisor has found out."""
        if isinstance(message, Believed | Scraped | SignalsForgotten):
            self.fleet.apply(message)
        elif isinstance(message, Listed):
            cards = tuple(json.loads(message.cards))
            self._directory.update(message.backend, cards)
            self.fleet.apply(ModelsListed(message.backend, frozenset(card["id"] for card in cards)))
        elif isinstance(message, Measured):
            self._take_measurements(message.pools)
        elif isinstance(message, Well):
            self._questions.answer(message)
        elif isinstance(message, Reconfigured):
            settings, keys = pickle.loads(message.settings)  # noqa: S301  # from the process that started this one
            self._take(settings, keys, message.edition)
        elif isinstance(message, PolicySwitched):
            self._policy.switch(message.policy)  # the supervisor has tried, by the same settings
            arrange_learning(self.fleet, self.settings, self._policy.current, self.measurements)
        elif isinstance(message, Part):
            self._draining = True
            self._serving.part()

    def _take(self, settings: Settings, keys: ApiKeys | None, edition: int) -> None:
        """The supervisor has read these settings, files included, a moment ago; certificates are read once more."""
        plan = plan_of(self.settings, settings)
        try:
            context = client_context(settings)
            require_engine_files(settings)
        except ConfigError as error:
            LOG.error("configuration not reloaded: %s", error)  # a mistake of a person, no fault
            return
        self.take_over(plan, keys, context, ())
        self._channel.send(TookOver(edition))
        logging.getLogger().setLevel(settings.log_level.upper())

    def supervisor_gone(self) -> None:
        """Nobody answers questions any more."""
        self._questions.give_up()

    def _running(self) -> int:
        return self.fleet.own_in_flight()


class Life:
    """What a worker process hears from its first message to its end."""

    def __init__(self) -> None:
        self.channel = Channel(self._hear, self._on_closed)
        self.assigned: asyncio.Future[Assignment | None] = asyncio.get_running_loop().create_future()
        self.stop = asyncio.Event()
        self.at_once = asyncio.Event()
        self.succeeded = False
        self._early: list[Message] = []
        self._router: WorkerRouter | None = None

    def begin(self, router: WorkerRouter) -> None:
        """From now on the router hears what is found out, beginning with what it has missed."""
        self._router = router
        for message in self._early:
            router.hear(message)

    def _hear(self, message: Message) -> None:
        if isinstance(message, Assignment):
            self.assigned.set_result(message)
        elif isinstance(message, Drain):
            self.succeeded = message.succeeded
            self.stop.set()
        elif isinstance(message, Hurry):
            self.at_once.set()
        elif self._router is None:
            self._early.append(message)
        else:
            self._router.hear(message)

    def _on_closed(self) -> None:
        if not self.assigned.done():
            self.assigned.set_result(None)
        if not self.stop.is_set():
            LOG.warning("the supervisor is gone: no more clients are taken")
            self.stop.set()
        if self._router is not None:
            self._router.supervisor_gone()


async def work(end: socket.socket) -> None:
    """Be a worker, from the first message to the last request."""
    life = Life()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, life.stop.set)
    await life.channel.open(end)
    assignment = await life.assigned
    if assignment is None:
        return
    settings: Settings
    settings, keys = pickle.loads(assignment.settings)  # noqa: S301  # from the process that started this one
    start_logging(settings.log_level, f"worker {assignment.number}: ")
    with ExitStack() as stack:
        recorder = stack.enter_context(open_recorders(settings, utc_now))
        tracing = stack.enter_context(open_tracing(settings, utc_now))
        router = WorkerRouter(settings, recorder, tracing, assignment, life.channel, keys)
        life.begin(router)
        await router.start()
        calm_collector()
        life.channel.send(Serving())
        await life.stop.wait()
        life.channel.send(Leaving())
        drained = await router.stop(life.at_once, succeeded=life.succeeded)
        life.channel.send(Left(drained))
    life.channel.close()


def main(descriptor: int) -> None:
    """Be a worker on that socket."""
    raise_open_files()
    run_in_loop(work(socket.socket(fileno=descriptor)))
