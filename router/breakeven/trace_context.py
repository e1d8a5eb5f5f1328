"""The trace to which a request belongs, as the client says it: the header `traceparent` (W3C Trace Context).

Where the router takes no part in tracing both headers of the specification go on to the engine exactly as they came,
well-formed or not: that is what it calls forwarding a trace. Only a value that is valid names the trace in the access
log. Where the router takes part, an invalid value restarts the trace, and `tracestate` goes with it.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"

SAMPLED = 0x01
"""The only flag of version 00 that a reader may rely on; the others are set to zero by whoever takes part."""

# Lower case only. A later version may go on behind a further dash, and is read as far as this one is known; `ff` is
# forbidden (section 3.2.2 of the Recommendation).
_VERSIONED = re.compile(rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceParent(Struct, frozen=True):
    """Trace and calling span as lower-case hexadecimal digits, 32 and 16 of them, never all zero."""

    trace_id: str
    span_id: str
    sampled: bool

    @property
    def value(self) -> bytes:
        """The header's value in version 00."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}".encode()


def trace_parent(value: bytes) -> TraceParent | None:
    """What one value says, None where it is invalid."""
    found = _VERSIONED.fullmatch(value)
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if more is not None and version == b"00":
        return None
    return TraceParent(trace_id.decode(), span_id.decode(), bool(int(flags, 16) & SAMPLED))


def trace_parent_of(headers: Iterable[tuple[bytes, bytes]]) -> TraceParent | None:
    """The one valid traceparent among the headers of a request; of several none can be trusted."""
    values = [value for name, value in headers if name == TRACEPARENT]
    return trace_parent(values[0]) if len(values) == 1 else None
