"""`breakeven_bench.replay.journal_files`: every file of a journal, oldest first, line by line."""

import gzip
from pathlib import Path

import pytest

from breakeven_bench.replay.journal_files import JOURNAL, LINE_BYTES_MAX, Lines, journal_files


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal turned over eleven times, two of the files packed; others of similar names lie beside it."""
    path = tmp_path / JOURNAL
    path.write_bytes(b"new\n")
    for number in range(1, 12):
        turned = tmp_path / f"{JOURNAL}.{number}"
        if number in {2, 10}:
            turned.with_name(f"{turned.name}.gz").write_bytes(gzip.compress(b"%d\n" % number))
        else:
            turned.write_bytes(b"%d\n" % number)
    for other in ("old", "1.bak", "x.1", "1.gz.tmp"):
        (tmp_path / f"{JOURNAL}.{other}").write_bytes(b"other\n")
    return path


def test_where_there_is_none_the_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no journal there"):
        journal_files(tmp_path)


def test_a_journal_is_read_from_its_oldest_file_to_its_newest_packed_ones_included(journal: Path) -> None:
    lines = Lines(journal_files(journal))
    assert [line.strip() for line in lines] == [b"%d" % number for number in range(11, 0, -1)] + [b"new"]
    assert lines.read_bytes == lines.total_bytes == sum(file.stat().st_size for file in journal_files(journal))


def test_a_folder_stands_for_the_journal_in_it_and_a_file_that_was_turned_over_for_itself(journal: Path) -> None:
    assert journal_files(journal.parent) == journal_files(journal)
    alone = journal.with_name(f"{JOURNAL}.10.gz")
    assert journal_files(alone) == [alone]


def test_a_journal_whose_newest_file_is_gone_is_still_read(journal: Path) -> None:
    journal.unlink()
    assert len(journal_files(journal)) == 11


def test_a_file_without_line_ends_is_never_held_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    path.write_bytes(b"x" * (LINE_BYTES_MAX + 10))
    assert [len(line) for line in Lines([path])] == [LINE_BYTES_MAX, 10]


def test_a_packed_file_that_was_cut_off_is_an_error_after_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / f"{JOURNAL}.1.gz"
    path.write_bytes(gzip.compress(b"line\n" * 10_000)[:-20])
    lines = iter(Lines([path]))
    assert next(lines) == b"line\n"
    with pytest.raises(EOFError):
        list(lines)
