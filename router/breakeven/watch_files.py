"""Notices that files have changed, by looking at them now and then.

Polling works on every file system, and through the links by which Kubernetes exchanges mounted files; a look costs some
microseconds. A file that is still being written shall not be read by halves: a change counts once the files have kept
still from one look to the next.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

Fingerprint = tuple[int, int, int] | None
"""When a file was changed (ns), which one it is, how long it is; None where there is none."""


def fingerprint(path: Path) -> Fingerprint:
    """Of the file at the end of all links."""
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_mtime_ns, seen.st_ino, seen.st_size


class FileWatch:
    """Knows the files as they were when they were last taken."""

    def __init__(self, look: Callable[[Path], Fingerprint] = fingerprint) -> None:
        self._look = look
        self._taken: Mapping[Path, Fingerprint] = {}
        self._seen: Mapping[Path, Fingerprint] = {}

    def take(self, paths: Iterable[Path]) -> None:
        """They are about to be read as they are."""
        self._taken = self._seen = self._looked(paths)

    def note(self, paths: Iterable[Path]) -> None:
        """These have been read, and only these count: those that were not known before are taken as they are."""
        self._taken = {path: self._taken[path] if path in self._taken else self._look(path) for path in paths}

    def changed(self, paths: Iterable[Path]) -> bool:
        """Whether one of them is not as it was taken, and all have kept still since the last look."""
        now = self._looked(paths)
        still = now == self._seen
        self._seen = now
        return still and now != self._taken

    def _looked(self, paths: Iterable[Path]) -> Mapping[Path, Fingerprint]:
        return {path: self._look(path) for path in paths}
