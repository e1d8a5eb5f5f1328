"""The open connections of clients: counted, sent away when idle for too long, and led out at the end."""

import asyncio

from breakeven import downstream
from breakeven.metrics import Metrics

LAST_CALL_S = 0.05
"""How long connections are still read after the listening has ended: closing one with a request unread resets it."""


class Clients:
    """The open client connections, counted."""

    def __init__(self, metrics: Metrics) -> None:
        self._open: set[downstream.Connection] = set()
        self._metrics = metrics
        self._someone_left = asyncio.Event()
        self._parting = False
        self._leaving = False

    def add(self, client: downstream.Connection) -> None:
        """A client came. One accepted in the moment in which the listening ended may ask once, or is sent away."""
        self._open.add(client)
        self._metrics.client_connections = len(self._open)
        if self._leaving:
            client.drain()
        elif self._parting:
            client.part()

    def discard(self, client: downstream.Connection) -> None:
        """A client left."""
        self._open.discard(client)
        self._metrics.client_connections = len(self._open)
        self._someone_left.set()

    def dismiss(self, since_s: float) -> None:
        """Send those away of whom nothing has been heard since that moment, and who wait for nothing."""
        for client in list(self._open):
            client.leave_if_idle(since_s)

    def part(self) -> None:
        """Tell all, and who comes from now on, to go with their next answer."""
        self._parting = True
        for client in self._open:
            client.part()

    async def leave(self, timeout_s: float, idle_s: float = 0.0) -> bool:
        """Ask all to go when they are done, throw out who stays; whether nobody had to be thrown out.

        Who has nothing to wait for goes at once, or with its next answer where that comes within `idle_s`.
        """
        self.part()
        try:
            await asyncio.sleep(LAST_CALL_S)
            if idle_s:
                await self._gone_within(idle_s)
            self._leaving = True
            for client in list(self._open):
                client.drain()
            return await self._gone_within(timeout_s)
        finally:  # also where whoever waits for this is told not to
            for client in list(self._open):
                client.expire()

    async def _gone_within(self, timeout_s: float) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while self._open:
                    self._someone_left.clear()
                    await self._someone_left.wait()
        except TimeoutError:
            return False
        return True
