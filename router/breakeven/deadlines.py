"""Time limits that nearly always go unused: kept in a wheel of coarse slots, so that each costs no timer of the loop.

What is due is found within `GRAIN_S` after its time, or within a tenth of the limit.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

LOG = logging.getLogger(__name__)

GRAIN_S = 1.0
"""How late a limit of minutes may be noticed."""

Item = TypeVar("Item")


class Wheel(Generic[Item]):
    """Items by the slot in which they are due; pure, time comes in."""

    def __init__(self, grain_s: float) -> None:
        self.grain_s = grain_s
        self._slots: dict[int, set[Item]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, item: Item, due_s: float) -> None:
        """`item` is due then, unless it is discarded before."""
        slot = int(due_s / self.grain_s)
        items = self._slots.get(slot)
        if items is None:
            self._slots[slot] = {item}
        else:
            items.add(item)

    def discard(self, item: Item, due_s: float) -> None:
        """It is not due any more; `due_s` as it was added. Nothing happens where it is not there."""
        slot = int(due_s / self.grain_s)
        items = self._slots.get(slot)
        if items is not None:
            items.discard(item)
            if not items:
                del self._slots[slot]

    def take_due(self, now_s: float) -> list[Item]:
        """Those of all slots that are over."""
        over = sorted(slot for slot in self._slots if (slot + 1) * self.grain_s <= now_s)
        return [item for slot in over for item in self._slots.pop(slot)]


class Deadlines(Generic[Item]):
    """Calls `expire` with every item `limit_s` after its start, if it is still here then; at least nearly then."""

    def __init__(self, limit_s: float, now: Callable[[], float], expire: Callable[[Item], None]) -> None:
        self.limit_s = limit_s
        self._wheel: Wheel[Item] = Wheel(min(GRAIN_S, limit_s / 10))
        self._now = now
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None

    def add(self, item: Item, start_s: float) -> None:
        """From now on."""
        self._wheel.add(item, start_s + self.limit_s)
        if self._timer is None:
            self._arm()

    def discard(self, item: Item, start_s: float) -> None:
        """It has ended; `start_s` as it was added."""
        self._wheel.discard(item, start_s + self.limit_s)

    def close(self) -> None:
        """Nothing is due any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._wheel.grain_s, self._turn)

    def _turn(self) -> None:
        self._timer = None
        for item in self._wheel.take_due(self._now()):
            try:
                self._expire(item)
            except Exception:  # whatever is wrong with one, the limits of all others must be kept
                LOG.exception("what was due could not be ended")
        if len(self._wheel) and self._timer is None:
            self._arm()
