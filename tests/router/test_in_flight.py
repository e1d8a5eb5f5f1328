"""`breakeven.in_flight`: each process counts its own requests and sees those of all."""

from breakeven.in_flight import InFlight
from breakeven.ledger import ROW_BYTES, Row

BACKEND = ("pool", "pool-0")


def test_a_process_that_is_alone_has_nobody_elsewhere():
    counts = InFlight()
    counts.cells[counts.place(*BACKEND)] += 2
    counts.look()
    assert not counts.shared
    assert counts.elsewhere(*BACKEND) == 0


def test_the_counts_of_all_others_are_added_wherever_they_have_them():
    memories = [memoryview(bytearray(ROW_BYTES)) for _ in range(3)]
    own, *others = (Row(memory) for memory in memories)
    counts = InFlight(own, [Row(memory) for memory in memories[1:]])
    assert counts.shared
    counts.look()
    assert counts.elsewhere(*BACKEND) == 0
    others[1].place("padding", (), 5)
    for number, row in enumerate(others, 1):
        other = InFlight(row)
        other.cells[other.place(*BACKEND)] += number
    counts.look()
    assert counts.elsewhere(*BACKEND) == 3
    other.cells[other.place(*BACKEND)] += 1
    assert counts.elsewhere(*BACKEND) == 4
    assert counts.elsewhere("pool", "another") == 0
    assert own.found("breakeven_requests_in_flight", BACKEND) is None


def test_what_others_begin_to_count_is_seen_also_where_somebody_else_has_taken_note_of_it():
    shared = memoryview(bytearray(ROW_BYTES))
    seen = Row(shared)
    counts = InFlight(Row(memoryview(bytearray(ROW_BYTES))), [seen])
    counts.look()
    assert counts.elsewhere(*BACKEND) == 0
    other = InFlight(Row(shared))
    other.cells[other.place(*BACKEND)] += 1
    assert list(seen.series("breakeven_requests_in_flight"))  # as a metrics page does
    counts.look()
    assert counts.elsewhere(*BACKEND) == 1
