"""The engine's clock: the one place that asks what time it is.

uvloop's own clock has a resolution of a millisecond and stands still while callbacks run; a step of a few milliseconds
needs better. Its timers have that resolution too, which `pacing` allows for.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Protocol


class Timers(Protocol):
    """What the engine needs of time; a test turns a clock of its own."""

    def time(self) -> float:
        """Seconds on a monotonic clock."""

    def call_at(self, when_s: float, callback: Callable[[], object]) -> None:
        """Call once when the clock shows `when_s`, or as soon as possible after it."""


class LoopClock:
    """`Timers` of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def time(self) -> float:
        """Seconds since some point in the past."""
        return monotonic()

    def call_at(self, when_s: float, callback: Callable[[], object]) -> None:
        """Call from the event loop, up to a millisecond off."""
        self._loop.call_later(max(0.0, when_s - monotonic()), callback)


def wall_s() -> float:
    """Seconds since 1970."""
    return datetime.now(UTC).timestamp()
