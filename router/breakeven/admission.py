"""Lets requests wait for a place where every engine that could serve them has as many as it may have.

First come, first served: before a new request is decided, who waits is asked. A place that becomes free is offered in
the next turn of the loop, not in the middle of what freed it; and since not everything that makes room is told here (an
engine comes back, another worker's request ends, a limit is raised), who waits is asked every `TICK_S` anyway, which is
also when one who has waited too long hears so.

One who cannot be asked for a reason that nobody foresaw leaves and hears of it (`Guest.fail`); the others wait on.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from math import ceil, inf
from typing import Protocol

from breakeven.record import Waited
from breakeven.waiting_room import WaitingRoom

LOG = logging.getLogger(__name__)

TICK_S = 0.1
"""A place that nobody tells of is found this late; asking costs one decision for each kind of request that waits."""

BYTES_MAX = 256 * 2**20
"""What bodies of waiting requests may hold: four of the largest that are accepted, or thousands of ordinary ones."""


class Guest(Protocol):
    """One who waits."""

    def try_place(self) -> Waited | None:
        """Take a place if there is one now, or go away for another reason; None: wait on. Must not leave by itself."""

    def too_late(self) -> None:
        """It has waited for as long as it may, and has left."""

    def fail(self) -> None:
        """Asking it ended in a fault of the router, wherever that was; it has left."""


class Seen(Protocol):
    """Who hears how many wait, and how each wait ended."""

    queued: int

    def waited(self, how: Waited, wait_s: float) -> None:
        """One does not wait any more."""


class Admission:
    """The waiting room of one router. `due`: room may have come about since those who wait were asked last."""

    def __init__(self, queue_max: int, timeout_s: float, now: Callable[[], float], seen: Seen) -> None:
        self.due = False
        self._room: WaitingRoom[Guest] = WaitingRoom(queue_max, BYTES_MAX)
        self._timeout_s = timeout_s
        self._now = now
        self._seen = seen
        self._tick: asyncio.TimerHandle | None = None
        self._last_wait_s = 0.0

    def reconfigure(self, queue_max: int, timeout_s: float) -> None:
        """Other bounds for who comes from now on; who waits goes on waiting."""
        self._room.guests_max = queue_max
        self._timeout_s = timeout_s

    @property
    def retry_after_s(self) -> int:
        """When to come again, for who is sent away: what the last one who was served has waited."""
        return max(1, ceil(self._last_wait_s))

    def wait(self, guest: Guest, lane: Hashable, size_bytes: int, latest_s: float = inf) -> bool:
        """Wait for a place; guests of one `lane` could be served by the same engines. False: too many wait."""
        now_s = self._now()
        if not self._room.enter(guest, lane, size_bytes, now_s, min(latest_s, now_s + self._timeout_s)):
            return False
        self._seen.queued = len(self._room)
        if self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(TICK_S, self._on_tick)
        return True

    def leave(self, guest: Guest, how: Waited = Waited.LEFT) -> None:
        """One does not wait any more."""
        wait_s = self._room.leave(guest, self._now())
        if how is Waited.SERVED:
            self._last_wait_s = wait_s
        self._seen.queued = len(self._room)
        self._seen.waited(how, wait_s)

    def soon(self) -> None:
        """There may be room: ask who waits, in the next turn of the loop."""
        if len(self._room) and not self.due:
            self.due = True
            asyncio.get_running_loop().call_soon(self._if_due)

    def ask(self) -> None:
        """Give what room there is to those who have waited longest."""
        self.due = False
        for guest in self._room.first_of_each_lane():
            try:
                how = guest.try_place()
            except Exception:  # whatever is wrong with one request, the queue of all must not stand still for it
                LOG.exception("a request that waited for a place failed")
                self._throw_out(guest)
                continue
            if how is not None:
                self.leave(guest, how)

    def close(self) -> None:
        """Ask no more."""
        if self._tick is not None:
            self._tick.cancel()
            self._tick = None

    def _if_due(self) -> None:
        if self.due:
            self.ask()

    def _on_tick(self) -> None:
        self._tick = None
        for guest in self._room.late(self._now()):
            self.leave(guest, Waited.EXPIRED)
            try:
                guest.too_late()
            except Exception:  # as above
                LOG.exception("a request that waited too long could not be told so")
                self._throw_out(guest)
        self.ask()
        if len(self._room) and self._tick is None:
            self._tick = asyncio.get_running_loop().call_later(TICK_S, self._on_tick)

    def _throw_out(self, guest: Guest) -> None:
        """See to it that it is not asked again, and that its client hears something."""
        try:
            if guest in self._room:
                self.leave(guest, Waited.REFUSED)
            guest.fail()
        except Exception:  # as above
            LOG.exception("nor could it be ended")
