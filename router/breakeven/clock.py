"""The only door to time. Everything else takes a clock, or a moment, as an argument."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], float]
"""Seconds, from any origin, never going back."""

monotonic_s: Clock = time.monotonic
"""The clock of the event loop: moments of a request, ages of scrapes. Bound directly, since it is read per event."""


def utc_now() -> datetime:
    """The date, for the access log only: nothing is decided or measured by it."""
    return datetime.now(UTC)
