"""A file of whole lines, written by a thread that may wait: followed when it is moved away, turned over when full.

Several processes may write to one file: it is opened for appending and a batch of lines is one write, so that the
kernel puts each batch in one piece; where the place is a pipe a piece is never larger than what a pipe takes at once.
Before each batch the name is looked up: where it leads to another file, because logrotate or another process has moved
the old one, that other file is opened. Nobody has to send a signal.
"""

import fcntl
import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from select import PIPE_BUF

LOG = logging.getLogger(__name__)

LINE_FEED = b"\n"[0]


class LineDescriptor:
    """Appends lines to a descriptor that is open already, standard error for example, and that stays open."""

    _file: FileIO
    _torn: bool
    _regular: bool

    def __init__(self, descriptor: int) -> None:
        self._take(FileIO(descriptor, "wb", closefd=False))

    def write(self, lines: bytes) -> None:
        """Append whole lines; OSError where they cannot be, all or some of them."""
        if self._torn:  # a disk that was full took half a line: the next one begins on a line of its own
            lines = b"\n" + lines
        for piece in (lines,) if self._regular else pieces(lines, PIPE_BUF):
            rest = memoryview(piece)
            while rest:
                written = self._file.write(rest)
                if not written:
                    raise BlockingIOError
                self._torn = rest[written - 1] != LINE_FEED
                rest = rest[written:]

    def close(self) -> None:
        """Give the file back; a descriptor that belongs to somebody else stays open."""
        self._file.close()

    def _take(self, file: FileIO) -> None:
        self._file = file
        self._torn = False
        self._regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)


class LineFile(LineDescriptor):
    """Appends lines to `path`. `bytes_max`: at that size it becomes `path.1`, of which `kept` remain; 0: never."""

    def __init__(self, path: Path, bytes_max: int = 0, kept: int = 1) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._kept = kept
        self._told = False
        self._open()

    def write(self, lines: bytes) -> None:
        """The same, to the file that has the name now."""
        if self._file.closed or self._moved():  # closed: it could not be opened again last time
            self._file.close()
            self._open()
        super().write(lines)
        if self._bytes_max and os.fstat(self._file.fileno()).st_size >= self._bytes_max:
            self._turn_over()

    def _open(self) -> None:
        self._take(FileIO(self._path, "ab"))
        if self._regular:
            # Whoever wrote before may have been killed, or found the disk full, in the middle of a line.
            with suppress(OSError), self._path.open("rb") as file:  # one that may not be read, or is empty
                file.seek(-1, os.SEEK_END)
                self._torn = file.read(1) != b"\n"

    def _moved(self) -> bool:
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return True

    def _turn_over(self) -> None:
        """Move the full file away, unless another process is just doing so or has done it."""
        descriptor = self._file.fileno()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held until the next file is opened
            if not self._moved():
                free = 1  # or the oldest, which goes
                while free < self._kept and self._numbered(free).exists():
                    free += 1
                for number in range(free, 0, -1):
                    self._numbered(number - 1).replace(self._numbered(number))
        except BlockingIOError:
            return
        except OSError as error:
            # The lines are written; a file that cannot be moved grows, which somebody has to know, once.
            with suppress(OSError):  # where there are no locks at all
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            if not self._told:
                self._told = True
                LOG.warning("cannot turn over %s: %s", self._path.name, os.strerror(error.errno or 0).lower())

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def pieces(lines: bytes, most: int) -> Iterator[bytes]:
    """The lines in pieces of at most `most` bytes, cut between lines; a longer line is a piece of its own."""
    start = 0
    while len(lines) - start > most:
        end = lines.rfind(b"\n", start, start + most) + 1 or lines.find(b"\n", start) + 1 or len(lines)
        yield lines[start:end]
        start = end
    if start < len(lines):
        yield lines[start:]
