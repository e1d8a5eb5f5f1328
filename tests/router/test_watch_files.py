"""`breakeven.watch_files`: a change is noticed once the file keeps still."""

import os
from pathlib import Path

from breakeven.watch_files import FileWatch, Fingerprint, fingerprint

CONFIG, KEYS = Path("c.yaml"), Path("keys")


class Disk:
    """Files with a version each."""

    def __init__(self, **versions: int) -> None:
        self.versions = versions

    def look(self, path: Path) -> Fingerprint:
        version = self.versions.get(path.stem)
        return None if version is None else (version, 1, 1)


def watched(disk: Disk, *paths: Path) -> FileWatch:
    watch = FileWatch(disk.look)
    watch.take(paths)
    return watch


def test_what_stays_the_same_is_no_change() -> None:
    watch = watched(Disk(c=1), CONFIG)
    assert [watch.changed([CONFIG]) for _ in range(3)] == [False, False, False]


def test_a_change_counts_once_the_file_keeps_still() -> None:
    disk = Disk(c=1)
    watch = watched(disk, CONFIG)
    for version in (2, 3):
        disk.versions["c"] = version
        assert not watch.changed([CONFIG])
    assert watch.changed([CONFIG])
    watch.take([CONFIG])
    assert not watch.changed([CONFIG])


def test_a_change_back_to_what_was_taken_is_none() -> None:
    disk = Disk(c=1)
    watch = watched(disk, CONFIG)
    disk.versions["c"] = 2
    watch.changed([CONFIG])
    disk.versions["c"] = 1
    assert [watch.changed([CONFIG]) for _ in range(2)] == [False, False]


def test_a_file_that_goes_and_comes_back_has_changed() -> None:
    disk = Disk(c=1, keys=1)
    watch = watched(disk, CONFIG, KEYS)
    del disk.versions["keys"]
    assert [watch.changed([CONFIG, KEYS]) for _ in range(2)] == [False, True]
    watch.take([CONFIG, KEYS])
    disk.versions["keys"] = 2
    assert [watch.changed([CONFIG, KEYS]) for _ in range(2)] == [False, True]


def test_a_file_that_is_newly_named_is_no_change_by_itself() -> None:
    disk = Disk(c=1, keys=1)
    watch = watched(disk, CONFIG)
    watch.note([CONFIG, KEYS])
    assert [watch.changed([CONFIG, KEYS]) for _ in range(3)] == [False, False, False]
    disk.versions["keys"] = 2
    assert [watch.changed([CONFIG, KEYS]) for _ in range(2)] == [False, True]


def test_a_file_that_changed_while_another_was_newly_named_has_changed() -> None:
    disk = Disk(c=1, keys=1)
    watch = watched(disk, CONFIG)
    disk.versions["c"] = 2
    watch.note([CONFIG, KEYS])
    assert [watch.changed([CONFIG, KEYS]) for _ in range(2)] == [False, True]


def test_a_fingerprint_is_another_one_after_every_way_to_change_a_file(tmp_path: Path) -> None:
    """As Kubernetes does it, too: the name is a link, and the link is exchanged."""
    first, second, name = tmp_path / "1", tmp_path / "2", tmp_path / "name"
    assert fingerprint(name) is None
    first.write_text("a")
    second.write_text("b")
    os.utime(second, ns=(first.stat().st_mtime_ns,) * 2)
    name.symlink_to(first)
    seen = {fingerprint(name)}
    name.unlink()
    name.symlink_to(second)
    seen.add(fingerprint(name))
    second.write_text("longer")
    seen.add(fingerprint(name))
    os.utime(second, ns=(1, 1))
    seen.add(fingerprint(name))
    assert len(seen) == 4
