"""`breakeven.shared_table`: memory without a name, which every process that has its descriptor can map."""

import os
import subprocess
import sys

import pytest

from breakeven.ledger import ROW_BYTES
from breakeven.shared_table import new_table, rows_of

COUNTS = """
import sys
from breakeven.shared_table import rows_of
row = rows_of(int(sys.argv[1]), 3)[1]
row.cells[row.place("requests", ("a",))] += 7
"""


@pytest.fixture
def table():
    descriptor = new_table(3)
    yield descriptor
    os.close(descriptor)


def test_rows_do_not_overlap(table):
    rows = rows_of(table, 3)
    for number, row in enumerate(rows):
        row.cells[row.place("requests", ("a",))] += number + 1
    assert [list(row.series("requests")) for row in rows_of(table, 3)] == [[(("a",), [n])] for n in (1, 2, 3)]


def test_what_nobody_touches_takes_no_memory(table):
    rows_of(table, 3)[2].place("requests", ("a",))
    assert os.fstat(table).st_blocks * 512 < ROW_BYTES / 100


@pytest.mark.slow
def test_a_process_that_inherits_the_descriptor_counts_in_the_same_memory(table):
    subprocess.run([sys.executable, "-c", COUNTS, str(table)], pass_fds=(table,), check=True)
    assert list(rows_of(table, 3)[1].series("requests")) == [(("a",), [7])]
