"""Requests that are on each backend now: those of this process, and those of the other processes that share the table.

Each process writes its own count only, and reads those of the others when it takes a picture of the fleet: a sum in the
moment of a decision is true for all of them, and nobody has to send a message for each request.
"""

from collections.abc import Sequence

from breakeven.ledger import Cells, Ledger, Row
from breakeven.metric_table import IN_FLIGHT


class InFlight:
    """`cells[place(pool, backend)]` is this process's own count; `others` are the rows of other processes."""

    def __init__(self, ledger: Ledger | None = None, others: Sequence[Row] = ()) -> None:
        self._ledger = Ledger() if ledger is None else ledger
        self.cells = self._ledger.cells
        self._others = others
        self._places: dict[tuple[str, str], list[tuple[Cells, int]]] = {}
        self._read_bytes = 0

    def place(self, pool: str, backend: str) -> int:
        """Where this process counts its requests there."""
        return self._ledger.place(IN_FLIGHT.name, (pool, backend))

    @property
    def shared(self) -> bool:
        """Whether there are other processes."""
        return bool(self._others)

    def look(self) -> None:
        """Notice where others have begun to count. Reading a count afterwards costs 0.1 µs for each of them."""
        # The length, not whether it has grown by this look: who shows the metrics has the same rows take note.
        read_bytes = sum(row.refresh() for row in self._others)
        if read_bytes != self._read_bytes:
            self._read_bytes = read_bytes
            self._places.clear()

    def elsewhere(self, pool: str, backend: str) -> int:
        """How many the other processes have there now."""
        labels = (pool, backend)
        places = self._places.get(labels)
        if places is None:
            found = ((row, row.found(IN_FLIGHT.name, labels)) for row in self._others)
            places = self._places[labels] = [(row.cells, place) for row, place in found if place is not None]
        count = 0.0
        for cells, place in places:
            count += cells[place]
        return int(count)
