"""The listening sockets of the router: with each client that the loop accepts, up to `TAKEN_MAX` others are taken.

libuv accepts one per turn of the loop, and on a busy loop a turn takes milliseconds: where 500 clients come at once,
the p99 of the time to the first event is 660 ms that way (370 to 1,010 in nine interleaved rounds) and 340 ms so (240
to 620). A client that comes alone costs one `poll` more: 9 µs on top of 66, before its first byte is read.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Callable

from breakeven.keepalive import watch_clients

BACKLOG = 4096
"""Connections that the kernel holds for us between two turns of the loop; a burst of clients is not an error."""

TAKEN_MAX = 64
"""30 µs each, so that streams which are being relayed wait 2 ms at most."""


class Listener:
    """Makes a protocol for every client by `connection`, from `open` until `close`.

    `on_shortage` hears why clients that wait cannot be accepted.
    """

    def __init__(
        self,
        connection: Callable[[], asyncio.Protocol],
        on_shortage: Callable[[OSError], None],
        tls: ssl.SSLContext | None = None,
        handshake_timeout_s: float | None = None,
    ) -> None:
        self._tls = tls
        self._handshake_timeout_s = None if tls is None else handshake_timeout_s
        self._connection = connection
        self._on_shortage = on_shortage
        self._servers: list[asyncio.Server] = []
        self._sockets: dict[int, socket.socket] = {}
        self._waiting = select.poll()
        self._taking: set[asyncio.Task[object]] = set()

    @property
    def sockets(self) -> list[socket.socket]:
        """Where it listens."""
        return list(self._sockets.values())

    async def open(self, bound: list[socket.socket]) -> int:
        """Accept clients at bound sockets from now on; their port. OSError where it cannot be.

        They are closed with this listener. Where another process has them too, who waits there is its client then.
        """
        at: int = bound[0].getsockname()[1]
        try:
            for listening in bound:
                await self._listen(listening)
        except OSError:
            self.close()
            for listening in bound:
                listening.close()
            raise
        return at

    async def _listen(self, listening: socket.socket) -> None:
        listening.listen(BACKLOG)  # uvloop says nothing where this fails
        own = listening.dup()
        own.setblocking(False)
        watch_clients(own)
        self._sockets[own.fileno()] = own
        self._waiting.register(own, select.POLLIN)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            self._accepted,
            sock=listening,
            backlog=BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=self._handshake_timeout_s,
        )
        self._servers.append(server)

    def close(self) -> None:
        """Accept no more; what was accepted goes on, and who waits is taken first: closing the socket resets those."""
        while self._servers:
            self._servers.pop().close()
        while self._sockets:
            _, own = self._sockets.popitem()
            self._take(own, BACKLOG)
            self._waiting.unregister(own)
            own.close()

    def _accepted(self) -> asyncio.Protocol:
        """The loop has accepted one. Nothing here may raise: libuv would never accept again."""
        left = TAKEN_MAX
        for descriptor, _ in self._waiting.poll(0):  # an accept that finds nobody raises, at three times the cost
            left = self._take(self._sockets[descriptor], left)
        return self._connection()

    def _take(self, listening: socket.socket, most: int) -> int:
        """Take those who wait at one socket; how many more may be taken."""
        loop = asyncio.get_running_loop()
        while most:
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                break  # nobody waits, or who waited is gone
            except OSError as error:  # the loop closes them without a word
                self._on_shortage(error)
                break
            most -= 1
            connecting = loop.connect_accepted_socket(
                self._connection, accepted, ssl=self._tls, ssl_handshake_timeout=self._handshake_timeout_s
            )
            task = loop.create_task(connecting)
            self._taking.add(task)
            task.add_done_callback(self._taken)
        return most

    def _taken(self, task: asyncio.Task[object]) -> None:
        """A client that does not speak TLS, or not in time, is closed by the loop; nobody else need hear of it."""
        self._taking.discard(task)
        if not task.cancelled():
            task.exception()
