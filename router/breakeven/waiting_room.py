"""Who waits for a place at an engine, in the order in which they came; pure state, time comes in.

Requests that could be served by the same engines wait in one lane: where the first of a lane cannot be served, none of
the lane can. So when a place becomes free only the first of each lane is asked, however many wait, and nobody is kept
waiting by an older request that needs another engine.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

Guest = TypeVar("Guest")


class _Place(Struct, frozen=True):
    lane: Hashable
    number: int
    came_s: float
    until_s: float
    size_bytes: int


class WaitingRoom(Generic[Guest]):
    """At most `guests_max` guests, who hold at most `bytes_max` bytes."""

    def __init__(self, guests_max: int, bytes_max: int) -> None:
        self.guests_max = guests_max
        self.bytes_max = bytes_max
        self._places: dict[Guest, _Place] = {}
        # Ordered dictionaries: to leave from the middle and to find the first cost the same however many wait.
        self._lanes: dict[Hashable, OrderedDict[Guest, _Place]] = {}
        self._came = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, guest: Guest) -> bool:
        return guest in self._places

    def enter(self, guest: Guest, lane: Hashable, size_bytes: int, now_s: float, until_s: float) -> bool:
        """Wait until `until_s` at the longest; False: there is no room to wait in."""
        if len(self._places) >= self.guests_max or self._bytes + size_bytes > self.bytes_max:
            return False
        self._came += 1
        place = _Place(lane, self._came, now_s, until_s, size_bytes)
        self._places[guest] = place
        self._lanes.setdefault(lane, OrderedDict())[guest] = place
        self._bytes += size_bytes
        return True

    def leave(self, guest: Guest, now_s: float) -> float:
        """How long it has waited. KeyError where it does not."""
        place = self._places.pop(guest)
        lane = self._lanes[place.lane]
        del lane[guest]
        if not lane:
            del self._lanes[place.lane]
        self._bytes -= place.size_bytes
        return now_s - place.came_s

    def first_of_each_lane(self) -> Iterator[Guest]:
        """Those who came first first, each lane once, as it is when its turn comes: guests may leave meanwhile."""
        done: set[Hashable] = set()
        while True:
            heads = [next(iter(lane.items())) for key, lane in self._lanes.items() if key not in done]
            if not heads:
                return
            guest, place = min(heads, key=lambda head: head[1].number)
            yield guest
            if guest in self._places:  # it could not be served, so neither can those behind it
                done.add(place.lane)

    def late(self, now_s: float) -> list[Guest]:
        """Those who have waited for as long as they may, in the order in which they came.

        Within a lane later guests wait longer, unless the limit was changed meanwhile; then they leave with the first.
        """
        late = []
        for lane in self._lanes.values():
            for guest, place in lane.items():
                if place.until_s > now_s:
                    break
                late.append((place.number, guest))
        return [guest for _, guest in sorted(late, key=lambda each: each[0])]
