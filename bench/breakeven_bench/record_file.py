"""Records on disk: one line for each request, so that a file that was cut off is still good up to there."""

from collections.abc import Iterable
from pathlib import Path

from breakeven_bench.record import RequestRecord, encode, read_records


def write_records(path: Path, records: Iterable[RequestRecord]) -> None:
    """Write a file of records into a folder that exists. Raises OSError."""
    with path.open("wb") as file:
        file.writelines(encode(record) for record in records)


def load_records(path: Path) -> list[RequestRecord]:
    """The records of a file. Raises OSError, and ValueError for a line that is no record."""
    with path.open("rb") as file:
        return list(read_records(file))
