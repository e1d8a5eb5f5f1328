"""The spans of one request while it lives: nothing but ids and moments. What they say is put together at its end.

Where the router takes part in tracing, every request is a span of its own (the server's), a child of the client's if it
named a valid one, and every attempt at an engine is a child of that (a client's). The engine gets the attempt as its
parent. Without the client's span the trace begins here, and a `tracestate` that came without one is not passed on.
"""

from collections.abc import Callable

from msgspec import Struct

from breakeven.headers import Headers
from breakeven.trace_context import TRACEPARENT, TRACESTATE, TraceParent, trace_parent_of

Sampled = Callable[[TraceParent | None, str], bool]
"""Whether the trace with this id is to be exported, given the client's span."""

Bits = Callable[[int], int]
"""So many random bits."""


class Attempt(Struct):
    """One attempt at a backend; times on the clock of the loop, `status` where the engine answered."""

    span_id: str
    pool: str
    backend: str
    started_s: float
    ended_s: float | None = None
    result: str | None = None
    status: int | None = None


class Spans:
    """`own` is the request's own span, `parent` the client's."""

    __slots__ = ("_bits", "_dropped", "attempts", "own", "parent")

    def __init__(self, headers: Headers, sampled: Sampled, bits: Bits) -> None:
        named = headers.named
        self.parent = parent = trace_parent_of(headers.pairs) if TRACEPARENT in named else None
        trace_id = _hex(bits, 128) if parent is None else parent.trace_id
        self.own = TraceParent(trace_id, _hex(bits, 64), sampled(parent, trace_id))
        self.attempts: list[Attempt] = []
        self._bits = bits
        self._dropped = {TRACEPARENT, TRACESTATE} if parent is None and TRACESTATE in named else {TRACEPARENT}

    def begin(self, pool: str, backend: str, now_s: float) -> None:
        """An attempt begins."""
        self.attempts.append(Attempt(_hex(self._bits, 64), pool, backend, now_s))

    def onward(self, dropped: frozenset[bytes], lines: bytes) -> tuple[frozenset[bytes], bytes]:
        """Headers of the client that do not go to the engine, and those that do: the attempt is its parent."""
        parent = TraceParent(self.own.trace_id, self.attempts[-1].span_id, self.own.sampled)
        return dropped | self._dropped, b"%btraceparent: %b\r\n" % (lines, parent.value)

    def end(self, result: str, status: int | None, now_s: float) -> None:
        """The attempt has ended; `status` is that of the engine's head, if one came."""
        attempt = self.attempts[-1]
        attempt.ended_s, attempt.result, attempt.status = now_s, result, status


def _hex(bits: Bits, count: int) -> str:
    """An id: all zero is none."""
    return (bits(count) or 1).to_bytes(count // 8).hex()
