"""Speculation: which schedules of dynamic k are refused, and what k a batch gets."""

import pytest

from breakeven_bench.engine.hardware import NO_DRAFTER, PROFILES, eagle_drafter
from breakeven_bench.engine.speculation import Method, Speculation, drafter_of, parse_schedule

HARDWARE = PROFILES["a100-tp2-int8"]


@pytest.mark.parametrize("text", ["", "[", "5", "{}", "[]", "null", '"[[1,2,3]]"'])
def test_a_schedule_that_is_no_list_is_refused(text):
    with pytest.raises(ValueError, match="not a list of"):
        parse_schedule(text, 5, 128)


@pytest.mark.parametrize(
    "text", ["[5]", "[[1,2]]", "[[0,4,3]]", "[[4,1,3]]", "[[1,4,-1]]", '[["1",4,3]]', "[[1,4,3,2]]", "[[1.5,4,3]]"]
)
def test_a_range_that_makes_no_sense_is_refused_and_shown(text):
    with pytest.raises(ValueError, match=r"not a range .*: "):
        parse_schedule(text, 5, 128)


def test_a_schedule_that_leaves_out_the_smallest_batches_is_refused():
    with pytest.raises(ValueError, match="start at 1"):
        parse_schedule("[[2,8,3]]", 5, 128)


def test_ranges_that_overlap_are_refused():
    with pytest.raises(ValueError, match="overlap at 8"):
        parse_schedule("[[1,8,3],[8,16,1]]", 5, 128)


def test_a_batch_gets_the_k_of_its_range():
    table = parse_schedule("[[1,16,5],[17,32,3],[33,512,0]]", 5, 128)
    assert [table[batch] for batch in (1, 16, 17, 32, 33, 128)] == [5, 5, 3, 3, 0, 0]
    assert len(table) == 129


def test_the_order_of_ranges_does_not_matter():
    assert parse_schedule("[[17,32,3],[1,16,5]]", 5, 64) == parse_schedule("[[1,16,5],[17,32,3]]", 5, 64)


def test_a_gap_and_the_tail_carry_the_last_k_forward():
    table = parse_schedule("[[1,2,4],[8,9,1]]", 5, 12)
    assert table[1:] == (4, 4, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1)


def test_no_batch_gets_more_than_k():
    assert parse_schedule("[[1,4,9]]", 5, 4)[1:] == (5, 5, 5, 5)


def test_fixed_speculation_drafts_the_same_for_every_batch():
    speculation = Speculation(Method.EAGLE3, 5)
    assert {speculation.drafts_after(batch) for batch in (1, 64, 512)} == {5}


def test_dynamic_speculation_drafts_by_batch_and_knows_no_larger_one_than_its_table():
    speculation = Speculation(Method.EAGLE3, 5, by_batch=parse_schedule("[[1,2,5],[3,4,1]]", 5, 4))
    assert [speculation.drafts_after(batch) for batch in (1, 3, 4, 99)] == [5, 1, 1, 1]


def test_a_plain_engine_drafts_nothing_and_pays_nothing():
    assert Speculation().enabled is False
    assert Speculation().drafts_after(1) == 0
    assert drafter_of(Method.NONE, HARDWARE) is NO_DRAFTER


def test_every_method_but_none_has_a_drafter_and_eagle_has_its_own():
    assert drafter_of(Method.EAGLE3, HARDWARE) == eagle_drafter(HARDWARE)
    costs = {method: drafter_of(method, HARDWARE).step_s(5, 8) for method in Method if method is not Method.NONE}
    assert costs[Method.NGRAM] < costs[Method.EAGLE3] < costs[Method.DRAFT_MODEL]
