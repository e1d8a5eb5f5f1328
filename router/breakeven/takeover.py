"""SIGUSR2: a process that is started anew takes the place of this one, and only once it serves does this one leave.

Until then both accept clients from the same sockets, so that nobody is refused; where the new one does not come to
serve, for whatever reason, this one goes on as if nothing had been asked.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence

from breakeven.notify import Notifier, main_pid, status
from breakeven.successor import READY_WITHIN_S, NoSuccessorError, Successor

LOG = logging.getLogger(__name__)

Start = Callable[[Sequence[tuple[str, socket.socket]]], Successor]

INIT = 1
"""The first process of a container, or of a machine: with its end all others end."""


class Takeover:
    """Waits to be asked while `run` runs, which ends once another process has taken over.

    `start` starts one at the sockets that `sockets` tells, `pid` is this process, `notifier` hears who is the main one.
    """

    def __init__(
        self,
        start: Start,
        sockets: Callable[[], Sequence[tuple[str, socket.socket]]],
        notifier: Notifier,
        pid: int,
        within_s: float = READY_WITHIN_S,
    ) -> None:
        self._start = start
        self._sockets = sockets
        self._notifier = notifier
        self._pid = pid
        self._within_s = within_s
        self._asked = asyncio.Event()
        self.succeeded = False

    def ask(self) -> None:
        """Have another process take over; while one starts, and once one serves, this changes nothing."""
        if self._pid == INIT:
            LOG.error("not taken over: this is process 1, whose end would end every other one here")
        elif self._asked.is_set():
            LOG.warning("SIGUSR2: process %d is being taken over already", self._pid)
        else:
            self._asked.set()

    async def run(self) -> None:
        """Have another process take over as often as it is asked for, until one has or until cancelled."""
        while not self.succeeded:
            await self._asked.wait()
            try:
                await self._try()
            except (NoSuccessorError, OSError, RuntimeError) as error:  # the last two: no process, or no thread, now
                LOG.error("not taken over, this process serves on: %s", error)  # most often a mistake of a person
                self._notifier.tell(status(f"not taken over: {error}"))
                self._asked.clear()

    async def _try(self) -> None:
        LOG.info("a new process is started to take over from process %d", self._pid)
        successor = self._start(self._sockets())
        try:
            await successor.ready(self._within_s)
            self.succeeded = True
        finally:  # also where this process is told to end meanwhile
            successor.close()
            if not self.succeeded:
                await successor.end()
        LOG.info("process %d serves now; this one finishes what it has begun and ends", successor.pid)
        self._notifier.tell(main_pid(successor.pid))
