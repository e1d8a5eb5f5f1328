"""Heads of requests and responses: what a proxy drops, what it adds, everything else as it came.

Headers travel as pairs of bytes with lower-case names, in the order in which they came, and beside them by name: each
is asked for several times, and a look-up costs a tenth of a search (0.05 against 0.5 µs).
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from breakeven.errors import ApiError

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Headers that speak of one connection only (RFC 9110, section 7.6.1); no proxy forwards them."""

MISSPELLED_FRAMING = frozenset((b"content_length", b"transfer_encoding"))
"""Not framing to us nor to the engines, but to what reads an underscore as a hyphen, as CGI and WSGI do."""

REQUEST_DROPPED = HOP_BY_HOP | MISSPELLED_FRAMING | {b"host", b"content-length", b"expect", b"x-request-id"}
"""Written anew for the engine, or already answered by the router."""

WITHOUT_CLIENT_KEY = REQUEST_DROPPED | {b"authorization", b"x-api-key"}
"""The same where the client's key is not the engine's: the router has keys, or the pool has credentials, of its own."""

RESPONSE_DROPPED = HOP_BY_HOP | {
    b"content-length",
    b"x-breakeven-backend",
    b"x-breakeven-policy",
    b"x-breakeven-pool",
    b"x-breakeven-reason",
    b"x-breakeven-table",
    b"x-request-id",
}
"""Written anew for the client."""

CORS_ANSWERS = frozenset(
    (b"access-control-allow-credentials", b"access-control-allow-origin", b"access-control-expose-headers")
)
"""What an engine says to a browser; dropped where the router says it itself, since browsers refuse it twice."""

REQUEST_ID_BYTES_MAX = 128
"""Engines repeat the id in every event (vLLM names a completion after it), so a long one would multiply."""

_is_weight_zero = re.compile(rb" *q=0(?:\.0*)? *").fullmatch

_SAFE_ID = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-")


_CONTROLS = bytes([*range(9), *range(10, 32), 127])
"""What no phrase may hold (RFC 9112, section 4); llhttp lets it pass, and clients refuse the whole answer for it."""

NO_BODY = frozenset((204, 304))
"""Statuses whose responses have no body whatever their headers say (RFC 9112, section 6.3)."""


class Headers:
    """The header lines of one message; `named` holds the first value of each.

    What is derived from them is kept, the last set of forwarded lines included: the headers of a head that comes again
    (`recent_heads`) are this same object.
    """

    __slots__ = ("_coding", "_dropped", "_lines", "_media_type", "holder", "named", "pairs")

    def __init__(self, pairs: list[Header]) -> None:
        self.pairs = pairs
        self.named = dict(reversed(pairs))
        self.holder: tuple[object, str | None] | None = None
        """Whose key is among them, and by whose judgement (`api_keys`)."""
        self._media_type: bytes | None = None
        self._coding: bytes | None = None
        self._dropped: frozenset[bytes] | None = None
        self._lines = b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.pairs == other.pairs

    __hash__ = None  # type: ignore[assignment]  # as a list

    @property
    def media_type(self) -> bytes:
        """What the body is, in lower case and without parameters; empty where nothing says."""
        if self._media_type is None:
            self._media_type = self.named.get(b"content-type", b"").partition(b";")[0].strip().lower()
        return self._media_type

    @property
    def coding(self) -> bytes:
        """How the body is packed, in lower case; `identity`: not at all."""
        if self._coding is None:
            self._coding = self.named.get(b"content-encoding", b"identity").strip().lower()
        return self._coding

    def forwarded(self, dropped: frozenset[bytes]) -> bytes:
        """The lines that go on, each with its line end."""
        if dropped is not self._dropped:
            ended = dropped | connection_options(self.pairs) if b"connection" in self.named else dropped
            self._lines = b"".join([b"%b: %b\r\n" % header for header in self.pairs if header[0] not in ended])
            self._dropped = dropped
        return self._lines


class ResponseHead(Struct, frozen=True):
    """Status, reason phrase and headers of an engine's answer.

    `body_bytes` is the declared length, which is not among the headers, None where there is none; `until_close` tells
    that the body ends with the connection.
    """

    status: int
    phrase: bytes
    headers: Headers
    body_bytes: int | None
    until_close: bool


def connection_options(headers: Iterable[Header]) -> frozenset[bytes]:
    """The lower-case tokens of every Connection header: each names a header that ends at this hop."""
    tokens: set[bytes] = set()
    for name, value in headers:
        if name == b"connection":
            tokens.update(token.strip().lower() for token in value.split(b","))
    return frozenset(tokens)


def accepts(accepted: bytes | None, coding: bytes) -> bool:
    """Whether an Accept-Encoding value asks for a coding; an absent one asks for none."""
    choices = {}
    for choice in (accepted or b"").lower().split(b","):
        name, _, weight = choice.partition(b";")
        choices[name.strip()] = _is_weight_zero(weight) is None
    return choices.get(coding, choices.get(b"*", False))


def request_head(method: bytes, target: bytes, host: bytes, lines: bytes, request_id: bytes, body_bytes: int) -> bytes:
    """The head sent to an engine; `lines` are whole lines: what goes on of the client's, and what replaces the rest."""
    return b"%b %b HTTP/1.1\r\nhost: %b\r\n%bx-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (
        method,
        target,
        host,
        lines,
        request_id,
        body_bytes,
    )


def response_head(status: int, phrase: bytes, lines: bytes) -> bytes:
    """The head sent to a client; every line has its line end."""
    return b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, phrase, lines)


def usable_request_id(offered: bytes | None) -> bytes | None:
    """The client's request id if it is short and harmless in headers, logs and events."""
    if offered and len(offered) <= REQUEST_ID_BYTES_MAX and _SAFE_ID.issuperset(offered):
        return offered
    return None


def read_response_head(status: int, phrase: bytes, pairs: list[Header]) -> ResponseHead:
    """The head of an answer: its declared length, or by what else its body ends (RFC 9112, section 6.3).

    ValueError where the body has a transfer coding besides chunked: it ends at this hop, and nobody takes it off here.
    """
    phrase = phrase.translate(None, _CONTROLS)
    lengths = [value for name, value in pairs if name == b"content-length"]
    headers = Headers([pair for pair in pairs if pair[0] != b"content-length"] if lengths else pairs)
    codings = headers.named.get(b"transfer-encoding")
    if codings is not None:
        if codings.strip().lower() != b"chunked" or sum([name == b"transfer-encoding" for name, _ in pairs]) > 1:
            message = "a transfer coding besides chunked"
            raise ValueError(message)
        return ResponseHead(status, phrase, headers, None, until_close=False)
    if not lengths:
        return ResponseHead(status, phrase, headers, None, until_close=status not in NO_BODY)
    return ResponseHead(status, phrase, headers, int(lengths[0]), until_close=False)


def unbuffered(headers: Headers) -> bytes:
    """Lines that keep proxies from collecting a stream, where the engine has not written them (field case B37)."""
    lines = b""
    if b"cache-control" not in headers.named:
        lines += b"cache-control: no-cache\r\n"
    if b"x-accel-buffering" not in headers.named:
        lines += b"x-accel-buffering: no\r\n"
    return lines


@lru_cache(maxsize=16)
def dropped_headers(policy_header: bytes, *, client_key: bool) -> frozenset[bytes]:
    """What of a client's headers does not go to an engine; one object each, by which `Headers.forwarded` knows it."""
    dropped = REQUEST_DROPPED if client_key else WITHOUT_CLIENT_KEY
    return dropped | {policy_header} if policy_header else dropped


@lru_cache(maxsize=1024)
def why_lines(reason: str, policy: str | None) -> bytes:
    """The headers that say why an answer comes from where it comes; few combinations exist, each is written once."""
    line = f"x-breakeven-reason: {reason}\r\n"
    return (line if policy is None else f"{line}x-breakeven-policy: {policy}\r\n").encode()


def table_line(table: str) -> bytes:
    """The header that names the measured table which took part in a decision."""
    return b"x-breakeven-table: %b\r\n" % table.encode()


def error_lines(error: ApiError) -> bytes:
    """The headers of an error of the router's own."""
    lines = b"content-type: application/json\r\n"
    if error.retry_after_s is not None:
        lines += b"retry-after: %d\r\n" % error.retry_after_s
    if error.status == 401:
        lines += b"www-authenticate: Bearer\r\n"
    if error.allow is not None:
        lines += b"allow: %b\r\n" % error.allow.encode()
    return lines
