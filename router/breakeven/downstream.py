"""The listening side: takes requests one at a time, writes responses, notices at once when a client leaves.

A complete request goes to the `Handler`; what a client pipelines waits its turn. The handler answers through the
connection (`respond`, or `start`, `write`, `finish`) and may `attach` a `Responder`, which hears that the client is
gone, is slow, or reads again. End of input is a departure at any time: asyncio cannot tell a closed socket from a
half-closed one, and an engine that works for nobody costs more than a client that wanted to half-close.

What cannot be read (bad framing, too long, too slow) is answered in its turn and closes the connection.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Protocol, cast

from breakeven.chunks import LAST_CHUNK
from breakeven.errors import invalid_request
from breakeven.headers import response_head
from breakeven.recent_heads import RecentHeads
from breakeven.request_reader import READ_AHEAD_MAX, BadRequest, Limits, Request, RequestReader

FIRST_WORD_S = 1.0
"""How long a new client has to ask where the router ends: clients expect the end of a connection that they have used,
and ask again on another one; of one that they have just opened they do not.
"""

LINGER_S = 2.0
"""How long unread input is thrown away after a refusal, so that the client reads the answer before it sees a reset."""

PIPELINED_BYTES_MAX = 2**20
"""Bytes of the bodies of requests that wait for their turn."""

CORK_BYTES = 16 * 1024
"""Larger pieces are written beside their framing instead of being copied into it."""

PHRASES = {
    200: b"OK", 204: b"No Content", 400: b"Bad Request", 401: b"Unauthorized", 404: b"Not Found",
    405: b"Method Not Allowed", 408: b"Request Timeout", 413: b"Content Too Large", 415: b"Unsupported Media Type",
    431: b"Request Header Fields Too Large", 500: b"Internal Server Error", 501: b"Not Implemented",
    502: b"Bad Gateway", 503: b"Service Unavailable", 504: b"Gateway Timeout",
}  # fmt: skip
"""Reason phrases of the router's own answers (RFC 9110, section 15)."""


class Responder(Protocol):
    """Who is answering the current request of a connection."""

    def on_client_gone(self) -> None:
        """The client left; nothing can be written any more."""

    def on_client_slow(self) -> None:
        """The write buffer is full: stop producing."""

    def on_client_reading(self) -> None:
        """The write buffer has drained: go on."""

    def on_expired(self) -> None:
        """The router stops: say so and end."""


class Handler(Protocol):
    """Takes requests, in the order in which each client sent them."""

    def on_request(self, request: Request, client: "Connection") -> None:
        """Answer the request through `client`, now or later."""

    def on_bad_request(self, bad: BadRequest, client: "Connection") -> None:
        """Answer what could not be read; the connection closes afterwards."""


class Register(Protocol):
    """Who knows which connections are open; a set will do."""

    def add(self, client: "Connection", /) -> None:
        """A client came."""

    def discard(self, client: "Connection", /) -> None:
        """A client left."""


class Connection(asyncio.Protocol):
    """One client's socket. At most one request is being answered (`_busy`); reading pauses while another one waits."""

    __slots__ = (
        "_bodiless", "_busy", "_chunked", "_chunked_answers", "_connections", "_draining", "_ends_with_close", "_full",
        "_handler", "_held", "_idle_since_s", "_keep_alive", "_limits", "_now", "_parting", "_paused", "_reader",
        "_responder", "_timer", "_transport",
    )  # fmt: skip

    def __init__(
        self,
        handler: Handler,
        limits: Limits,
        connections: Register,
        now: Callable[[], float],
        recent: RecentHeads[Request],
    ) -> None:
        self._handler = handler
        self._limits = limits
        self._connections = connections
        self._now = now
        self._transport: asyncio.Transport | None = None
        self._reader = RequestReader(limits, recent)
        self._responder: Responder | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._idle_since_s = now()
        self._paused = False
        self._full = False
        self._parting = False
        self._draining = False
        # The response being written.
        self._keep_alive = True
        self._chunked_answers = True
        self._chunked = False
        self._held = b""
        self._bodiless = False
        self._ends_with_close = False

    # -- for the handler

    def attach(self, responder: Responder) -> None:
        """Name who hears of the client until the response is finished."""
        self._responder = responder
        if self._full:
            responder.on_client_slow()

    def respond(self, status: int, lines: bytes, body: bytes) -> None:
        """Write a whole response of the router's own; each header line has its line end."""
        self.start(status, PHRASES[status], lines, len(body), body)
        self.finish()

    def start(self, status: int, phrase: bytes, lines: bytes, body_bytes: int | None, first: bytes = b"") -> None:
        """Write a head, and the first piece of the body with it: one system call less.

        `body_bytes` None: of unknown length, chunked where the client understands that.
        """
        self._bodiless = self._bodiless or status in (204, 304)
        self._chunked = body_bytes is None and self._chunked_answers and not self._bodiless
        self._ends_with_close = body_bytes is None and not self._chunked and not self._bodiless
        if self._parting or self._ends_with_close:
            self._keep_alive = False
        if not self._keep_alive:
            lines += b"connection: close\r\n"
        if self._chunked:
            lines += b"transfer-encoding: chunked\r\n"
        elif body_bytes is not None and status != 204:
            lines += b"content-length: %d\r\n" % body_bytes
        if self._transport is None:
            return
        head = response_head(status, phrase, lines)
        if not first or self._bodiless:
            self._transport.write(head)
        elif len(first) > CORK_BYTES:
            self._transport.write(head)
            self.write(first)
        elif self._chunked:
            self._transport.write(b"%b%x\r\n%b\r\n" % (head, len(first), first))
        else:
            self._transport.write(head + first)

    def write(self, data: bytes, framed: bytes | None = None) -> None:
        """Write a piece of the body; `framed` is the same as a chunk, where it came as one."""
        if self._transport is None or self._bodiless:
            return
        if not self._chunked:
            self._transport.write(data)
        elif framed is not None:
            self._transport.write(framed)
        elif len(data) <= CORK_BYTES:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._transport.writelines((b"%x\r\n" % len(data), data, b"\r\n"))

    def hold(self, data: bytes, framed: bytes | None = None) -> None:
        """The same for a piece that the end follows at once, so that both are written together: a system call less."""
        if len(data) > CORK_BYTES or not self._chunked or self._bodiless:
            self._let_go()
            self.write(data, framed)
        else:
            self._held += framed or b"%x\r\n%b\r\n" % (len(data), data)

    def finish(self, data: bytes = b"") -> None:
        """Write the last piece, end the response, and turn to the next request."""
        if data:
            self.hold(data)
        if self._transport is None:
            return
        if self._chunked:
            self._transport.write(self._held + LAST_CHUNK)
            self._held = b""
        self._responder = None
        if not self._keep_alive:
            self._close_politely()
        elif not self._full:  # else once the client has read what it was sent: its answers must not pile up here
            self._turn()

    def cut(self) -> None:
        """Close in the middle of a response, so that the client sees that it is not whole."""
        self._responder = None
        self._reader.release()
        if self._transport is None:
            return
        self._let_go()
        if self._ends_with_close:
            # Where the end of the connection is the end of the answer, only a reset says that this is not it.
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; who is answering hears that the client is gone."""
        if self._transport is not None:
            self._transport.abort()

    def is_answered_by(self, responder: Responder) -> bool:
        """Whether nobody else has taken over since."""
        return self._responder is responder

    def close_after(self) -> None:
        """Close once the response being written is finished."""
        self._keep_alive = False

    def part(self) -> None:
        """The next answer that begins is the last one and says so. Until then the client may ask: none is cut off."""
        self._parting = True

    def drain(self) -> None:
        """Close as soon as nothing is being read or answered, and who has just come has had the time to ask."""
        self._parting = self._draining = True
        if self._busy or self._reader.reading or self._transport is None:
            return
        has_spoken = self._reader.heard_s > 0.0
        if has_spoken or self._idle_since_s + FIRST_WORD_S <= self._now():
            self._transport.close()
        else:
            asyncio.get_running_loop().call_later(FIRST_WORD_S, self.drain)

    def leave_if_idle(self, since_s: float) -> None:
        """Close where nothing has been asked or answered since that moment."""
        idle = self._idle_since_s <= since_s and not self._busy and not self._reader.reading
        if idle and self._transport is not None:
            self._transport.close()

    def expire(self) -> None:
        """The time to drain is over: cut what is being answered, and close."""
        if self._responder is not None:
            self._responder.on_expired()
        if self._transport is not None:
            self._transport.close()

    # -- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client came."""
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def data_received(self, data: bytes) -> None:
        """Read; the first complete request is handled at once, a second one stops the reading."""
        reader = self._reader
        reader.feed(data, self._now())
        if reader.ready and not self._busy:
            self._next()
        if reader.ready and (
            reader.held or len(reader.ready) >= READ_AHEAD_MAX or reader.ready_bytes > PIPELINED_BYTES_MAX
        ):
            self._pause_reading()
        if reader.reading:
            self._watch_reading()

    def eof_received(self) -> bool:
        """End of input is a departure."""
        self._gone()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # reset or closed: gone is gone
        """The socket is closed."""
        self._transport = None
        self._connections.discard(self)
        self._gone()

    def pause_writing(self) -> None:
        """The client reads more slowly than the engine writes."""
        self._full = True
        if self._responder is not None:
            self._responder.on_client_slow()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._full = False
        if self._responder is not None:
            self._responder.on_client_reading()
        elif self._busy:
            self._turn()

    # -- what follows from it

    def _let_go(self) -> None:
        """Write what was held."""
        if self._held and self._transport is not None:
            self._transport.write(self._held)
        self._held = b""

    def _turn(self) -> None:
        """A response is finished: turn to the next request, or wait for one."""
        if self._paused and self._reader.held and not self._reader.ready:
            self._reader.go_on(self._now())
        if self._reader.ready:
            # Not from here: a client that pipelines thousands must not deepen the stack.
            asyncio.get_running_loop().call_soon(self._next)
            return
        self._busy = False
        self._idle_since_s = self._now()
        if self._paused:
            self._resume_reading()
        if self._draining:
            self.drain()
        elif self._reader.reading:
            self._watch_reading()

    def _next(self) -> None:
        """Handle the request that has waited longest, if the client is still there."""
        if self._transport is None or self._transport.is_closing() or not self._reader.ready:
            return
        self._busy = True
        incoming = self._reader.ready.popleft()
        if isinstance(incoming, BadRequest):
            self._keep_alive = False
            self._bodiless = incoming.method == b"HEAD"
            self._handler.on_bad_request(incoming, self)
            return
        self._keep_alive = incoming.keep_alive and incoming.chunked_answers
        self._chunked_answers = incoming.chunked_answers
        self._bodiless = incoming.method == b"HEAD"
        self._handler.on_request(incoming, self)

    def _gone(self) -> None:
        self._reader.release()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        responder, self._responder = self._responder, None
        if responder is not None:
            responder.on_client_gone()

    def _close_politely(self) -> None:
        """Close; where the client may still be sending, throw that away first so that no reset overtakes the answer."""
        transport = self._transport
        if transport is None:
            return
        unread = self._reader.stopped or self._reader.reading
        self._reader.release()
        if unread and transport.can_write_eof():
            transport.write_eof()
            self._resume_reading()
            asyncio.get_running_loop().call_later(LINGER_S, transport.close)
        else:
            transport.close()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._transport is not None and self._paused:
            self._paused = False
            self._reader.heard_s = self._now()  # we did not listen: the client's time starts anew
            self._transport.resume_reading()

    def _watch_reading(self) -> None:
        """Answer 100 (Continue) to who waits for it, and see to it that a request does not take for ever."""
        if self._reader.wants_continue and self._transport is not None and not self._busy and not self._paused:
            self._reader.wants_continue = False
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limits.header_timeout_s, self._check_reading)

    def _check_reading(self) -> None:
        """Refuse a head that takes too long in all, or a body that has stopped coming; else look again later."""
        self._timer = None
        reader = self._reader
        if not reader.reading or self._paused:
            return  # nothing is late, or it is not the client who keeps it waiting
        late = reader.heard_s + self._limits.body_timeout_s
        if not reader.head_complete:
            late = reader.head_started_s + self._limits.header_timeout_s
        remaining_s = late - self._now()
        if remaining_s > 0:
            self._timer = asyncio.get_running_loop().call_later(remaining_s, self._check_reading)
            return
        reader.fail(invalid_request("The request took too long to arrive.", code="request_timeout", status=408))
        if not self._busy:
            self._next()
