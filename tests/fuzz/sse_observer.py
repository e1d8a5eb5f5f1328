"""A stream of events under observation: the same is seen whatever the cut, nothing raises, memory is bounded."""

from unittest.mock import patch

from breakeven import sse
from breakeven.sse import EVENT_MAX, StreamObserver
from tests.fuzz.cuts import pieces, single_bytes

SMALL = 512
"""The limit of an event in the second run, so that small inputs pass it too."""


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    reads = pieces(data)
    wire = b"".join(reads)
    whole, cut, single = observed([wire]), observed(reads), observed(single_bytes(wire))
    assert seen(whole) == seen(cut) == seen(single), "the cut makes a difference"
    with patch.object(sse, "EVENT_MAX", SMALL):
        small = observed(reads, SMALL)
        assert seen(small) == seen(observed(single_bytes(wire), SMALL)), "the cut of what is too large"
    boundary = StreamObserver()
    boundary.feed(wire, 1.0)
    end = boundary.event_end
    boundary.feed(end, 1.0)
    assert boundary.at_boundary, "an event of our own would be part of another"


def observed(reads: list[bytes], event_max: int = EVENT_MAX) -> StreamObserver:
    """An observer that was fed these reads, each at its own time."""
    observer = StreamObserver()
    for read in reads:
        observer.feed(read, 1.0)
        assert len(observer._pending) <= event_max + 4
    observer.finish(1.0)
    return observer


def seen(observer: StreamObserver) -> object:
    """All that others ask of it."""
    return (
        observer.first_token_s,
        observer.usage,
        observer.error,
        observer.finish_reason,
        observer.done,
        observer.complete,
        observer.at_boundary,
    )
