"""Keeps the fleet true: asks every engine how it is, what it measures and which models it serves, as long as we run.

Each engine has three tasks of its own, so that a slow answer delays nothing else: health, metrics, models. Health is
asked at once and then at its interval; the other two begin when the engine first answers, and again whenever it comes
back. A fourth one asks an ejected engine for a token until it makes one. The engines of a fleet keep to different
moments within an interval, so that their answers do not come in one burst. What comes back becomes a fleet event. A
metrics page that cannot be read never takes an engine out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from breakeven.clock import Clock
from breakeven.config import BackendAddress
from breakeven.engine_client import EngineClient, EngineError
from breakeven.fleet import FleetEvent, ModelsListed, ProbeFailed, ProbeSucceeded, Revived, Scraped, SignalsForgotten
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory, names_of
from breakeven.table_book import Identified
from breakeven.tls import engine_context, freshness
from breakeven_policies.snapshot import Health

LOG = logging.getLogger(__name__)

SCRAPE_FAILURES_MAX = 3
"""Failed scrapes in a row after which the last figures are forgotten: a queue of some seconds ago is no fact now."""

REVIVAL_PAUSE_MAX_S = 30.0
"""The pause between two questions for a token doubles up to this: an engine that is stuck is not helped by them."""


SETTLED_S = 60.0
"""An engine that is ejected again within this time after a token has not settled: it makes tokens for us and none for
clients, and each return costs a client its request.
"""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often each question is asked, and how long its answer may take."""

    health_s: float
    scrape_s: float
    models_s: float
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who hears the answers; `clock` dates them. `identified`: what an engine says of itself beside its models."""

    apply: Callable[[FleetEvent], None]
    metrics: Metrics
    directory: ModelDirectory
    clock: Clock
    identified: Callable[[Identified], None] = lambda _: None


class Prober:
    """Probes all engines while `run` runs."""

    def __init__(self, addresses: tuple[BackendAddress, ...], rhythm: Rhythm, listeners: Listeners) -> None:
        self._to = listeners
        self._rhythm = rhythm
        self._asked: dict[str, tuple[BackendAddress, object]] = {}
        self._watches: dict[str, EngineWatch] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self.reconfigure(addresses, rhythm)

    def reconfigure(self, addresses: tuple[BackendAddress, ...], rhythm: Rhythm) -> None:
        """Ask these engines from now on. Who is asked as before is not asked anew, who is gone is asked no more."""
        before, self._watches = self._watches, {}
        for index, address in enumerate(addresses):
            watch = before.get(address.name)
            asked = address, freshness(address.trust)
            if watch is not None and self._asked[address.name] == asked and self._rhythm == rhythm:
                self._watches[address.name] = before.pop(address.name)
                continue
            client = EngineClient(address, rhythm.timeout_s, engine_context(address.trust) if address.tls else None)
            self._watches[address.name] = EngineWatch(client, rhythm, self._to, phase=(index + 1) / len(addresses))
            if self._tasks is not None:
                self._watches[address.name].start(self._tasks)
        self._asked = {address.name: (address, freshness(address.trust)) for address in addresses}
        self._rhythm = rhythm
        for watch in before.values():
            watch.stop()

    async def run(self) -> None:
        """Ask every engine now, and again and again until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                for watch in self._watches.values():
                    watch.start(tasks)
        finally:
            self._tasks = None
            for watch in self._watches.values():
                await watch.client.close()

    async def asked_all(self) -> None:
        """Wait until every engine has answered its first health check, or failed to."""
        for watch in list(self._watches.values()):
            await watch.asked.wait()

    async def known_all(self) -> None:
        """Beyond that, wait until who is well has listed its models, or failed to."""
        await self.asked_all()
        for watch in list(self._watches.values()):
            if watch.is_up:
                await watch.listed.wait()

    async def is_well(self, backend: str) -> bool:
        """Ask one engine now, beside its rhythm. One that a reload took away is not asked: it serves nobody."""
        watch = self._watches.get(backend)
        return watch is not None and await watch.is_well()

    def on_health(self, backend: str, health: Health) -> None:
        """Hear what the fleet believes now."""
        self._watches[backend].on_health(health)


async def ask_once(addresses: Iterable[BackendAddress], timeout_s: float) -> list[ProbeSucceeded | ProbeFailed]:
    """How these engines are, before anything else is believed of them; all are asked at the same time."""

    async def ask(address: BackendAddress) -> ProbeSucceeded | ProbeFailed:
        tls = engine_context(address.trust) if address.tls else None
        async with EngineClient(address, timeout_s, tls) as engine:
            return await engine.health()

    return await asyncio.gather(*map(ask, addresses))


class EngineWatch:
    """The three questions to one engine. `phase` in (0, 1] is its place within an interval."""

    def __init__(self, client: EngineClient, rhythm: Rhythm, listeners: Listeners, phase: float = 1.0) -> None:
        self.client = client
        self._name = client.name
        self._rhythm = rhythm
        self._to = listeners
        self._phase = phase
        self._listening = False
        self.asked = asyncio.Event()
        self.listed = asyncio.Event()
        self._scrape_now = asyncio.Event()
        self._list_now = asyncio.Event()
        self._scrape_failures = 0
        self._asking: asyncio.Task[FleetEvent] | None = None
        self._told: dict[str, str | None] = {}
        self._ejected = asyncio.Event()
        self._model: str | None = None
        self._revival_pause_s = rhythm.health_s
        self._revived_s = -SETTLED_S
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Ask from now on."""
        keeping = (self.keep_health, self.keep_signals, self.keep_models, self.keep_reviving)
        self._tasks = [tasks.create_task(keep()) for keep in keeping]

    @property
    def is_up(self) -> bool:
        """Whether it is asked for metrics and models."""
        return self._listening

    def stop(self) -> None:
        """Ask no more, and let nobody wait for an answer."""
        self.asked.set()
        self.listed.set()
        for task in self._tasks:
            task.cancel()

    async def keep_health(self) -> None:
        """Check health at once and then at its interval, for ever."""
        await self.check_health()
        self.asked.set()
        await asyncio.sleep(self._rhythm.health_s * self._phase)
        while True:
            asked_s = self._to.clock()
            await self.check_health()
            await asyncio.sleep(max(0.0, asked_s + self._rhythm.health_s - self._to.clock()))

    async def keep_signals(self) -> None:
        """Read metrics when the engine comes up and then at their interval, for ever."""
        await self._keep(self.scrape, self._rhythm.scrape_s, self._scrape_now)

    async def keep_models(self) -> None:
        """List models likewise."""
        await self._keep(self.list_models, self._rhythm.models_s, self._list_now)

    def on_health(self, health: Health) -> None:
        """Ask for a token as long as the engine is ejected."""
        if health is Health.EJECTED:
            self._ejected.set()
        else:
            self._ejected.clear()

    async def keep_reviving(self) -> None:
        """Ask an ejected engine for a token until it makes one, for ever.

        One that cannot be asked comes back after the pause, on trial, so that requests tell. The pause doubles from one
        failure, or one such return, to the next. One that made a token and is ejected again soon waits likewise.
        """
        while True:
            await self._ejected.wait()
            unsettled = self._to.clock() - self._revived_s < SETTLED_S
            if unsettled:
                await self._pause()
            made = await self._makes_token()
            if made:
                self._revived_s = self._to.clock()
                if not unsettled:
                    self._revival_pause_s = self._rhythm.health_s
            else:
                await self._pause()
            if made is not False and self._ejected.is_set():
                self._to.apply(Revived(self._name, made_token=bool(made)))

    async def _pause(self) -> None:
        await asyncio.sleep(self._revival_pause_s)
        self._revival_pause_s = min(2 * self._revival_pause_s, REVIVAL_PAUSE_MAX_S)

    async def _makes_token(self) -> bool | None:
        """Ask once; None: it cannot be asked."""
        try:
            made = self._model is not None and await self.client.makes_token(self._model)
        except EngineError as error:
            self._tell("token", str(error))
            return False
        self._tell("token", None)
        return made or None

    async def _keep(self, ask: Callable[[], Awaitable[None]], interval_s: float, came_up: asyncio.Event) -> None:
        pause_s = interval_s
        while True:
            try:
                async with asyncio.timeout(pause_s):
                    await came_up.wait()
                came_up.clear()
                pause_s = interval_s * self._phase
            except TimeoutError:
                pause_s = interval_s
            if self._listening:
                await ask()

    async def is_well(self) -> bool:
        """Ask now, once for all who want to know now.

        The answer changes no belief: "failed so often in a row" is about a rhythm, and clients whose requests fail do
        not set it.
        """
        if self._asking is None:
            self._asking = asyncio.create_task(self.client.health())
            self._asking.add_done_callback(lambda _: setattr(self, "_asking", None))
        event = await asyncio.shield(self._asking)
        return not isinstance(event, ProbeFailed) or event.unasked

    async def check_health(self) -> None:
        """Ask once."""
        event = await self.client.health()
        if isinstance(event, ProbeFailed):
            self._to.metrics.probe_failed(self._name)
            self._tell("health", event.error)
            # After a time-out the engine may well be busy rather than gone, and its figures are wanted all the more.
            self._listening = self._listening and not (event.refused or event.loading)
        else:
            self._tell("health", event.warning)
            if not self._listening:
                self._listening = True
                self._scrape_now.set()
                self._list_now.set()
        self._to.apply(event)

    async def scrape(self) -> None:
        """Read the metrics once."""
        try:
            signals = await self.client.signals()
        except EngineError as error:
            self._tell("metrics", str(error))
            self._to.metrics.scrape_failed(self._name)
            self._scrape_failures += 1
            if self._scrape_failures == SCRAPE_FAILURES_MAX:
                self._to.apply(SignalsForgotten(self._name))
            return
        self._tell("metrics", None)
        self._scrape_failures = 0
        event = Scraped(self._name, signals, self._to.clock())
        self._to.apply(event)
        self._to.metrics.scraped(event)

    async def list_models(self) -> None:
        """Read the list of models once; where that fails, the last one stays."""
        try:
            cards = await self.client.cards()
        except EngineError as error:
            self._tell("models", str(error))
            self.listed.set()
            return
        self._tell("models", None)
        self._to.directory.update(self._name, cards)
        self._model = cards[0]["id"] if cards else None
        self._to.apply(ModelsListed(self._name, frozenset(card["id"] for card in cards)))
        self.listed.set()
        # Asked each time, since an engine may be replaced by a newer one between two health checks.
        self._to.identified(Identified(self._name, names_of(cards), await self.client.version()))

    def _tell(self, question: str, trouble: str | None) -> None:
        """Log what is wrong when it begins, changes or ends, not each time."""
        if self._told.get(question) == trouble:
            return
        self._told[question] = trouble
        if trouble is None:
            LOG.info("%s: %s: works again", self._name, question)
        else:
            LOG.warning("%s: %s: %s", self._name, question, trouble)
