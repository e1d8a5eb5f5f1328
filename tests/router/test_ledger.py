"""`breakeven.ledger`: numbers in a table that several processes can read, of which each writes its own row."""

import mmap
import subprocess
import sys

import pytest

from breakeven.ledger import CELLS, DIRECTORY_BYTES, HEAD_BYTES, ROW_BYTES, SPARE_CELLS, Ledger, Row, totals


def memory():
    return memoryview(bytearray(ROW_BYTES))


@pytest.fixture(params=[Ledger, lambda: Row(memory())], ids=["alone", "row"])
def ledger(request):
    return request.param()


def test_a_series_is_given_one_place_and_begins_at_0(ledger):
    place = ledger.place("requests", ("pool", "ok"))
    assert ledger.place("requests", ("pool", "ok")) == place
    assert ledger.cells[place] == 0.0
    assert ledger.found("requests", ("pool", "ok")) == place
    assert ledger.found("requests", ("pool", "bad")) is ledger.found("seconds", ()) is None
    ledger.cells[place] += 2.5
    assert list(ledger.series("requests")) == [(("pool", "ok"), [2.5])]


def test_series_do_not_share_cells(ledger):
    places = [ledger.place("seconds", (name,), 3) for name in "ab"]
    for number, place in enumerate(places):
        for cell in range(3):
            ledger.cells[place + cell] += 10 * number + cell
    assert dict(ledger.series("seconds")) == {("a",): [0, 1, 2], ("b",): [10, 11, 12]}


def test_a_metric_that_nobody_counted_has_no_series(ledger):
    assert list(ledger.series("requests")) == []
    assert totals([ledger], "requests") == {}


def test_a_reader_sees_what_the_owner_began_and_counted_after_it_came():
    shared = memory()
    owner, reader = Row(shared), Row(shared)
    for labels in (("a",), ("a", "ü"), ()):
        owner.cells[owner.place("requests", labels)] += 1
        assert dict(reader.series("requests"))[labels] == [1]


def test_who_comes_after_a_dead_owner_goes_on_in_its_series_and_gauges_begin_anew():
    shared = memory()
    before = Row(shared)
    before.cells[before.place("requests", ("a",))] += 5
    before.cells[before.place("in_flight", ("a",), 2) + 1] += 3
    keeper = Row(shared)
    keeper.clear(["in_flight", "nothing of it is here"])
    after = Row(shared)
    after.cells[after.place("requests", ("a",))] += 1
    after.place("requests", ("b",))
    assert dict(keeper.series("requests")) == {("a",): [6], ("b",): [0]}
    assert dict(keeper.series("in_flight")) == {("a",): [0, 0]}


def test_an_entry_whose_length_is_not_in_force_yet_does_not_count():
    shared = memory()
    killed = Row(shared)
    killed.place("requests", ("a",))
    in_force = bytes(shared[:8])
    killed.place("requests", ("half written",))
    shared[:8] = in_force
    after = Row(shared)
    after.cells[after.place("requests", ("b",))] += 1
    assert list(after.series("requests")) == [(("a",), [0]), (("b",), [1])]


def test_sums_are_over_all_rows_by_label_set_wherever_each_has_it():
    rows = [Row(memory()) for _ in range(3)]
    rows[0].place("padding", (), 7)
    for number, row in enumerate(rows):
        row.cells[row.place("seconds", ("a",), 2) + 1] += number + 1
    rows[2].cells[rows[2].place("seconds", ("b",), 2)] += 4
    assert totals(rows, "seconds") == {("a",): [0, 6], ("b",): [4, 0]}


def test_what_finds_no_room_is_counted_where_it_is_not_shown():
    row = Row(memory())
    row.place("seconds", ("first",), CELLS - SPARE_CELLS - 1)
    assert row.place("seconds", ("last",)) == CELLS - SPARE_CELLS - 1
    for number in range(100):
        row.cells[row.place("seconds", (str(number),), 16) + 15] += 1
    assert [labels for labels, _ in row.series("seconds")] == [("first",), ("last",)]


def test_a_full_directory_takes_no_more_names():
    row = Row(memory())
    names = ["n" * (DIRECTORY_BYTES // 2), "m" * (DIRECTORY_BYTES // 2)]
    for name in names:
        row.place(name, ())
    assert [len(list(row.series(name))) for name in names] == [1, 0]


def test_the_parts_of_a_row_are_aligned_so_that_numbers_are_written_whole():
    assert HEAD_BYTES % 8 == DIRECTORY_BYTES % 8 == ROW_BYTES % 8 == 0


COUNTS_UNTIL_KILLED = """
import mmap, sys
from breakeven.ledger import ROW_BYTES, Row
with open(sys.argv[1], "r+b") as file:
    row = Row(memoryview(mmap.mmap(file.fileno(), ROW_BYTES)))
place = row.place("requests", ("a",))
while True:
    row.cells[place] += 1
"""


@pytest.mark.slow
def test_another_process_sees_the_numbers_of_one_that_is_killed_in_the_middle(tmp_path):
    path = tmp_path / "row"
    with path.open("wb") as file:
        file.truncate(ROW_BYTES)
    with path.open("r+b") as file:
        reader = Row(memoryview(mmap.mmap(file.fileno(), ROW_BYTES)))
    owner = subprocess.Popen([sys.executable, "-c", COUNTS_UNTIL_KILLED, str(path)])
    try:
        seen = [0.0]
        while seen[-1] < 1000:
            assert owner.poll() is None
            seen.append(dict(reader.series("requests")).get(("a",), [0.0])[0])
    finally:
        owner.kill()
        owner.wait()
    seen.append(dict(reader.series("requests"))["a",][0])
    assert seen == sorted(seen)
    assert all(number == int(number) for number in seen)
