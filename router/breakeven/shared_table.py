"""Memory that several processes map: a row (`ledger.Row`) for each. It has no name, and ends with the last of them.

So there is no directory that has to be writable, and no file of an earlier run that somebody could count again.
"""

import mmap
import os

from breakeven.ledger import ROW_BYTES, Row


def new_table(rows: int) -> int:
    """The descriptor of an empty table; a process that inherits it can map it. Only what is touched takes memory."""
    descriptor = os.memfd_create("breakeven")
    os.ftruncate(descriptor, rows * ROW_BYTES)
    return descriptor


def rows_of(table: int, rows: int) -> list[Row]:
    """The rows of a table."""
    memory = memoryview(mmap.mmap(table, rows * ROW_BYTES))
    return [Row(memory[row * ROW_BYTES : (row + 1) * ROW_BYTES]) for row in range(rows)]
