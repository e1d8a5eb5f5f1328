"""httpx over connections like those that carry the traffic, at a third of the cost of httpx's own.

The control plane asks in the loop that relays, so what a question costs is time in which nothing is relayed.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial

import httpx

from breakeven.headers import ResponseHead
from breakeven.upstream import Connection, ConnectionPool, NoConnection, Opening

PIECE_BYTES = 64 * 1024
"""A page is handed on in pieces of at most this size: one read may hold 256 KB."""


NO_STREAM = httpx.ByteStream(b"")


class ConnectionRefused(httpx.ConnectError):
    """Nothing listens there."""


class NoDescriptor(httpx.ConnectError):
    """We have none left to ask with."""


NO_CONNECTION: Mapping[NoConnection, type[httpx.ConnectError]] = {
    NoConnection.REFUSED: ConnectionRefused,
    NoConnection.SHORTAGE: NoDescriptor,
    NoConnection.UNREACHABLE: httpx.ConnectError,
}


class Response(httpx.Response):
    """Once closed it leaves nothing to the collector, which comes rarely (`wiring.calm_collector`).

    What httpx makes of its stream holds the response: 30 objects for each question until somebody looks for cycles.
    """

    async def aclose(self) -> None:
        """As inherited, and let go of the stream."""
        await super().aclose()
        self.stream = NO_STREAM


class EngineTransport(httpx.AsyncBaseTransport):
    """Sends each request, body and all, over a connection of its own and closes that with the answer."""

    def __init__(self, connections: ConnectionPool) -> None:
        self._connections = connections
        self._open: set[Answer] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response once its head has come. Raises httpx.ConnectError and httpx.RemoteProtocolError."""
        answer = Answer(_request_head(request), await request.aread(), self._open)
        answer.opening = self._connections.open(answer)
        try:
            head = await answer.head()
            return Response(head.status, headers=head.headers.pairs, stream=answer)
        except BaseException:  # a cancelled question too: nobody else would close its connection
            await answer.aclose()
            raise

    async def aclose(self) -> None:
        """Give up every question that has no whole answer yet."""
        for answer in list(self._open):
            answer.on_lost(stale=False)
            await answer.aclose()


class Answer(httpx.AsyncByteStream):
    """The `upstream.Receiver` of one answer. It is read no faster than it is taken, and among `others` until closed."""

    def __init__(self, head: bytes, body: bytes, others: "set[Answer]") -> None:
        self._others = others
        others.add(self)
        self.opening: Opening | None = None
        self._request = head, body
        self._connection: Connection | None = None
        self._head: ResponseHead | None = None
        self._pieces: deque[bytes] = deque()
        self._ended = False
        # Not yet raised: an exception that was holds all that it came through, this answer among it.
        self._failure: Callable[[], httpx.HTTPError] | None = None
        self._news = asyncio.Event()

    async def head(self) -> ResponseHead:
        """Wait for it."""
        while self._head is None:
            await self._next()
        return self._head

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._pieces:
                data = self._pieces.popleft()
                for start in range(0, len(data), PIECE_BYTES):
                    yield data[start : start + PIECE_BYTES]
            if self._ended:
                return
            if self._connection is not None:
                self._connection.resume()
            await self._next()

    async def aclose(self) -> None:
        """Give up what is still open."""
        self._others.discard(self)
        if self.opening is not None:
            self.opening.drop()
        if self._connection is not None:
            self._connection.drop()
        self.opening = self._connection = None

    async def _next(self) -> None:
        """Wait until something has happened; what went wrong is raised once the rest is taken."""
        if self._failure is not None:
            raise self._failure()
        await self._news.wait()
        self._news.clear()

    # -- Receiver

    def on_connected(self, connection: Connection) -> None:
        """Ask."""
        self.opening = None
        self._connection = connection
        connection.send(*self._request)

    def on_connect_failed(self, why: NoConnection) -> None:
        """Nobody can be asked."""
        self._fail(partial(NO_CONNECTION[why], why.name))

    def on_head(self, head: ResponseHead, body: bytes) -> None:
        """The answer begins."""
        self._head = head
        self._news.set()
        if body:
            self.on_body(body)

    def on_body(self, data: bytes, framed: bytes | None = None, *, last: bool = False) -> None:  # noqa: ARG002
        """Keep it, and read no further before it is taken."""
        if self._connection is not None:
            self._connection.pause()
        self._pieces.append(data)
        self._news.set()

    def on_end(self) -> None:
        """It is complete; the next question has a connection of its own."""
        self._ended = True
        self._news.set()
        if self._connection is not None:
            self._connection.drop()

    def on_lost(self, *, stale: bool) -> None:  # noqa: ARG002  # the connection was a new one
        """It will never be complete."""
        self._fail(partial(httpx.RemoteProtocolError, "no complete answer"))

    def _fail(self, failure: Callable[[], httpx.HTTPError]) -> None:
        self._failure = failure
        self._news.set()


def _request_head(request: httpx.Request) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in request.headers.raw)
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (request.method.encode(), request.url.raw_path, lines)
