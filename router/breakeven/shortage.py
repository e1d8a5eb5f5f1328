"""Our own want of descriptors or memory: no engine's fault and no client's. Counted each time, said once in a while."""

import errno
import logging
import os
from collections.abc import Callable
from enum import StrEnum

LOG = logging.getLogger(__name__)

OURS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""The errors that say that this process or this machine has none left."""

SAID_AGAIN_S = 60.0
"""A router without descriptors fails hundreds of times a second; one line a minute tells that it goes on."""


class Side(StrEnum):
    """Where a socket could not be had."""

    CLIENTS = "clients"
    ENGINES = "engines"


def is_shortage(error: OSError) -> bool:
    """Whether a socket failed for want of our own. Of a name's several addresses the loop may give texts only."""
    return error.errno in OURS or any(f"[Errno {number}]" in str(error) for number in OURS)


class Shortages:
    """Hears of every shortage; `count` is told the side."""

    def __init__(self, count: Callable[[Side], None], now: Callable[[], float]) -> None:
        self._count = count
        self._now = now
        self._said_s: dict[Side, float] = {}

    def tell(self, side: Side, error: OSError) -> None:
        """A socket could not be had."""
        self._count(side)
        now_s = self._now()
        if now_s - self._said_s.get(side, -SAID_AGAIN_S) < SAID_AGAIN_S:
            return
        self._said_s[side] = now_s
        why = os.strerror(error.errno) if error.errno in OURS else "too many open files"
        consequence = "clients are turned away" if side is Side.CLIENTS else "engines cannot be reached"
        LOG.error("%s: %s (see ulimit -n; each streaming request needs two)", consequence, why.lower())
