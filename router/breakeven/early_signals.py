"""Signals that come before the router can act on them wait until it can; by default each of them would end it.

Most of a start is importing, so this comes before that: a SIGHUP in the first second is a reload in the second one.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

HELD = frozenset((signal.SIGHUP, signal.SIGUSR2))
"""Those that ask a router for something. SIGTERM and SIGINT end it, which they may do at once."""


@contextmanager
def held() -> Iterator[None]:
    """Have them wait; at the latest at the end of the block they come through."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_through() -> None:
    """Somebody hears them now."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)


def left_to_supervisor() -> None:
    """What a terminal, or a person, sends to all processes of a router is for the first one: a worker hears none."""
    for number in (signal.SIGINT, *HELD):
        signal.signal(number, signal.SIG_IGN)
