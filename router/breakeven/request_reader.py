"""Reads requests out of the bytes of one client connection: framing by llhttp, bounds of our own, no I/O.

Complete requests, and at most one error at the end, come out in the order in which they were sent. After an error
nothing more is read: where one message is wrong, no later boundary can be trusted.
"""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import NoReturn

import httptools
from msgspec import Struct
from msgspec.structs import replace

from breakeven.errors import ApiError, invalid_request, too_large
from breakeven.headers import Header, Headers
from breakeven.recent_heads import RecentHeads


@dataclass(slots=True)
class Limits:
    """Bounds on what a client may send, and how slowly. One object for all connections: a reload changes its values.

    `admit(method, path, headers)` is asked before a body is read, and raises ApiError where it shall not be.
    """

    header_bytes_max: int = 64 * 1024
    body_bytes_max: int = 64 * 1024 * 1024
    header_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    admit: Callable[[bytes, bytes, Headers], object] | None = None


READ_AHEAD_MAX = 64
"""Requests that may wait for their turn on one connection. While reading is paused a departure goes unnoticed, so it is
not paused for the few that a patient client sends ahead.
"""

CRUMBS_MAX = 50_000
"""Pieces in which a body may come whose mean is below `CRUMB`; each takes 0.2 µs, and a turn of the loop may bring 8 MB
of them. No client makes so many chunks of a few bytes.
"""

CRUMB = 16

FLOOD_SLICE = 16 * 1024
"""Bytes of a flood of small requests that are read at once: 600 take 5 ms, and one read may hold ten thousand."""

HEAD_END = b"\r\n\r\n"

VERSIONS = frozenset(("1.0", "1.1"))

_match_absolute = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE).match

# A name or an address, and a port (RFC 9110, section 7.2). The grammar also allows `!$&'()*+,;=` in a name: no host has
# them, and a comma is rather two hosts that somebody joined. Userinfo is no part of it.
_is_host = re.compile(rb"(?:[\w.~%-]+|\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\])(?::\d{0,5})?[ \t]*").fullmatch

NUMBER_SIGN = b"#"[0]

NO_HEADERS = Headers([])


class Request(Struct, frozen=True):
    """One request as it came: header names in lower case, the body out of its transfer framing, nothing decoded.

    `target` is in origin form, path and query; `path` is its first part. Content-Length is not among the headers: the
    body has it. `chunked_answers`: the client speaks HTTP/1.1.
    """

    method: bytes
    target: bytes
    path: str
    headers: Headers
    body: bytes
    keep_alive: bool
    chunked_answers: bool


class BadRequest(Struct, frozen=True):
    """What stands where a request could not be read: why not, and what of its head was complete."""

    error: ApiError
    headers: Headers
    method: bytes = b""
    path: str = ""


class RequestReader:
    """`ready` holds what has been read; `reading` tells that a request has begun and is not complete.

    Times are those given to `feed`: `head_started_s` when the first byte of the request being read came, `heard_s`
    when its latest did. `wants_continue` is set while a client waits for 100 (Continue) before it sends its body.
    `held`: a read brought more than `READ_AHEAD_MAX` requests, and the rest waits for `go_on`.
    """

    __slots__ = (
        "_body", "_body_bytes", "_body_came", "_closing", "_declared", "_error", "_grown", "_headers", "_inside",
        "_limits", "_named", "_parser", "_pieces", "_read_bytes", "_recent", "_refused", "_target", "head_complete",
        "head_started_s", "heard_s", "held", "now_s", "reading", "ready", "stopped", "wants_continue",
    )  # fmt: skip

    def __init__(self, limits: Limits, recent: RecentHeads[Request]) -> None:
        self._limits = limits
        self._recent = recent
        self._parser = httptools.HttpRequestParser(self)
        self._body_came = False
        self._error: ApiError | None = None
        self._refused: tuple[()] | tuple[bytes, str] = ()
        self._body = b""
        self._body_bytes = 0
        self._grown: BytesIO | None = None
        self._pieces = 0  # of the body that has grown
        self.ready: deque[Request | BadRequest] = deque()
        self.held = b""
        self._inside = False  # what is held begins inside a request
        self.reading = False
        self.stopped = False
        self.wants_continue = False
        self.head_complete = False
        self.now_s = self.head_started_s = self.heard_s = 0.0
        self._declared: bytes | None = None
        self._closing = False  # the last request ended the connection: whatever follows is an error
        self._begin()

    def feed(self, data: bytes, now_s: float) -> None:
        """Take one read from the socket."""
        self.now_s = self.heard_s = now_s
        if not self.reading and not self._closing and not self.stopped:
            found = self._recent.find(data)
            if found is not None and len(found[1]) <= self._limits.body_bytes_max:
                head, body = found
                self.ready.append(replace(head, body=body))
                return
        if self.held:
            self.held += data
            return
        if len(data) > FLOOD_SLICE and data.count(HEAD_END) > READ_AHEAD_MAX:
            self._feed_flood(data)
            return
        while data and not self.stopped:
            data = self._feed(data)

    def go_on(self, now_s: float) -> None:
        """Read what is held, now that the requests before it have been taken."""
        self.now_s = self.heard_s = now_s
        data, self.held, self.reading = self.held, b"", self._inside
        self._feed_flood(data)

    def fail(self, error: ApiError) -> None:
        """Read nothing more; the error takes the place of the request being read."""
        self.reading = False
        self.wants_continue = False
        self.ready.append(BadRequest(error, self._named, *self._refused))
        self._stop()

    def release(self) -> None:
        """Read nothing more and forget what was read: the client is gone."""
        self.reading = False
        self.ready.clear()
        self._stop()

    @property
    def ready_bytes(self) -> int:
        """The bodies of the requests that wait, in bytes."""
        return sum(len(waiting.body) for waiting in self.ready if isinstance(waiting, Request))

    def _feed_flood(self, data: bytes) -> None:
        """Read in slices until enough is ready, and hold the rest."""
        for start in range(0, len(data), FLOOD_SLICE):
            if self.stopped:
                return
            if len(self.ready) >= READ_AHEAD_MAX:
                self._inside, self.reading = self.reading, True  # so that nobody takes this connection for idle
                self.held = data[start:]
                return
            piece = data[start : start + FLOOD_SLICE]
            while piece and not self.stopped:
                piece = self._feed(piece)

    def _feed(self, data: bytes) -> bytes:
        """Give the data to llhttp; what is left to be read again, without an offer to upgrade."""
        ready_before = len(self.ready)
        begins = not self.reading
        self._body_came = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            return self._declined_upgrade(data[offer.args[0] :])
        except httptools.HttpParserError:
            error = self._error or invalid_request("This is not a valid HTTP/1.1 request.")
            error.__traceback__ = error.__context__ = None  # they hold the frames, and those the reader
            self.fail(error)
            return b""
        if self.reading and not self._body_came and len(self.ready) == ready_before:
            # An unfinished head, or trailers: llhttp keeps the piece it is at to itself, so whole reads are counted.
            # One that completed an earlier request, or held some of a body, may hold little of it, and is not.
            self._read_bytes += len(data)
            if self._read_bytes > self._limits.header_bytes_max:
                self.fail(self._head_too_large())
        elif begins and len(self.ready) == ready_before + 1:
            self._remember(data)
        return b""

    # -- called by llhttp; raising ends the feed with an HttpParserError

    def on_message_begin(self) -> None:
        """A request begins."""
        self._begin()
        self.reading = True
        self.head_started_s = self.now_s

    def on_url(self, piece: bytes) -> None:
        """A piece of the target."""
        self._target += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; those after the head are trailers, which end at this hop."""
        if self.head_complete:
            return
        name = name.lower()
        if name == b"content-length":
            self._declared = value
        else:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The head is complete: too large a one is refused, and a body that announces too much before it is sent."""
        self.head_complete = True
        self._named = Headers(self._headers)
        head_bytes = len(self._target) + sum([len(name) + len(value) + 4 for name, value in self._headers])
        if head_bytes > self._limits.header_bytes_max:
            self._give_up(self._head_too_large())
        self._read_bytes = 0
        named = self._named.named
        is_current = self._parser.get_http_version() == "1.1"
        coding = named.get(b"transfer-encoding")
        if coding is not None and (coding.strip().lower() != b"chunked" or not is_current):  # RFC 9112, section 6.1
            self._give_up(invalid_request("The only transfer coding understood here is chunked, in HTTP/1.1."))
        hosts = [value for name, value in self._headers if name == b"host"]
        if len(hosts) > 1 or (is_current and not hosts):  # RFC 9112, section 3.2
            self._give_up(invalid_request("A request names its Host once; only HTTP/1.0 may leave it out."))
        if hosts and _is_host(hosts[0]) is None:
            self._give_up(invalid_request("The Host is no name or address, with a port or without."))
        if self._limits.admit is not None and (b"transfer-encoding" in named or (self._declared or b"0") != b"0"):
            self._admit(self._limits.admit)  # what has no body is judged in its turn, and its connection stays
        if self._declared is not None and int(self._declared) > self._limits.body_bytes_max:
            self._give_up(too_large(self._limits.body_bytes_max))
        self.wants_continue = b"expect" in named and named[b"expect"].lower() == b"100-continue"

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body_came = True
        self._read_bytes = 0
        self.wants_continue = False
        self._body_bytes += len(data)
        if self._body_bytes > self._limits.body_bytes_max:
            self._give_up(too_large(self._limits.body_bytes_max))
        if not self._body:
            self._body = data
            return
        if self._grown is None:
            # Grows piece by piece and is not copied at the end: joining 30 MB would stop the loop for 6 to 30 ms.
            self._grown = BytesIO()
            self._pieces = 1
            self._grown.write(self._body)
        self._grown.write(data)
        self._pieces += 1
        if self._pieces > CRUMBS_MAX and self._body_bytes < self._pieces * CRUMB:
            self._give_up(invalid_request("The request body comes in too many chunks of too few bytes."))

    def on_message_complete(self) -> None:
        """The request is complete."""
        parser = self._parser
        version = parser.get_http_version()
        if version not in VERSIONS:
            self._give_up(invalid_request("HTTP/1.1 and HTTP/1.0 are spoken here."))
        target = _origin_form(self._target)
        if target is None:
            self._give_up(invalid_request("The target of a request is a path, without a fragment."))
        keep_alive = parser.should_keep_alive()
        self._closing = not keep_alive
        self.ready.append(
            Request(
                parser.get_method(),
                target,
                target.partition(b"?")[0].decode("latin-1"),
                self._named,
                self._body if self._grown is None else self._grown.getvalue(),
                keep_alive,
                version == "1.1",
            )
        )
        self._body = b""
        self._grown = None
        self.wants_continue = False
        self.reading = False

    # -- what follows from it

    def _stop(self) -> None:
        """Let go of the parser, which holds this reader: a cycle that only the collector would find, much later."""
        if not self.stopped:
            self.stopped = True
            self.held = b""
            del self._parser
        self._error = None
        self._begin()

    def _begin(self) -> None:
        self.head_complete = False
        self._target = b""
        self._headers: list[Header] = []
        self._declared = None
        self._named = NO_HEADERS
        self._body = b""
        self._grown = None
        self._read_bytes = 0
        self._body_bytes = 0

    def _declined_upgrade(self, rest: bytes) -> bytes:
        """The request once more without its offer to upgrade, which llhttp takes for the end of HTTP and of the body.

        No other protocol is spoken here (RFC 9110, section 7.8), so the request is one like any other. Only CONNECT has
        nothing else to mean: it is refused, and nothing after it is read.
        """
        request = self.ready.pop()
        if isinstance(request, BadRequest) or request.method == b"CONNECT":
            self.fail(invalid_request("No tunnels are opened here.", status=501))
            return b""
        lines = b"".join([b"%b: %b\r\n" % header for header in request.headers.pairs if header[0] != b"upgrade"])
        if self._declared is not None:
            lines += b"content-length: %b\r\n" % self._declared
        version = b"HTTP/1.1" if request.chunked_answers else b"HTTP/1.0"
        self._parser = httptools.HttpRequestParser(self)
        return b"%b %b %b\r\n%b\r\n%b" % (request.method, request.target, version, lines, rest)

    def _remember(self, data: bytes) -> None:
        """One read brought one whole request: the next one may begin with the same head."""
        request = self.ready[-1]
        if isinstance(request, Request) and request.keep_alive and b"expect" not in request.headers.named:
            self._recent.remember(data, replace(request, body=b""))

    def _head_too_large(self) -> ApiError:
        message = (
            f"The request head is larger than the limit of {self._limits.header_bytes_max} bytes (header_max_bytes)."
        )
        return invalid_request(message, code="request_head_too_large", status=431)

    def _admit(self, admit: Callable[[bytes, bytes, Headers], object]) -> None:
        path = (_origin_form(self._target) or b"").partition(b"?")[0]
        try:
            admit(self._parser.get_method(), path, self._named)
        except ApiError as error:
            self._refused = (self._parser.get_method(), path.decode("latin-1"))
            self._give_up(error)

    def _give_up(self, error: ApiError) -> NoReturn:
        self._error = error
        raise error


def _origin_form(target: bytes) -> bytes | None:
    """Path and query; a target in absolute form (RFC 9112, section 3.2.2) loses its scheme and authority.

    None where it has a fragment, which ends at the client, or an authority that is no host.
    """
    if NUMBER_SIGN in target:
        return None
    absolute = _match_absolute(target)
    if absolute is None:
        return target
    if _is_host(absolute[1]) is None:
        return None
    rest = target[absolute.end() :]
    return rest if rest.startswith(b"/") else b"/" + rest
