"""Numbers in one flat table: a place is looked up once for each metric and label set, and then only added to.

In one process the table is a list. With several workers each has a `Row` of its own in memory that all of them map:
only its owner writes to it, anybody may read it, so there are no locks. A row describes itself, and therefore its
owner may count what nobody foresaw, a reload may bring new pools, and who comes after a dead owner goes on in the same
row: no count ever falls.

    8 bytes   length of the directory that is in force, written last
    ...       the directory, entry after entry: each its length in 4 bytes, then (metric, labels, cells) in msgpack
    ...       the cells: 64-bit floats, in the order of the entries

Aligned numbers of 8 bytes are written whole or not at all, also by a process that is killed.
"""

from collections.abc import Collection, Iterable, Iterator
from operator import add
from typing import Protocol

import msgspec

Labels = tuple[str, ...]
Entry = tuple[str, Labels, int]

CELLS = 2**18
"""Some 14 for a backend and 250 for a pool: enough for 10,000 backends. Pages that nobody touches cost nothing."""

DIRECTORY_BYTES = 2**24
"""60 bytes for an entry with usual names, 140 where pool and backend have the longest ones."""

HEAD_BYTES = 64
"""The length, on a cache line of its own."""

ROW_BYTES = HEAD_BYTES + DIRECTORY_BYTES + 8 * CELLS

SPARE_CELLS = 64
"""The last ones belong to nobody: what finds no room is counted there and not shown. More than any histogram has."""

_LENGTH_BYTES = 4
_decode = msgspec.msgpack.Decoder(Entry).decode
_encode = msgspec.msgpack.Encoder().encode


class Cells(Protocol):
    """The numbers; `cells[place] += 1.0` counts."""

    def __getitem__(self, place: int, /) -> float: ...
    def __setitem__(self, place: int, value: float, /) -> None: ...


class Ledger:
    """The numbers of a process that shares them with nobody."""

    def __init__(self) -> None:
        self._list: list[float] = []
        self.cells: Cells = self._list
        self._places: dict[str, dict[Labels, tuple[int, int]]] = {}

    def place(self, metric: str, labels: Labels, size: int = 1) -> int:
        """Where the first of the `size` cells of this series is; they start at 0."""
        found = self._places.setdefault(metric, {}).get(labels)
        return self._make(metric, labels, size) if found is None else found[0]

    def found(self, metric: str, labels: Labels) -> int | None:
        """Where the first cell of this series is, if it has begun."""
        place = self._places.get(metric, {}).get(labels)
        return None if place is None else place[0]

    def series(self, metric: str) -> Iterator[tuple[Labels, list[float]]]:
        """Every label set of a metric that has a place, and its numbers now."""
        for labels, (start, size) in self._places.get(metric, {}).items():
            yield labels, self._numbers(start, size)

    def _make(self, metric: str, labels: Labels, size: int) -> int:
        start = len(self._list)
        self._list.extend([0.0] * size)
        self._places[metric][labels] = start, size
        return start

    def _numbers(self, start: int, size: int) -> list[float]:
        return self._list[start : start + size]


class Row(Ledger):
    """The numbers of one of several processes, in `ROW_BYTES` of shared memory that began as zeros."""

    def __init__(self, memory: memoryview) -> None:
        super().__init__()
        self._in_force = memory[:8].cast("Q")
        self._directory = memory[HEAD_BYTES : HEAD_BYTES + DIRECTORY_BYTES]
        self._floats: memoryview[float] = memory[HEAD_BYTES + DIRECTORY_BYTES : ROW_BYTES].cast("d")
        self.cells = self._floats
        self._read_bytes = 0
        self._used_cells = 0
        self.refresh()

    def refresh(self) -> int:
        """Take note of the series that the owner has begun since; the length of the directory that is known now."""
        while self._read_bytes < self._in_force[0]:
            start = self._read_bytes + _LENGTH_BYTES
            length = int.from_bytes(self._directory[self._read_bytes : start], "little")
            self._enter(*_decode(self._directory[start : start + length]))
            self._read_bytes = start + length
        return self._read_bytes

    def series(self, metric: str) -> Iterator[tuple[Labels, list[float]]]:
        """As in any ledger, with what the owner has begun since."""
        self.refresh()
        return super().series(metric)

    def clear(self, metrics: Collection[str]) -> None:
        """Set these to 0, for the owner is dead: what it held is held no more. Counters stay."""
        self.refresh()
        for metric in metrics:
            for start, size in self._places.get(metric, {}).values():
                for place in range(start, start + size):
                    self.cells[place] = 0.0

    def _make(self, metric: str, labels: Labels, size: int) -> int:
        entry = _encode((metric, labels, size))
        end = self._read_bytes + _LENGTH_BYTES + len(entry)
        if end > DIRECTORY_BYTES or self._used_cells + size > CELLS - SPARE_CELLS:
            return CELLS - SPARE_CELLS
        self._directory[self._read_bytes : end] = len(entry).to_bytes(_LENGTH_BYTES, "little") + entry
        self._in_force[0] = self._read_bytes = end
        return self._enter(metric, labels, size)

    def _enter(self, metric: str, labels: Labels, size: int) -> int:
        start = self._used_cells
        self._used_cells += size
        self._places.setdefault(metric, {})[labels] = start, size
        return start

    def _numbers(self, start: int, size: int) -> list[float]:
        return list(self._floats[start : start + size])


def totals(ledgers: Iterable[Ledger], metric: str) -> dict[Labels, list[float]]:
    """The numbers of a metric over all of them, by label set."""
    sums: dict[Labels, list[float]] = {}
    for ledger in ledgers:
        for labels, numbers in ledger.series(metric):
            known = sums.get(labels)
            sums[labels] = numbers if known is None else list(map(add, known, numbers))
    return sums
