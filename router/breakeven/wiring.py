"""Puts the parts of a router together, from the first probe to the last drained request; `serving` runs them."""

import asyncio
import gc
import logging
import os
import random
import resource
import socket
import ssl
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import uvloop

from breakeven.addresses import bound_sockets
from breakeven.api_keys import ApiKeys
from breakeven.certificates import certificates_of
from breakeven.clock import Clock, monotonic_s, utc_now
from breakeven.config import BackendAddress, Settings
from breakeven.endpoints import EndpointTable
from breakeven.equivalence_guard import EquivalenceGuard
from breakeven.fleet import Drained, Ejection, Fleet, PoolSpec, Resumed
from breakeven.inherited import NOTHING, Inherited
from breakeven.key_file import keys_in_force
from breakeven.listen_fds import ADMIN, API
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory
from breakeven.policy_in_force import PolicyInForce
from breakeven.probe import Listeners, Prober, Rhythm, ask_once
from breakeven.proxy import Proxy
from breakeven.recorder import Recorder, Recorders, Tracing
from breakeven.reload import Plan, plan_of
from breakeven.schooling import arrange_learning
from breakeven.sights import Sights
from breakeven.table_book import Identified, TableBook, log_level, tables_document
from breakeven.table_files import tables_in_force
from breakeven.tls import ServerTls, client_context, require_engine_files
from breakeven_policies.measured import Table
from breakeven_policies.measurement import Measurement
from breakeven_policies.snapshot import Health

if TYPE_CHECKING:
    from breakeven.admin import AdminServer

LOG = logging.getLogger(__name__)

YOUNG_OBJECTS_MAX = 50_000
"""New objects before the collector looks at them: about as many as 500 connections hold, a millisecond's work."""

KNOWN_WITHIN_S = 10.0
"""Twice the time that an engine has for an answer by default: who waits at an inherited socket waits no longer."""

IDLE_S = 6.0
"""httpx, and so OpenAI's client, uses no connection again that was idle for 5 s; until then it hears of our end."""

OPEN_FILES_MIN = 4096
"""Each streaming request holds two sockets; with fewer descriptors than this a busy router refuses clients."""


LOG_LINE = "%(asctime)s %(levelname)s {who}%(name)s: %(message)s"


class StartError(Exception):
    """The router cannot start; the message is one line for the person who started it."""


class EngineWatch(Protocol):
    """Who knows the engines: `probe.Prober`, or in a worker what it is told."""

    async def run(self) -> None:
        """Keep the fleet true until cancelled."""

    async def asked_all(self) -> None:
        """Wait until every engine has been asked once."""

    async def known_all(self) -> None:
        """Wait until, beyond that, every engine that is well has been asked once for its models."""

    async def is_well(self, backend: str) -> bool:
        """Ask one now."""

    def on_health(self, backend: str, health: Health) -> None:
        """Hear what the fleet believes now."""

    def reconfigure(self, addresses: tuple[BackendAddress, ...], rhythm: Rhythm) -> None:
        """Watch these from now on."""


class DataPlane(Protocol):
    """Who serves the clients: `proxy.Proxy`, or in a supervisor its workers."""

    @property
    def sockets(self) -> list[socket.socket]:
        """Where clients are accepted: what a successor inherits."""

    async def listen_at(self, sockets: list[socket.socket]) -> int:
        """Accept clients at these from now on, and let go of them at the end; their port. OSError where it cannot."""

    def reconfigure(self, settings: Settings, keys: ApiKeys | None) -> None:
        """Serve by these settings from the next request on."""

    def part(self) -> None:
        """Not ready any more; clients are still accepted."""

    async def drain(self, timeout_s: float, idle_s: float = 0.0) -> bool:
        """Accept no more, let requests finish, cut what is left; whether all had finished. Cancelled: cut at once.

        With `idle_s` another process accepts at the same sockets, and idle clients have so long to ask once more.
        """

    def close(self) -> None:
        """Let go of everything."""


class Router:
    """One router in the running loop: `start`, then requests, then `stop`."""

    def __init__(
        self,
        settings: Settings,
        recorder: Recorder | Recorders,
        clock: Clock = monotonic_s,
        tracing: Tracing | None = None,
    ) -> None:
        specs, models = settings.pool_specs(), settings.model_table()
        self.settings = settings
        self._clock = clock
        self.port = self.admin_port = 0
        self._prepare()
        self.metrics = self._make_metrics(specs)
        recorder.tell_losses(self.metrics.lines_lost)
        if tracing is not None:
            tracing.recorder.tell_losses(self.metrics.lines_lost)
        ejection = Ejection(settings.engine_failures_max, settings.engine_frozen_s)
        self.fleet = self._make_fleet(specs, ejection)
        self._policy = PolicyInForce(settings)
        self.measurements: dict[str, Measurement] = {}
        arrange_learning(self.fleet, settings, self._policy.current, self.measurements)
        self._draining = False
        context = client_context(settings)
        self._tls = None if context is None else ServerTls(context)
        addresses = settings.addresses()
        self._directory = directory = ModelDirectory((address.name for address in addresses), settings.aliases)
        self._tables = TableBook(settings.identities(), self._read_tables(settings))
        listeners = Listeners(self.fleet.apply, self.metrics, directory, clock, self._identified)
        self._prober = self._make_prober(addresses, rhythm_of(settings), listeners)
        proxy = Proxy(
            settings=settings,
            keys=self._read_keys(settings),
            tls=context,
            fleet=self.fleet,
            policy=self._policy,
            directory=directory,
            metrics=self.metrics,
            recorder=recorder,
            clock=clock,
            chance=random.Random(),  # noqa: S311  # tickets and request ids need not be secret
            is_well=self._prober.is_well,
            tracing=tracing,
        )
        self._proxy = self._make_data_plane(proxy)
        self._sights = Sights(
            snapshot=lambda: self.fleet.snapshot(clock()),
            policy=lambda: self._policy.current,
            ready=self.ready,
            metrics=self.metrics,
            models=models,
            endpoints=EndpointTable(settings.extra_paths),
            admin_key=None if settings.admin_key is None else settings.admin_key.get_secret_value(),
            apply=self._wish,
            build=self._policy.build,
            configured=lambda: self._policy.configured,
            switch=self.switch_policy,
            tables=lambda: tables_document(self._tables.tables, self.metrics.tables_in_use),
        )
        self._guard = EquivalenceGuard(settings, self._sights.snapshot, self.metrics, self._sights.apply)
        self.metrics.config_success_s = utc_now().timestamp()
        self._admin: AdminServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # -- what a supervisor or a worker does otherwise

    def _prepare(self) -> None:
        """Make what the parts are made with."""

    def _read_keys(self, settings: Settings) -> ApiKeys | None:
        return keys_in_force(settings)

    def _read_tables(self, settings: Settings) -> tuple[Table, ...]:
        return tables_in_force(settings)

    def _make_metrics(self, specs: tuple[PoolSpec, ...]) -> Metrics:
        return Metrics(specs)

    def _make_fleet(self, specs: tuple[PoolSpec, ...], ejection: Ejection) -> Fleet:
        return Fleet(specs, self.settings.probe_failures_max, self._health_changed, ejection)

    def _make_prober(self, addresses: tuple[BackendAddress, ...], rhythm: Rhythm, listeners: Listeners) -> EngineWatch:
        return Prober(addresses, rhythm, listeners)

    def _make_data_plane(self, proxy: Proxy) -> DataPlane:
        return proxy

    def _wish(self, event: Drained | Resumed) -> None:
        """Somebody wants an engine drained or resumed."""
        self.fleet.apply(event)

    # -- life

    def ready(self) -> bool:
        """Whether at least one engine can serve and the router is not stopping."""
        return self.fleet.ready() and not self._draining

    async def start(self, inherited: Inherited = NOTHING) -> None:
        """Probe, then listen on both ports, where they were not inherited; StartError where one cannot be had."""
        from breakeven.admin import AdminServer, admin_app  # noqa: PLC0415  # half of the time in which a worker starts

        settings = self.settings
        admin = list(inherited.admin) or [bind(settings.admin_host, settings.admin_port, "admin_port")]
        self.admin_port = admin[0].getsockname()[1]
        self._admin = AdminServer(admin_app(self._sights), admin)
        self._tasks = [
            asyncio.create_task(self._prober.run(), name="probes"),
            asyncio.create_task(self._guard.run(), name="equivalence"),
        ]
        try:
            self.port = await self._proxy.listen_at(await self._sockets_of(inherited))
        except (OSError, StartError) as error:
            for listening in admin:
                listening.close()
            await self._cancel_tasks()
            if isinstance(error, StartError):
                raise
            raise StartError(f"port: {why_not(error, settings.host, settings.port)}") from None
        self._tasks.append(asyncio.create_task(self._admin.run_until_stopped(), name="admin"))
        await self._admin.listening.wait()

    async def _sockets_of(self, inherited: Inherited) -> list[socket.socket]:
        """Those for clients. At inherited ones somebody may be waiting already: nobody is let in who would be refused.

        StartError where nothing could be served and another process still does.
        """
        if not inherited.api:
            return await bound_sockets(self.settings.host, self.settings.port)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._prober.known_all(), KNOWN_WITHIN_S)
        if inherited.succeeds and not self.fleet.ready():
            raise StartError("no engine is ready, so there is nothing to take over for")
        return list(inherited.api)

    async def reload(self, settings: Settings) -> Plan:
        """Take other settings into force; what runs is not touched. ConfigError: they cannot be, nothing has changed.

        New engines are asked how they are before they stand in for others, so that no request meets a gap.
        """
        plan = plan_of(self.settings, settings)
        keys, context = keys_in_force(plan.settings), client_context(plan.settings)
        tables = tables_in_force(plan.settings)
        answers = await ask_once(plan.unasked, plan.settings.probe_timeout_s)
        require_engine_files(plan.settings)  # after the asking, which takes seconds: half a reload would be the worst
        # From here on everything happens in one turn of the loop: no request sees half of it.
        self.take_over(plan, keys, context, tables)
        self.metrics.certificates = certificates_of(plan.settings)
        for answer in answers:
            self.fleet.apply(answer)
        return plan

    def take_over(
        self, plan: Plan, keys: ApiKeys | None, context: ssl.SSLContext | None, tables: tuple[Table, ...]
    ) -> None:
        """Have the settings of a plan in force."""
        if self._tls is not None and context is not None:
            self._tls.take(context)
        self.settings = settings = plan.settings
        self._policy.reconfigure(settings, LOG.warning)
        self.metrics.policy_switched = self._policy.switched_to is not None
        specs, addresses = settings.pool_specs(), settings.addresses()
        self.metrics.reconfigure(specs)
        self._directory.reconfigure((address.name for address in addresses), settings.aliases)
        ejection = Ejection(settings.engine_failures_max, settings.engine_frozen_s)
        self.fleet.reconfigure(specs, settings.probe_failures_max, ejection, plan.renewed)
        arrange_learning(self.fleet, settings, self._policy.current, self.measurements)
        self._proxy.reconfigure(settings, keys)
        self._prober.reconfigure(addresses, rhythm_of(settings))
        for address in addresses:
            self._prober.on_health(address.name, self.fleet.health(address.name))
        strangers = (*plan.renewed, *plan.removed)
        self._tables.reconfigure(settings.identities(), tables, strangers)
        self._guard.reconfigure(settings, strangers)
        self._match_tables()
        self._sights.models = settings.model_table()
        self._sights.endpoints = EndpointTable(settings.extra_paths)
        self._sights.admin_key = None if settings.admin_key is None else settings.admin_key.get_secret_value()

    def switch_policy(self, spec: str | None, by: str) -> None:
        """Have another policy decide from the next request on; None: the configured one. ValueError: there is none.

        `by`: who wants it, for the log.
        """
        before = self._policy.current.name
        self._policy.switch(spec)
        self.metrics.policy_switched = spec is not None
        again = ", the configured one" if spec is None else ""
        LOG.warning("policy switched by %s from %s to %s%s", by, before, self._policy.current.name, again)
        arrange_learning(self.fleet, self.settings, self._policy.current, self.measurements)

    async def first_probes(self) -> None:
        """Wait until every engine has been asked once how it is."""
        await self._prober.asked_all()

    async def run_until(self, stop: asyncio.Event, *beside: asyncio.Task[None]) -> None:
        """Serve until `stop` is set; what goes wrong in probes, admin server or `beside` comes out here."""
        waiting = asyncio.create_task(stop.wait(), name="stop")
        noticing = asyncio.create_task(self._notice_absence())
        done, _ = await asyncio.wait([waiting, *self._tasks, *beside], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        noticing.cancel()
        for task in done - {waiting}:
            task.result()

    async def stop(self, at_once: asyncio.Event | None = None, *, succeeded: bool = False) -> bool:
        """Let running requests finish within the drain time, or until `at_once` is set; whether they had.

        Where another process has `succeeded` this one, it answers at the same ports: nothing is announced to balancers,
        the admin port is left to it, and what runs may take longer, since nobody waits for this end.
        """
        at_once = at_once or asyncio.Event()
        limit_s = self.settings.takeover_timeout_s if succeeded else self.settings.drain_timeout_s
        if not succeeded:
            await self._part(at_once)
        elif self._admin is not None:
            self._admin.should_exit = True
        LOG.info("draining: %d requests running, up to %g s", self._running(), limit_s)
        draining = asyncio.create_task(self._proxy.drain(limit_s, IDLE_S if succeeded else 0.0))
        hurry = asyncio.create_task(at_once.wait())
        await asyncio.wait([draining, hurry], return_when=asyncio.FIRST_COMPLETED)
        drained = draining.done() and draining.result()
        for task in (draining, hurry):
            task.cancel()
        # Told to hurry, `drain` cuts what still runs on its way out; nothing it relays through may close before.
        await asyncio.gather(draining, hurry, return_exceptions=True)
        if drained:
            LOG.info("drained: every request had finished")
        else:
            LOG.warning("some requests had not finished and were cut")
        self._proxy.close()
        if self._admin is not None:
            self._admin.should_exit = True
            await asyncio.wait([task for task in self._tasks if task.get_name() == "admin"])
        await self._cancel_tasks()
        LOG.info("stopped")
        return drained

    async def _part(self, at_once: asyncio.Event) -> None:
        """Not ready any more.

        For `drain_delay_s` clients are still accepted: balancers notice a readiness that ended some time later, and
        until then they send requests here.
        """
        self._draining = True
        self._proxy.part()
        if self.settings.drain_delay_s:
            LOG.info("not ready any more; clients are accepted for %g s", self.settings.drain_delay_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(at_once.wait(), self.settings.drain_delay_s)

    @property
    def sockets(self) -> list[tuple[str, socket.socket]]:
        """Where this router listens, each with the name that a successor knows it by."""
        admin = [] if self._admin is None else self._admin.sockets
        return [(API, each) for each in self._proxy.sockets] + [(ADMIN, each) for each in admin]

    @property
    def drained(self) -> list[str]:
        """The engines that somebody wants to be given no requests."""
        return [each.name for pool in self._sights.snapshot().pools for each in pool.backends if each.draining]

    def _running(self) -> int:
        return sum(backend.in_flight for pool in self._sights.snapshot().pools for backend in pool.backends)

    async def _notice_absence(self) -> None:
        """Say so once where the first round of health checks finds nobody to route to."""
        await self.first_probes()
        if not self.fleet.ready():
            LOG.warning("no engine is ready: requests are answered with 503 until one is")

    async def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _identified(self, identified: Identified) -> None:
        """An engine has said what it is."""
        self._tables.identify(identified)
        self._match_tables()

    def _match_tables(self) -> None:
        """See which measured tables speak of which pools now, and say what has changed."""
        before = self.metrics.tables_in_use
        self.metrics.tables_in_use = matches = self._tables.match(self._sights.snapshot(), utc_now().date())
        for match in matches:
            if match not in before:
                LOG.log(log_level(match, before, wanted=bool(self.settings.tables)), "%s", match.line())
        measurements = {match.pool: match.measurement for match in matches if match.measurement is not None}
        if measurements != self.measurements:
            self._take_measurements(measurements)

    def _take_measurements(self, measurements: dict[str, Measurement]) -> None:
        """Know pools by these from now on."""
        self.measurements = measurements
        arrange_learning(self.fleet, self.settings, self._policy.current, measurements)

    def _health_changed(self, pool: str, backend: str, health: Health) -> None:
        cause = self.fleet.suspicion(backend)
        why = f" ({cause})" if health is Health.EJECTED else ""
        level = logging.INFO if health is Health.READY else logging.WARNING
        LOG.log(level, "%s (%s) is %s%s", backend, pool, health, why)
        self.metrics.health_changed(pool, backend, health)
        if health is Health.EJECTED:
            self.metrics.ejected(pool, backend, cause)
        self._prober.on_health(backend, health)


def rhythm_of(settings: Settings) -> Rhythm:
    """How often engines are asked what."""
    return Rhythm(
        health_s=settings.probe_interval_s,
        scrape_s=settings.scrape_interval_s,
        models_s=settings.models_interval_s,
        timeout_s=settings.probe_timeout_s,
    )


def start_logging(level: str, who: str = "") -> None:
    """Have the log written to standard error; `who`: which process says it, where there are several."""
    logging.basicConfig(level=level.upper(), format=LOG_LINE.format(who=who), stream=sys.stderr)
    for chatty in ("httpx", "uvicorn", "asyncio"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def mark_log(who: str) -> None:
    """From now on say `who` writes the log: another process does so beside this one."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(LOG_LINE.format(who=who)))


def run_in_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run it in the loop that all processes of the router use."""
    uvloop.run(main)


def calm_collector() -> None:
    """Collect garbage where it can be afforded.

    A full collection walks all modules, 60 ms in which no relay moves; frozen, they are left out of it. Requests leave
    no cycles behind (8,000 of them: none), so looking for some every 700 objects cost a tenth of the CPU for nothing.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS_MAX)


def bind(host: str, port: int, setting: str) -> socket.socket:
    """A listening socket; StartError names the setting that is wrong."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise StartError(f"{setting}: {why_not(error, host, port)}") from None
    return listening


def why_not(error: OSError, host: str, port: int) -> str:
    """Why an address cannot be listened on."""
    return f"cannot listen on {host}:{port}: {reason(error)}"


def reason(error: OSError) -> str:
    """The system's own words, without what asyncio wraps around them; lookups of names have their own."""
    known = error.errno is not None and error.errno > 0
    return (os.strerror(error.errno or 0) if known else error.strerror or str(error)).lower()


def raise_open_files() -> None:
    """Take all the descriptors that the system grants, and say so where they are few (field case B51)."""
    allowed, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where the system has no limit of its own, it refuses to be asked for that; the soft one stays.
    if hard not in (allowed, resource.RLIM_INFINITY):
        allowed = hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if allowed < OPEN_FILES_MIN:
        LOG.warning("only %d open files are allowed (ulimit -n); each streaming request needs two", allowed)
