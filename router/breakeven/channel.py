"""The socket between a supervisor and one of its workers, as messages (`worker_messages`)."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import cast

from breakeven.worker_messages import Message, Reader, encode

LOG = logging.getLogger(__name__)


class Channel(asyncio.Protocol):
    """One end. `hear` takes each message; `on_closed` is called when the other process is gone."""

    def __init__(self, hear: Callable[[Message], None], on_closed: Callable[[], None]) -> None:
        self._hear = hear
        self._on_closed = on_closed
        self._reader = Reader()
        self._transport: asyncio.Transport | None = None

    async def open(self, end: socket.socket) -> None:
        """Take over one end of a socket pair."""
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)

    def send(self, message: Message) -> None:
        """Send a message, unless the other process is gone."""
        if self._transport is not None:
            self._transport.write(encode(message))

    @property
    def unsent_bytes(self) -> int:
        """What the other process has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Send what is unsent and close this end."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The end is ours."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Messages, or parts of them."""
        for message in self._reader.feed(data):
            self._hear(message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # why makes no difference
        """The other process has closed its end, or is dead."""
        self._transport = None
        self._on_closed()
