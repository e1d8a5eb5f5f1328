"""The least that a proxy in Python can do: bytes go on unread, and nothing is known, decided, counted or mended.

    python -m breakeven_bench.overhead.bare ENGINE_PORT

What another proxy on this event loop costs beyond it is what it does for that.
"""

import asyncio
import sys
from typing import cast

import uvloop

BACKLOG = 4096


class Upstream(asyncio.Protocol):
    """The engine's side of one client."""

    __slots__ = ("_client", "transport")

    def __init__(self, client: "Downstream") -> None:
        self._client = client
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands: send what the client has said meanwhile."""
        self.transport = cast("asyncio.Transport", transport)
        self._client.connected(self)

    def data_received(self, data: bytes) -> None:
        """On to the client."""
        if self._client.transport is not None:
            self._client.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # gone is gone
        """Neither side outlives the other."""
        self.transport = None
        if self._client.transport is not None:
            self._client.transport.close()


class Downstream(asyncio.Protocol):
    """One client."""

    __slots__ = ("_connecting", "_engine_port", "_said", "_upstream", "transport")

    def __init__(self, engine_port: int) -> None:
        self._engine_port = engine_port
        self._said = b""
        self._upstream: Upstream | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection of its own for every client."""
        self.transport = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self._connecting = loop.create_task(
            loop.create_connection(lambda: Upstream(self), "127.0.0.1", self._engine_port)
        )

    def connected(self, upstream: Upstream) -> None:
        """The engine is there."""
        self._upstream = upstream
        if self._said and upstream.transport is not None:
            upstream.transport.write(self._said)

    def data_received(self, data: bytes) -> None:
        """On to the engine."""
        if self._upstream is None:
            self._said += data
        elif self._upstream.transport is not None:
            self._upstream.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # gone is gone
        """Neither side outlives the other."""
        self.transport = None
        if self._upstream is not None and self._upstream.transport is not None:
            self._upstream.transport.close()


async def serve(engine_port: int) -> None:
    """Relay from a free port until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Downstream(engine_port), "127.0.0.1", 0, backlog=BACKLOG)
    print(f"ready on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
