"""Finds and reads the files of a journal: the newest by its name, and those that were turned over (`.1`, `.2.gz`)."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

JOURNAL = "journal.jsonl"
"""The router's name for it in a folder."""

LINE_BYTES_MAX = 2**22
"""A line of a hundred engines has 30 KB: what is longer is no journal, and is not read into memory."""

_is_turned = re.compile(r"\.(\d+)(?:\.gz)?").fullmatch


def journal_files(path: Path) -> list[Path]:
    """The files of a journal, oldest first; one that was turned over, or packed, stands for itself.

    FileNotFoundError where there is none.
    """
    if path.is_dir():
        path = path / JOURNAL
    turned: list[tuple[int, Path]] = []
    for each in path.parent.glob(f"{path.name}.*"):
        number = _is_turned(each.name.removeprefix(path.name))
        if number is not None:
            turned.append((int(number[1]), each))
    found = [each for _, each in sorted(turned, reverse=True)]
    if path.exists():
        found.append(path)
    if not found:
        raise FileNotFoundError(2, "no journal there", str(path))
    return found


class Lines:
    """The lines of some files, one file after the other. `read_bytes` of `total_bytes` on disk have been read."""

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self.total_bytes = sum(path.stat().st_size for path in paths)
        self.read_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """Each line; what is longer than any is cut. OSError, EOFError or zlib.error where a file cannot be read."""
        before = 0
        for path in self._paths:
            with path.open("rb") as file:
                lines: IO[bytes] = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file  # type: ignore[assignment]
                while line := lines.readline(LINE_BYTES_MAX):
                    self.read_bytes = before + file.tell()
                    yield line
                before += file.tell()
