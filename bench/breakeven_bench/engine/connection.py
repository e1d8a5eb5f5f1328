"""The listening side: HTTP/1.1 on one TCP connection, as uvicorn speaks it in front of vLLM.

`asyncio.Protocol` and httptools rather than a web framework, because a step of the engine writes one event to every
stream of the batch: an event must cost a join of bytes and a write, not a task that wakes up. Requests on a
connection are served one after the other; what a client pipelines waits. A client that closes, or half-closes, has
left.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, cast

import httptools

KEEP_ALIVE_S = 5.0
"""vLLM's `VLLM_HTTP_TIMEOUT_KEEP_ALIVE`: an idle connection is closed after this."""

BODY_BYTES_MAX = 64 * 1024 * 1024
"""vLLM itself has no limit; this one is twice what a router should accept, and keeps a small machine alive."""

PIPELINED_MAX = 8
"""Requests that may wait behind the one being served before the connection is no longer read."""

JSON = "application/json"
_EVENT_STREAM = b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


@dataclass(slots=True)
class HttpRequest:
    """A complete request; header names are lower case, and the last of several equal ones counts."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool


@dataclass(slots=True)
class HttpServer:
    """What all connections of one server share: who answers, which connections there are, and today's date line.

    `on_empty` is called whenever the last connection is gone.
    """

    handle: Callable[[HttpRequest, "Response"], None]
    connections: set["Connection"] = field(default_factory=set)
    on_empty: Callable[[], None] | None = None
    _date: bytes = b""
    _date_until_s: float = 0.0

    def head(self, status: int, now_s: float) -> bytes:
        """The head of a response up to the headers that differ."""
        if now_s >= self._date_until_s:
            self._date = f"date: {formatdate(usegmt=True)}\r\nserver: uvicorn\r\n".encode()
            self._date_until_s = now_s + 1.0  # the date has a resolution of one second
        return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode() + self._date

    def discard(self, connection: "Connection") -> None:
        """Forget a connection that is gone; tell when it was the last one."""
        self.connections.discard(connection)
        if not self.connections and self.on_empty is not None:
            self.on_empty()

    def close_idle(self) -> None:
        """Close the connections that serve nothing."""
        for connection in list(self.connections):
            connection.close_if_idle()

    def close_when_answered(self) -> None:
        """Close the connections that serve nothing, and each of the others behind its answer, as uvicorn shuts down."""
        for connection in list(self.connections):
            connection.close_when_answered()

    def abort_all(self) -> None:
        """Break every connection, whatever it serves."""
        for connection in list(self.connections):
            connection.abort()


class Response:
    """One response; a `Sink` for generations. `on_gone` and `on_writable` are called until it has ended."""

    __slots__ = ("_connection", "_keep_alive", "ended", "on_gone", "on_writable")

    def __init__(self, connection: "Connection", *, keep_alive: bool) -> None:
        self._connection = connection
        self._keep_alive = keep_alive
        self.ended = False
        self.on_gone: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None

    @property
    def writable(self) -> bool:
        """Whether the client keeps up with what is written."""
        return not self._connection.paused

    def start_stream(self) -> None:
        """Send the head of an event stream."""
        self._connection.write(self._connection.head(200) + self._connection_line() + _EVENT_STREAM)

    def write(self, events: bytes) -> None:
        """Send events as one chunk."""
        self._connection.write(b"%x\r\n%b\r\n" % (len(events), events))

    def end_stream(self, events: bytes) -> None:
        """Send the last events and the end of the body."""
        self._end(b"%x\r\n%b\r\n0\r\n\r\n" % (len(events), events))

    def answer(self, status: int, body: bytes, content_type: str = JSON, extra: str = "") -> None:
        """Send a whole answer; `extra` are further header lines."""
        kind = f"content-type: {content_type}\r\n" if content_type else ""
        lines = f"{kind}{extra}content-length: {len(body)}\r\n\r\n"
        self._end(self._connection.head(status) + self._connection_line() + lines.encode() + body)

    def cut(self) -> None:
        """Break the connection with what was sent so far."""
        self.ended = True
        self._connection.abort()

    def _connection_line(self) -> bytes:
        return b"" if self._keep_alive else b"connection: close\r\n"

    def _end(self, data: bytes) -> None:
        self.ended = True
        self._connection.write(data)
        self._connection.response_ended(keep_alive=self._keep_alive)


class Connection(asyncio.Protocol):
    """One client. The methods named `on_...` are called by httptools.

    Like uvicorn's, it may take its time before its first request; between requests it has `KEEP_ALIVE_S`.
    """

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self.paused = False
        self._server = server
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: Any = httptools.HttpRequestParser(self)
        self._response: Response | None = None
        self._is_last_answer = False
        self._pipelined: deque[HttpRequest] = deque()
        self._idle: asyncio.TimerHandle | None = None
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # however it ended, the client has left
        """The connection is gone; an unfinished response is told."""
        self._server.discard(self)
        self._transport = None
        self._pipelined.clear()
        self._stop_waiting()
        response, self._response = self._response, None
        if response is not None and not response.ended:
            response.ended = True
            if response.on_gone is not None:
                response.on_gone()

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        self._stop_waiting()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._refuse(400, "Unsupported upgrade request.")
        except httptools.HttpParserError:
            self._refuse(400, "Invalid HTTP request received.")

    def pause_writing(self) -> None:
        """The client reads more slowly than it is written to."""
        self.paused = True

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.paused = False
        response = self._response
        if response is not None and not response.ended and response.on_writable is not None:
            response.on_writable()

    def head(self, status: int) -> bytes:
        """The beginning of a response head."""
        return self._server.head(status, self._loop.time())

    def write(self, data: bytes) -> None:
        """Write, unless the client has left."""
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        """Break the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def close_if_idle(self) -> None:
        """Close the connection where it serves nothing."""
        if self._response is None and self._transport is not None:
            self._transport.close()

    def close_when_answered(self) -> None:
        """Close the connection now, or behind the answer that it is giving; what the client pipelined is dropped."""
        self._is_last_answer = True
        self.close_if_idle()

    def response_ended(self, *, keep_alive: bool) -> None:
        """Go on with what the client pipelined, or wait for its next request."""
        self._response = None
        if self._transport is None:
            return
        if not keep_alive or self._is_last_answer:
            self._transport.close()
        elif self._pipelined:
            self._loop.call_soon(self._serve_next)
        else:
            self._wait_idle()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._url = b""
        self._headers = {}
        self._body = []
        self._body_bytes = 0

    def on_url(self, url: bytes) -> None:
        """A part of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """The head is complete; a client that waits for permission to send its body gets it."""
        if self._headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self._body_bytes += len(data)
        if self._body_bytes > BODY_BYTES_MAX:
            self._body = []
            self._refuse(413, "Request body too large.")
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """The request is complete: serve it, or let it wait behind the one being served."""
        if self._transport is None or self._transport.is_closing():
            return
        path = self._url.split(b"?", 1)[0].decode("latin-1")
        method = self._parser.get_method().decode("latin-1")
        keep_alive = self._parser.should_keep_alive()
        request = HttpRequest(method, path, self._headers, b"".join(self._body), keep_alive)
        self._body = []
        if self._response is None and not self._pipelined:
            self._serve(request)
            return
        self._pipelined.append(request)
        if len(self._pipelined) >= PIPELINED_MAX:
            self._transport.pause_reading()

    def _serve(self, request: HttpRequest) -> None:
        self._response = response = Response(self, keep_alive=request.keep_alive)
        self._server.handle(request, response)

    def _serve_next(self) -> None:
        if self._transport is not None and self._pipelined and self._response is None:
            self._transport.resume_reading()
            self._serve(self._pipelined.popleft())

    def _refuse(self, status: int, message: str) -> None:
        """Answer what is no request that could be served, and close."""
        if self._transport is None or self._transport.is_closing():
            return
        text = message.encode()
        lines = f"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: {len(text)}\r\n\r\n"
        self.write(self.head(status) + lines.encode() + text)
        self._transport.close()

    def _wait_idle(self) -> None:
        self._stop_waiting()
        self._idle = self._loop.call_later(KEEP_ALIVE_S, self.close_if_idle)

    def _stop_waiting(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
