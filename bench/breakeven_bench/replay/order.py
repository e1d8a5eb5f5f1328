"""Puts entries of a journal into the order of their decisions: they were written in the order in which they ended.

A policy that learns must not know at a decision what came of requests that ended later. Requests overlap by some
minutes, so that a window of them is enough; where one has outlived more than fit, it is decided a little late.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush, heappushpop

from breakeven_policies.journal import Entry

WINDOW = 2000
"""Entries that are held, some 5 KB each: more than any router has requests in flight, usually."""


def ended_s(entry: Entry) -> float:
    """When the request had ended, in seconds of Unix time: unlike `now_s` the same for all processes."""
    return entry.time.timestamp()


def decided_s(entry: Entry) -> float:
    """When it was decided, likewise; as late as it ended where a line does not say how long it took."""
    finished_s, decision_s = entry.happened.finished_s, entry.happened.decided_s
    return ended_s(entry) - max(0.0, (finished_s or 0.0) - (decision_s or 0.0))


def by_decision(entries: Iterable[Entry], window: int = WINDOW) -> Iterator[Entry]:
    """The entries in the order of their decisions, as far as a window reaches."""
    held: list[tuple[float, int, Entry]] = []
    for number, entry in enumerate(entries):
        item = (decided_s(entry), number, entry)
        if len(held) < window:
            heappush(held, item)
        else:
            yield heappushpop(held, item)[2]
    while held:
        yield heappop(held)[2]
