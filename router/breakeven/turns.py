"""Work on one request that is too long for one turn of the loop: a step in each, and the others get theirs in between.

A body of 21 MB takes 9 ms to decode, 40 more to check that its Chinese is UTF-8, and 25 to rename its model; packed, as
much again to unpack. In one turn that would delay the tokens of every stream.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from breakeven.errors import ApiError, shutting_down

LOG = logging.getLogger(__name__)

AT_ONCE_MAX = 2**20
"""Bytes of a body that are viewed in the turn in which they came: 3 ms at most."""


class InTurns:
    """A `Responder` while the steps last; the last of them hands the client on.

    `refuse` hears an ApiError of a step, or that the router stops; `abandon`, that nobody waits any more; `fail`, that
    a step ended in a fault of the router.
    """

    def __init__(
        self,
        steps: Iterator[None],
        refuse: Callable[[ApiError], None],
        abandon: Callable[[], None],
        fail: Callable[["InTurns"], None],
    ) -> None:
        self._steps = steps
        self._refuse = refuse
        self._abandon = abandon
        self._fail = fail
        self._over = False

    def step(self) -> None:
        """One step; the next in the next turn."""
        if self._over:
            return
        try:
            for _ in self._steps:
                asyncio.get_running_loop().call_soon(self.step)
                return
        except ApiError as error:
            self._over = True
            self._refuse(error)
        except Exception:  # a client whose body nobody works at any more would wait for ever
            LOG.exception("a body could not be prepared")
            self._over = True
            self._fail(self)

    def on_client_gone(self) -> None:
        """Nobody waits for it."""
        self._over = True
        self._abandon()

    def on_client_slow(self) -> None:
        """Nothing is being written yet."""

    def on_client_reading(self) -> None:
        """Nothing is being written yet."""

    def on_expired(self) -> None:
        """The router stops."""
        self._over = True
        self._refuse(shutting_down())
