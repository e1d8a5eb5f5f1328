"""Records on disk."""

import pytest

from breakeven_bench.record import encode
from breakeven_bench.record_file import load_records, write_records
from tests.bench.runs import record


def test_a_file_that_was_cut_off_is_refused_and_not_read_halfway(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_bytes(encode(record(0)) + encode(record(1))[:40])
    with pytest.raises(ValueError):  # noqa: PT011  # the parser's own words
        load_records(path)


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_records(tmp_path / "none.jsonl")


def test_a_folder_that_does_not_exist_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_records(tmp_path / "deep" / "records.jsonl", [record(0)])
    assert list(tmp_path.iterdir()) == []


def test_records_come_back_as_they_went(tmp_path):
    path = tmp_path / "records.jsonl"
    written = [record(index) for index in range(3)]
    write_records(path, written)
    assert load_records(path) == written
