"""What an engine says, byte by byte: the writing side of one connection, and the scripts that most tests need."""

import asyncio
import hashlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

Headers = Sequence[tuple[str, str]]
JSON_TYPE: Headers = (("Content-Type", "application/json"),)
SSE_TYPE: Headers = (("Content-Type", "text/event-stream; charset=utf-8"),)
LAST_CHUNK = b"0\r\n\r\n"
PATIENCE_S = 15.0
"""How long a test waits for what must happen: the machine is shared, and a miss here means never."""

ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }
).encode()


@dataclass(slots=True)
class Seen:
    """One request as it reached the engine; `closed_s` is when its socket was closed from the other side.

    `reused` tells that its connection had carried another request before.

    A script that must not go on before the test says so awaits `go`.
    """

    method: str
    target: str
    headers: list[tuple[str, str]]
    arrived_s: float
    reused: bool = False
    body: bytes = b""
    raw: bytes = b""
    closed_s: float | None = None
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def sha256(self) -> str:
        """Digest of the body after the transfer coding was taken off."""
        return hashlib.sha256(self.body).hexdigest()

    def values(self, name: str) -> list[str]:
        """Every value of the header, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    async def left(self) -> float:
        """Wait until the other side has closed the socket; the time at which it did."""
        await asyncio.wait_for(self.closed.wait(), PATIENCE_S)
        assert self.closed_s is not None
        return self.closed_s


class Link:
    """The writing side of one connection, for the length of one request."""

    def __init__(self, transport: asyncio.Transport, seen: Seen) -> None:
        self.transport = transport
        self.seen = seen

    async def raw(self, data: bytes) -> None:
        """Write these bytes and let them leave before the next write."""
        self.transport.write(data)
        await asyncio.sleep(0)

    async def head(self, status: int = 200, headers: Headers = SSE_TYPE, *, chunked: bool = True) -> None:
        """Write a response head; without `chunked` the framing is whatever `headers` say."""
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers)]
        lines += ["Transfer-Encoding: chunked"] if chunked else []
        await self.raw("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def chunk(self, data: bytes) -> None:
        """Write one chunk."""
        await self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """Write the last chunk."""
        await self.raw(LAST_CHUNK)

    def reset(self) -> None:
        """Break the connection with RST; what is still unsent is lost."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def fin(self) -> None:
        """Close the connection in order, after what was written."""
        self.transport.close()


Script = Callable[[Link], Awaitable[None]]


def answers(body: bytes = ANSWER, status: int = 200, headers: Headers = JSON_TYPE) -> Script:
    """A whole answer with Content-Length."""

    async def script(link: Link) -> None:
        length = [("Content-Length", str(len(body)))]
        await link.head(status, [*headers, *length], chunked=False)
        await link.raw(body)

    return script


def streams(pieces: Iterable[bytes], headers: Headers = SSE_TYPE, status: int = 200) -> Script:
    """A chunked answer, one chunk and one write for each piece."""
    fixed = list(pieces)

    async def script(link: Link) -> None:
        await link.head(status, headers)
        for piece in fixed:
            await link.chunk(piece)
        await link.end()

    return script


async def hangs(link: Link) -> None:
    """Take the request and never say a word."""
    await link.seen.closed.wait()
