"""An engine that answers what a test tells it to, over a real socket: one request per connection, nothing clever."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


def says(status: int, body: bytes = b"", *headers: bytes) -> Answer:
    """A whole answer at once."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        lines = [b"HTTP/1.1 %d Scripted" % status, b"content-length: %d" % len(body), *headers, b"", body]
        writer.write(b"\r\n".join(lines))

    return answer


def sends(data: bytes) -> Answer:
    """Raw bytes, then the connection is closed."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)

    return answer


async def never(_: asyncio.StreamWriter) -> None:
    """No answer for as long as the client waits."""
    await asyncio.Event().wait()


async def drips(writer: asyncio.StreamWriter) -> None:
    """A byte every 10 ms, for ever: each read succeeds, the whole never does."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"#")
        await asyncio.sleep(0.01)


@dataclass
class ScriptedEngine:
    """`answers` by path may be changed at any time; `heads` are the request heads as they came; `left` is set when a
    client went away before its answer was complete.
    """

    answers: dict[str, Answer]
    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    asked: asyncio.Condition = field(default_factory=asyncio.Condition)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def times_asked(self, path: str) -> int:
        """How many requests there were for the path."""
        return sum(head.split(b" ", 2)[1] == path.encode() for head in self.heads)

    async def until_asked(self, path: str, times: int) -> None:
        """Wait for the request."""
        async with self.asked:
            await self.asked.wait_for(lambda: self.times_asked(path) >= times)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(_body_bytes(head))
            async with self.asked:
                self.heads.append(head)
                self.asked.notify_all()
            path = head.split(b" ", 2)[1].decode()
            await self._answer(self.answers.get(path, says(404)), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client left first; some tests want that.
        finally:
            writer.close()

    async def _answer(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer for as long as the client is there."""
        answering = asyncio.ensure_future(answer(writer))
        leaving = asyncio.ensure_future(reader.read())
        try:
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                await writer.drain()
            else:
                self.left.set()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)


def _body_bytes(head: bytes) -> int:
    """The declared length of a request's body."""
    headers = head.lower().split(b"\r\n")
    return next((int(line.partition(b":")[2]) for line in headers if line.startswith(b"content-length:")), 0)


@asynccontextmanager
async def scripted_engine(**answers: Answer) -> AsyncIterator[ScriptedEngine]:
    """A running engine; the keys of `answers` are paths with _ for /: v1_models is /v1/models."""
    engine = ScriptedEngine({"/" + name.replace("_", "/"): answer for name, answer in answers.items()})
    server = await asyncio.start_server(engine.serve, "127.0.0.1", 0)
    engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engine
    finally:
        server.close()
        await server.wait_closed()


async def free_port() -> int:
    """A port on which nothing listens."""
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port
