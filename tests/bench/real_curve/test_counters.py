"""The counters of a page are vLLM's own, and only what moved between two pages of one life of an engine counts."""

from pathlib import Path

import pytest

from breakeven_bench.real_curve.counters import Counters, read_counters

PAGES = Path(__file__).parents[2] / "pages" / "vllm"

PAGE = """\
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="m"} 100.0
vllm:generation_tokens_total{engine="1",model_name="m"} 20.0
vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e+09
vllm:num_requests_running{engine="0"} 2.0
vllm:num_requests_waiting{engine="0"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 1.0
"""

DRAFTS = """\
vllm:spec_decode_num_drafts_total{engine="0"} 40.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 120.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="10"} 1.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 5.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 4.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",position="0"} 1.7e+09
"""


@pytest.mark.parametrize("page", ["", "<html>", "vllm:num_requests_running 0\n"])
def test_a_page_of_no_engine_is_refused(page):
    with pytest.raises(ValueError, match="without vllm:generation_tokens_total"):
        read_counters(page)


def test_a_position_without_a_number_counts_for_nothing():
    odd = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0"} 9.0\n'
    assert read_counters(PAGE + odd).accepted_per_position == ()


def test_a_plain_engine_drafts_nothing_and_label_sets_are_summed():
    assert read_counters(PAGE) == Counters(requests=3, generated_tokens=120)


def test_positions_come_in_their_order_and_creation_times_do_not_count():
    counters = read_counters(PAGE + DRAFTS)
    assert (counters.drafts, counters.draft_tokens, counters.accepted_tokens) == (40, 120, 30)
    assert counters.accepted_per_position == (25, 4, 1)


@pytest.mark.parametrize(
    "later", [Counters(requests=0, generated_tokens=9, drafts=5), Counters(requests=0, generated_tokens=12, drafts=3)]
)
def test_a_counter_that_fell_means_a_restart_and_is_refused(later):
    with pytest.raises(ValueError, match="restarted in between"):
        later.since(Counters(requests=0, generated_tokens=10, drafts=4))


def test_what_moved_is_the_difference_and_the_requests_are_those_of_now():
    earlier = Counters(5, 10, 4, 12, 3, (2, 1, 0))
    later = Counters(0, 40, 14, 42, 13, (8, 4, 1))
    assert later.since(earlier) == Counters(0, 30, 10, 30, 10, (6, 3, 1))


def test_an_engine_that_had_not_drafted_yet_named_no_position():
    assert Counters(0, 40, 14, 42, 13, (8, 4, 1)).since(Counters(0, 1)).accepted_per_position == (8, 4, 1)


@pytest.mark.parametrize("path", sorted(PAGES.glob("*/metrics-speculative.txt")), ids=lambda path: path.parent.name)
def test_a_recorded_page_of_real_vllm_adds_up(path):
    counters = read_counters(path.read_text())
    assert counters.drafts > 0
    assert sum(counters.accepted_per_position) == counters.accepted_tokens
    assert counters.draft_tokens <= len(counters.accepted_per_position) * counters.drafts
