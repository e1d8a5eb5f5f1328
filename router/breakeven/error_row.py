"""Whether an engine that answers with server errors is to blame for them, or the requests are.

One client's request may be such that any engine answers it with 500, again and again, and must not empty the fleet. So
an engine is taken out for its errors only where all of this holds:

- it has answered so many requests in a row with an error, and none without one (`failures_max`, as for failures);
- they were at least `REQUESTS_MIN` different ones: a client that repeats its request has told of one;
- they came over at least `SPAN_S`: what breaks one step of the engine fails its whole batch at once, and passes;
- meanwhile another engine that is ready has answered without one (`fleet` sees to that): if none does, the requests
  are the likelier cause, and there is nowhere better to send them. So the last engine is never taken out for errors.
"""

from zlib import crc32

REQUESTS_MIN = 3
"""Two may be a client and its retry under another id; three that differ in their bodies are hardly one cause."""

SPAN_S = 3.0
"""Longer than a step with a full batch and long prompts (2 s on four A100), in which all of it may fail."""

EDGE_BYTES = 16 * 1024
"""What of each end of a body tells it from others: prompts share their beginning, and a body may have 64 MB."""


def fingerprint(body: bytes) -> int:
    """The same for the same body, and hardly ever for another."""
    return crc32(body[-EDGE_BYTES:], crc32(body[:EDGE_BYTES], len(body)))


class ErrorRow:
    """Errors in a row of one engine."""

    __slots__ = ("_count", "_first_s", "_last_s", "_requests")

    def __init__(self, first_s: float) -> None:
        self._count = 0
        self._first_s = self._last_s = first_s
        self._requests: set[int] = set()

    def add(self, request: int, now_s: float) -> None:
        """One more, of the request with this fingerprint."""
        self._count += 1
        self._last_s = now_s
        if len(self._requests) < REQUESTS_MIN:
            self._requests.add(request)

    def blames(self, count_min: int) -> bool:
        """Whether the engine rather than the requests is the cause, as far as its own answers tell."""
        enough = self._count >= count_min and len(self._requests) >= min(count_min, REQUESTS_MIN)
        return enough and self._last_s - self._first_s >= SPAN_S
