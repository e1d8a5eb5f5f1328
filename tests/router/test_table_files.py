"""`breakeven.table_files`: which tables are in force, and the one line that says why one cannot be used."""

import pytest

from breakeven.config import Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.table_files import TABLE_BYTES_MAX, tables_in_force, watched_tables
from tests.policies.tables import written

pytestmark = pytest.mark.usefixtures("clean_environment")


def settings(*paths):
    return build_settings(Settings, {"baseline": "http://127.0.0.1:1", "tables": [str(path) for path in paths]})


def mistake(*paths):
    with pytest.raises(ConfigError) as caught:
        tables_in_force(settings(*paths))
    (line,) = caught.value.lines
    return line


def put(path, content):
    path.write_bytes(content)
    return path


def test_a_file_that_is_missing_is_named(tmp_path):
    path = tmp_path / "llama.json"
    assert mistake(path) == f"tables: {path}: cannot read it: No such file or directory"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "input data was truncated"),
        (written(cells__2__running=0), "cells[2].running: must be > 0"),
        (written(cells__1__setup="k4"), "cells[1].setup: there is no setup 'k4'; there are: plain, k3"),
        (b" " * (TABLE_BYTES_MAX + 1), f"larger than {TABLE_BYTES_MAX} bytes; is this a table?"),
    ],
)
def test_a_file_that_is_no_table_is_named_with_what_is_wrong(tmp_path, content, told):
    path = put(tmp_path / "llama.json", content)
    assert mistake(path) == f"tables: {path}: {told}"


def test_a_folder_without_tables_is_a_mistake(tmp_path):
    put(tmp_path / "table.schema.json", b"{}")
    assert mistake(tmp_path) == f"tables: {tmp_path}: no table (*.json) is in this folder"


def test_two_tables_of_one_name_are_a_mistake(tmp_path):
    first, second = put(tmp_path / "a.json", written()), put(tmp_path / "b.json", written())
    assert mistake(tmp_path) == f"tables: {second}: 'llama-on-a100' is the name of {first} too"


def test_a_folder_stands_for_the_tables_in_it_in_order_of_name(tmp_path):
    for name in ("b", "a"):
        put(tmp_path / f"{name}.json", written(name=name))
    put(tmp_path / ".hidden.json", b"")
    put(tmp_path / "notes.txt", b"")
    assert [table.name for table in tables_in_force(settings(tmp_path))] == ["a", "b"]


def test_without_the_setting_those_that_ship_are_in_force():
    assert "user-prior-eagle3-k5" in [table.name for table in tables_in_force(settings())]


def test_what_is_watched_are_the_files_and_the_folders(tmp_path):
    inside = put(tmp_path / "a.json", written())
    empty, gone = tmp_path / "empty", tmp_path / "gone.json"
    empty.mkdir()
    assert watched_tables([tmp_path, empty, gone]) == (tmp_path, inside, empty, gone)
