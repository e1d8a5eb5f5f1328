"""The workers of a supervisor: started, replaced where they end, told what it finds out, and led out at the end.

The listening sockets are the supervisor's and each worker inherits them, so that a client who waits to be accepted is
nobody's and a worker that ends resets none. A worker that dies is replaced at once; one that dies soon after it was
started only after a pause that doubles, since then it may well do so again.
"""

import asyncio
import logging
import pickle
import socket
import sys
from collections.abc import Callable

from breakeven.api_keys import ApiKeys
from breakeven.channel import Channel
from breakeven.clock import Clock
from breakeven.config import Settings
from breakeven.ledger import Row
from breakeven.listener import BACKLOG
from breakeven.metric_table import TABLE, MetricKind
from breakeven.wiring import StartError
from breakeven.worker_messages import (
    Assignment,
    Downward,
    Drain,
    Hurry,
    Leaving,
    Left,
    Message,
    Part,
    Reconfigured,
    Serving,
    TookOver,
)

LOG = logging.getLogger(__name__)

GAUGES = tuple(metric.name for metric in TABLE if metric.kind is MetricKind.GAUGE)
"""What a dead worker holds no more."""

SETTLED_S = 10.0
"""Who has lived so long did not die of its start: its successor may come at once."""

PAUSE_MIN_S, PAUSE_MAX_S = 0.5, 30.0
"""A start takes a second of a core: with this pause a worker that cannot live takes 3 % of one in the end."""

UNSENT_BYTES_MAX = 2**24
"""A worker that has taken nothing for so long stands still: a minute with a hundred engines, hours with two."""

PATIENCE_S = 5.0
"""Beyond the time that a worker has to drain: for its last log lines and its end."""


COMMAND = (sys.executable, "-P", "-m", "breakeven.worker_start")
"""-P: the folder in which the router happens to be started is no place to import from."""


def pause_before(lived_s: float, before_s: float | None) -> float:
    """How long to wait before a worker is replaced that lived so long; `before_s` was waited before it came."""
    if before_s is None or lived_s >= SETTLED_S:
        return 0.0
    return min(max(PAUSE_MIN_S, 2 * before_s), PAUSE_MAX_S)


def settings_of_workers(settings: Settings) -> Settings:
    """Only the supervisor waits before it drains: a worker that leaves alone has others at its sockets."""
    return settings.model_copy(update={"drain_delay_s": 0.0})


class Worker:
    """One worker as its supervisor sees it."""

    def __init__(self, number: int, row: int, process: asyncio.subprocess.Process) -> None:
        self.number = number
        self.row = row
        self.process = process
        self.serving = asyncio.Event()
        self.leaving = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.ended = asyncio.Event()
        self.drained = False
        self.edition = 0
        """Of the settings by which it serves."""
        self.stands_still = False
        self.channel: Channel

    def send(self, message: Downward) -> None:
        """Tell it something; one that has stopped listening is killed."""
        if self.channel.unsent_bytes <= UNSENT_BYTES_MAX:
            self.channel.send(message)
        elif not self.stands_still:
            self.stands_still = True
            LOG.error("worker %d (pid %d) stands still and is killed", self.number, self.process.pid)
            self.kill()

    def kill(self) -> None:
        """End it now."""
        if self.process.returncode is None:
            self.process.kill()


class Crew:
    """The data plane of a supervisor.

    `rows` are the shared table's, the first being the supervisor's own. `greet` tells a new worker what is known,
    `hear` takes what one says, `on_replaced` is called for each replacement.
    """

    def __init__(
        self,
        settings: Settings,
        table: int,
        rows: list[Row],
        clock: Clock,
        *,
        keys: ApiKeys | None = None,
        greet: Callable[[Worker], None],
        hear: Callable[[Worker, Message], None],
        on_replaced: Callable[[], None],
        command: tuple[str, ...] = COMMAND,
    ) -> None:
        self._command = command
        self._settings = settings_of_workers(settings)
        self._keys = keys
        self._table = table
        self._rows = rows
        self._now = clock
        self._greet = greet
        self._hear = hear
        self._on_replaced = on_replaced
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for row in range(1, len(rows)):
            self._free.put_nowait(row)
        self._sockets: list[socket.socket] = []
        self._workers: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._seats: list[asyncio.Task[None]] = []
        self._edition = 0
        self._parting = False
        self._stopping = False

    @property
    def serving(self) -> bool:
        """Whether anybody takes clients."""
        return any(worker.serving.is_set() and not worker.leaving.is_set() for worker in self._workers)

    def tell(self, message: Downward) -> None:
        """Tell all workers."""
        for worker in self._workers:
            worker.send(message)

    # -- the data plane of a router

    @property
    def sockets(self) -> list[socket.socket]:
        """Where the workers accept clients."""
        return self._sockets

    async def listen_at(self, sockets: list[socket.socket]) -> int:
        """Start all workers there; the port. OSError: nobody can listen. StartError: a worker ends at its start."""
        self._sockets = sockets
        for listening in self._sockets:
            listening.listen(BACKLOG)
        first = [await self._hire(number) for number in range(1, self._settings.workers + 1)]
        try:
            await asyncio.gather(*map(self._served, first))
        except StartError:
            self.close()
            raise
        self._seats = [asyncio.create_task(self._keep(worker)) for worker in first]
        bound: int = self._sockets[0].getsockname()[1]
        return bound

    def reconfigure(self, settings: Settings, keys: ApiKeys | None) -> None:
        """Have all workers, and those that come, serve by these settings and keys."""
        self._settings = settings_of_workers(settings)
        self._keys = keys
        self._edition += 1
        self.tell(Reconfigured(pickle.dumps((self._settings, self._keys)), self._edition))

    def is_up_to_date(self, worker: Worker) -> bool:
        """Whether it serves by the settings in force; just after a reload, or where it could not read a file, not."""
        return worker.edition == self._edition

    def part(self) -> None:
        """Not ready any more; clients are still accepted."""
        self._parting = True
        self.tell(Part())

    async def drain(self, timeout_s: float, idle_s: float = 0.0) -> bool:
        """Lead all workers out; whether every request had finished. Cancelled: they cut what still runs.

        With `idle_s` another router's workers accept clients at the same sockets.
        """
        self._leave_seats()
        self.tell(Drain(succeeded=idle_s > 0))
        leaving = set(self._workers)
        try:
            await self._all_ended(leaving, idle_s + timeout_s + PATIENCE_S)
        except asyncio.CancelledError:
            self.tell(Hurry())
            await self._all_ended(leaving, PATIENCE_S)
            raise
        return all(worker.drained for worker in leaving)

    def close(self) -> None:
        """Let go of everything, workers that still run among it."""
        self._leave_seats()
        for worker in self._workers:
            worker.kill()

    # -- its workers

    def _leave_seats(self) -> None:
        """Nobody is replaced any more, and nobody accepts for whoever comes next."""
        self._stopping = True
        for seat in self._seats:
            seat.cancel()
        for listening in self._sockets:
            listening.close()

    async def _all_ended(self, workers: set[Worker], timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                for worker in workers:
                    await worker.ended.wait()
        except TimeoutError:
            for worker in self._workers:
                LOG.error("worker %d (pid %d) does not end and is killed", worker.number, worker.process.pid)
                worker.kill()
            for worker in workers:
                await worker.ended.wait()

    async def _served(self, worker: Worker) -> None:
        ended = asyncio.create_task(worker.ended.wait())
        serving = asyncio.create_task(worker.serving.wait())
        await asyncio.wait([ended, serving], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        serving.cancel()
        if not worker.serving.is_set():
            code = worker.process.returncode
            raise StartError(f"workers: number {worker.number} ended with {code} before it served, see above")

    async def _keep(self, worker: Worker) -> None:
        """Have somebody at this worker's place, for ever."""
        pause_s: float | None = None
        while True:
            began_s = self._now()
            await self._gone(worker)
            pause_s = pause_before(self._now() - began_s, pause_s)
            self._tell_why(worker, pause_s)
            await asyncio.sleep(pause_s)
            self._on_replaced()
            worker = await self._successor(worker.number)

    async def _successor(self, number: int) -> Worker:
        """Start a worker, however often that fails: where there is no memory or descriptor now, there may be later."""
        pause_s = PAUSE_MIN_S
        while True:
            try:
                return await self._hire(number)
            except OSError as error:
                why = error.strerror or type(error).__name__
                LOG.error("worker %d cannot be started (%s); next try in %g s", number, why, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _gone(self, worker: Worker) -> None:
        """Wait until a worker has ended, or has begun to."""
        waiting = [asyncio.create_task(event.wait()) for event in (worker.ended, worker.leaving)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()

    def _tell_why(self, worker: Worker, pause_s: float) -> None:
        if worker.leaving.is_set():
            LOG.info("worker %d (pid %d) leaves and is replaced", worker.number, worker.process.pid)
            return
        when = f"in {pause_s:g} s" if pause_s else "at once"
        code = worker.process.returncode
        LOG.error("worker %d (pid %d) died (%s) and is replaced %s", worker.number, worker.process.pid, code, when)

    async def _hire(self, number: int) -> Worker:
        """Start a worker in a free row; there is one for each that serves and for each that leaves meanwhile."""
        row = await self._free.get()
        try:
            ours, theirs = socket.socketpair()
        except OSError:
            self._free.put_nowait(row)
            raise
        sockets = tuple(listening.fileno() for listening in self._sockets)
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    str(theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), self._table, *sockets),
                )
            except BaseException:  # also where the crew is led out meanwhile: a worker that finds nobody here ends
                ours.close()
                self._free.put_nowait(row)
                raise
        worker = Worker(number, row, process)
        worker.channel = Channel(lambda message: self._heard(worker, message), worker.hung_up.set)
        await worker.channel.open(ours)
        self._workers.add(worker)
        attending = asyncio.create_task(self._attend(worker))
        self._tasks.add(attending)
        attending.add_done_callback(self._tasks.discard)
        settings = pickle.dumps((self._settings, self._keys))
        worker.edition = self._edition
        worker.send(Assignment(number, settings, sockets, self._table, row, len(self._rows)))
        self._greet(worker)
        if self._parting:
            worker.send(Part())
        if self._stopping:
            worker.send(Drain())
        return worker

    async def _attend(self, worker: Worker) -> None:
        """Wait for the end of a worker; what it held is held no more, and its row can be another's."""
        await worker.process.wait()
        await worker.hung_up.wait()  # its last words have been read
        self._workers.discard(worker)
        self._rows[worker.row].clear(GAUGES)
        self._free.put_nowait(worker.row)
        worker.ended.set()

    def _heard(self, worker: Worker, message: Message) -> None:
        if isinstance(message, Serving):
            worker.serving.set()
        elif isinstance(message, Leaving):
            worker.leaving.set()
        elif isinstance(message, Left):
            worker.drained = message.drained
        elif isinstance(message, TookOver):
            worker.edition = message.edition
        else:
            self._hear(worker, message)
