"""The listening sockets of the router: every client that waits is accepted in one turn of the loop.

libuv accepts one per turn, and on a busy loop a turn takes milliseconds: of 500 clients that came at once, the last
waited half a second and more for its first event (p99 of six rounds: 360 to 910 ms, with this 160 to 370). So
whenever the loop has accepted one, the others that wait are taken as well. For a client that comes alone it is one
`poll` more: 66 µs became 72, of the process and before the first byte is read.
"""

import asyncio
import os
import select
import socket
from collections.abc import Callable

BACKLOG = 4096
"""Connections that the kernel holds for us between two turns of the loop; a burst of clients is not an error."""

TAKEN_MAX = 64
"""Connections taken in one turn beside the loop's own, 30 µs each: streams that are being relayed wait so long."""


class Listener:
    """Makes a protocol for every client by `connection`, from `open` until `close`."""

    def __init__(self, connection: Callable[[], asyncio.Protocol]) -> None:
        self._connection = connection
        self._server: asyncio.Server | None = None
        self._sockets: dict[int, socket.socket] = {}
        self._waiting = select.poll()
        self._taking: set[asyncio.Task[object]] = set()

    async def open(self, host: str, port: int) -> int:
        """Accept clients from now on; the port that was bound. OSError where it cannot be."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accepted, host, port, backlog=BACKLOG)
        for listening in self._server.sockets:
            own = socket.socket(fileno=os.dup(listening.fileno()))
            own.setblocking(False)
            self._sockets[own.fileno()] = own
            self._waiting.register(own, select.POLLIN)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Accept no more; what was accepted goes on."""
        if self._server is not None:
            self._server.close()
            self._server = None
        while self._sockets:
            _, own = self._sockets.popitem()
            self._waiting.unregister(own)
            own.close()

    def _accepted(self) -> asyncio.Protocol:
        """The loop has accepted one."""
        for descriptor, _ in self._waiting.poll(0):  # an accept that finds nobody raises, at three times the cost
            self._take(self._sockets[descriptor])
        return self._connection()

    def _take(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(TAKEN_MAX):
            try:
                accepted, _address = listening.accept()
            except OSError:
                return  # nobody waits; anything else the loop meets, and reports, at its own next accept
            task = loop.create_task(loop.connect_accepted_socket(self._connection, accepted))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)
