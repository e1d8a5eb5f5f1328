"""A raw HTTP/1.1 client: sends the very bytes it is told, remembers when each piece of an answer came, leaves rudely.

h11 reads the answers, so that an ill-framed one is a failure and an unfinished one is seen as unfinished.
"""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import h11

CHAT = "/v1/chat/completions"
HI: Any = [{"role": "user", "content": "hi"}]
JSON = (("Content-Type", "application/json"),)
PATIENCE_S = 15.0
READ_BYTES = 1 << 16


def body(**fields: Any) -> bytes:
    """The default request's body with further fields; a field that is `...` is left out."""
    merged = {"model": "m", "messages": HI, **fields}
    return json.dumps({name: value for name, value in merged.items() if value is not ...}).encode()


def raw_body(members: str, model: str = '"m"') -> bytes:
    """The default request's body with further members written as they are."""
    tail = f",{members}" if members else ""
    return f'{{"model":{model},"messages":[{{"role":"user","content":"hi"}}]{tail}}}'.encode()


def request(
    content: bytes | None = None,
    *,
    method: str = "POST",
    path: str = CHAT,
    headers: Sequence[tuple[str, str]] = JSON,
    host: str = "router.test",
) -> bytes:
    """The bytes of one request; with `content`, Content-Length is right."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers)]
    lines += [f"Content-Length: {len(content)}"] if content is not None else []
    return "\r\n".join([*lines, "", ""]).encode("utf-8") + (content or b"")


def chunked(pieces: Iterable[bytes]) -> bytes:
    """A chunked body, complete."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@dataclass(slots=True)
class Reply:
    """An answer as far as it has come. `complete`: its framing says so; `closed`: the connection ended meanwhile."""

    status: int | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    raw: bytes = b""
    complete: bool = False
    closed: bool = False
    arrivals: list[tuple[float, int]] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        """Every value of the header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def __getitem__(self, name: str) -> str:
        values = self.values(name)
        assert len(values) == 1, f"{name}: {values} in {self.headers}"
        return values[0]

    def json(self) -> Any:
        """The decoded body."""
        return json.loads(self.body)

    def when(self, size: int) -> float:
        """The time at which so many bytes of the body had come."""
        return next(at_s for at_s, have in self.arrivals if have >= size)


def refused(reply: Reply, status: int, param: str | None = None) -> dict[str, Any]:
    """The error object of an answer in OpenAI's shape."""
    assert (reply.status, reply["Content-Type"], reply.complete) == (status, "application/json", True), reply.raw
    assert reply.values("x-request-id")
    error = reply.json()["error"]
    assert {type(error["message"]), type(error["type"])} == {str}
    assert error["type"] not in {"None", ""}
    assert isinstance(error["code"], str)
    assert error["param"] == param
    for word in ("Traceback", "File ", "breakeven/", "127.0.0.1", "Error:"):
        assert word not in error["message"]
    return dict(error)


class Client:
    """One connection to the router."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.reply = Reply()
        self.patience_s = PATIENCE_S
        self._parser = _parser("POST")

    @classmethod
    async def connect(cls, port: int) -> Self:
        """Open a connection."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def send(self, data: bytes, method: str | None = None) -> None:
        """Write these bytes. With `method`, they start a request and `reply` starts anew."""
        if method is not None:
            self.reply = Reply()
            self._parser = _parser(method)
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, content: bytes | None, *, method: str = "POST", **how: Any) -> Reply:
        """One whole exchange."""
        await self.send(request(content, method=method, **how), method)
        return await self.end()

    async def head(self) -> Reply:
        """Wait for the response head."""
        return await self._until(lambda reply: reply.status is not None)

    async def has(self, mark: bytes) -> Reply:
        """Wait until the body holds `mark`."""
        return await self._until(lambda reply: mark in reply.body)

    async def end(self) -> Reply:
        """Wait for the end of the answer, proper or not."""
        return await self._until(lambda _: False)

    async def hung_up(self) -> None:
        """Wait until the router closes the connection."""
        async with asyncio.timeout(self.patience_s):
            while await _read(self.reader):
                pass

    def fin(self) -> None:
        """Close both directions in order."""
        self.writer.close()

    def half_close(self) -> None:
        """Close the sending direction only."""
        self.writer.write_eof()

    def reset(self) -> None:
        """Break the connection with RST."""
        linger = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def _until(self, enough: Any) -> Reply:
        reply = self.reply
        async with asyncio.timeout(self.patience_s):
            while not (reply.complete or reply.closed or enough(reply)):
                data = await _read(self.reader)
                self._take(data)
        return reply

    def _take(self, data: bytes) -> None:
        reply = self.reply
        reply.raw += data
        reply.closed = not data
        try:
            self._parser.receive_data(data)
            while not isinstance(event := self._parser.next_event(), type) or event is not h11.NEED_DATA:
                if isinstance(event, h11.Response):
                    reply.status = event.status_code
                    reply.headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in event.headers.raw_items()]
                elif isinstance(event, h11.Data):
                    reply.body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    reply.complete = True
                    break
                elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    break
        except h11.RemoteProtocolError:
            assert not data, f"ill-framed answer: {reply.raw[-300:]!r}"
        reply.arrivals.append((time.monotonic(), len(reply.body)))


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(READ_BYTES)
    except ConnectionResetError:
        return b""


def _parser(method: str) -> h11.Connection:
    """h11 in the state after that request was sent; what h11 would have sent is thrown away."""
    parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    return parser
