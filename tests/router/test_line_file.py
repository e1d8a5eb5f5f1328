"""`breakeven.line_file`: whole lines whatever happens to the disk, the name, or to the other process."""

import errno
import fcntl
import os
import subprocess
import sys
from collections import Counter
from io import FileIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.line_file import LineDescriptor, LineFile, pieces


class Stubborn(FileIO):
    """Takes as many bytes as each entry says; None: nothing now; an exception: that."""

    def __init__(self, path: Path, takes: list[int | OSError | None]) -> None:
        super().__init__(path, "ab")
        self.takes = takes

    def write(self, data: object) -> int | None:  # type: ignore[override]
        take = self.takes.pop(0) if self.takes else len(data)  # type: ignore[arg-type]
        if isinstance(take, OSError):
            raise take
        return None if take is None else super().write(bytes(data)[:take])  # type: ignore[call-overload]


def stubborn(path: Path, *takes: int | OSError | None) -> LineFile:
    file = LineFile(path)
    file.close()
    file._take(Stubborn(path, list(takes)))
    return file


def test_a_place_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        LineFile(tmp_path)


def test_a_disk_that_is_full_between_two_lines_leaves_no_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = stubborn(path, 6, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="No space"):
        file.write(b"first\n second\n")
    file.write(b"third\n")
    file.close()
    assert path.read_bytes() == b"first\nthird\n"


def test_after_half_a_line_the_next_one_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = stubborn(path, 3, None)
    with pytest.raises(BlockingIOError):
        file.write(b"first\n")
    file.write(b"second\n")
    file.close()
    assert path.read_bytes() == b"fir\nsecond\n"


def test_half_a_line_that_another_process_left_behind_spoils_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"whole\nhal")
    for line in (b"one\n", b"two\n"):
        file = LineFile(path)
        file.write(line)
        file.close()
    assert path.read_bytes() == b"whole\nhal\none\ntwo\n"


def test_a_file_that_is_moved_away_is_left_and_a_new_one_begun(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LineFile(path)
    file.write(b"one\n")
    path.rename(tmp_path / "log.old")
    file.write(b"two\n")
    path.unlink()
    file.write(b"three\n")
    file.close()
    assert (path.read_bytes(), (tmp_path / "log.old").read_bytes()) == (b"three\n", b"one\n")


def test_a_folder_that_is_gone_costs_lines_until_it_is_there_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file = LineFile(folder / "log")
    (folder / "log").unlink()
    folder.rmdir()
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            file.write(b"lost\n")
    folder.mkdir()
    file.write(b"kept\n")
    file.close()
    assert (folder / "log").read_bytes() == b"kept\n"


def test_a_full_file_is_turned_over_and_only_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LineFile(path, bytes_max=8, kept=2)
    for line in (b"one\n", b"two\n", b"three three\n", b"four four\n", b"five\n"):
        file.write(line)
    file.close()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {
        "log": b"five\n", "log.1": b"four four\n", "log.2": b"three three\n",
    }  # fmt: skip


def test_two_processes_share_a_file_and_turn_it_over_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    one, other = LineFile(path, bytes_max=12, kept=3), LineFile(path, bytes_max=12, kept=3)
    one.write(b"one 1\n")
    other.write(b"other 1\n")
    one.write(b"one 2\n")
    other.write(b"other 2\n")
    for file in (one, other):
        file.close()
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {
        "log.2": b"one 1\nother 1\n", "log.1": b"one 2\nother 2\n",
    }  # fmt: skip


def test_a_file_that_another_process_is_turning_over_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LineFile(path, bytes_max=1)
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        file.write(b"one\n")
    file.write(b"two\n")
    file.close()
    assert [each.name for each in tmp_path.iterdir()] == ["log.1"]
    assert (tmp_path / "log.1").read_bytes() == b"one\ntwo\n"


def test_one_that_has_been_turned_over_meanwhile_is_not_turned_over_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log"
    file = LineFile(path, bytes_max=1)
    lock = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *how: (path.rename(tmp_path / "log.1"), lock(*how)))
    file.write(b"one\n")
    file.close()
    assert [each.name for each in tmp_path.iterdir()] == ["log.1"]


def test_a_file_that_cannot_be_moved_grows_and_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuses(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuses)
    file = LineFile(tmp_path / "log", bytes_max=1)
    file.write(b"one\n")
    file.write(b"two\n")
    file.close()
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    assert [entry.message for entry in caplog.records] == ["cannot turn over log: permission denied"]


def test_what_goes_into_a_pipe_is_never_more_at_once_than_a_pipe_takes_whole() -> None:
    reading, writing = os.pipe()
    place = LineDescriptor(writing)
    line = b"x" * 999 + b"\n"
    place.write(line * 10)
    place.close()
    os.close(writing)  # it was not ours to close
    with FileIO(reading) as pipe:
        assert pipe.read() == line * 10


@settings(max_examples=40)
@given(st.lists(st.binary(max_size=20).map(lambda text: text.replace(b"\n", b"") + b"\n")), st.integers(1, 30))
def test_pieces_are_whole_lines_and_nothing_is_lost(lines: list[bytes], most: int) -> None:
    cut = list(pieces(b"".join(lines), most))
    assert b"".join(cut) == b"".join(lines)
    assert all(piece.endswith(b"\n") for piece in cut)
    assert all(len(piece) <= most or piece.count(b"\n") == 1 for piece in cut)


def test_a_rest_without_its_line_end_is_a_piece_too() -> None:
    assert list(pieces(b"abcdef", 3)) == [b"abcdef"]


WRITER = """
import sys
from pathlib import Path
from breakeven.line_file import LineFile
file = LineFile(Path(sys.argv[1]), 20_000, 1000)
for number in range(1000):
    lines = [f"{sys.argv[2]} {number} {part} {'x' * (number % 50)}\\n" for part in (1, 2)]
    file.write("".join(lines).encode())
"""


@pytest.mark.slow
def test_of_what_several_processes_write_at_once_no_line_is_lost_mixed_or_written_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "journal")]
    writers = [subprocess.Popen([*command, name]) for name in ("a", "b", "c")]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    files = list(tmp_path.iterdir())
    written = Counter(line for file in files for line in file.read_text().splitlines())
    assert len(files) > 1
    assert written == Counter(
        f"{name} {number} {part} {'x' * (number % 50)}" for name in "abc" for number in range(1000) for part in (1, 2)
    )
