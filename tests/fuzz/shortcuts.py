"""Events that are told by their form or at a glance tell what they would tell if each were decoded whole."""

from breakeven.answer import decode
from breakeven.sse import StreamObserver, _payload
from tests.fuzz.cuts import pieces
from tests.fuzz.sse_observer import seen

TYPED = {"response", "message", "delta"}
"""Members that only dialects with a type have; without one nobody knows what they mean."""


class Thorough(StreamObserver):
    """Decodes every event."""

    __slots__ = ()

    def _passes_over(self, payload: bytes) -> bool:
        return not payload

    def _learn(self, line: bytes, payload: bytes) -> None:
        """Nothing."""


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    reads = pieces(data)
    wire = b"".join(reads)
    if b"\r" in wire or not all(map(readable, wire.split(b"\n\n"))):
        return  # of what is no JSON nothing can be said either way, and clients cannot read it
    quick, thorough = StreamObserver(), Thorough()
    for observer in (quick, thorough):
        for read in reads:
            observer.feed(read, 1.0)
        observer.finish(1.0)
    assert seen(quick) == seen(thorough), "a shortcut overlooked something"


def readable(event: bytes) -> bool:
    """Whether the data of an event is JSON of some dialect, the end, or nothing."""
    payload = _payload(event)
    if payload in {b"", b"[DONE]"}:
        return True
    message = decode(payload)
    if message is None:
        return False
    return isinstance(message.get("type"), str) or TYPED.isdisjoint(message)
