"""`breakeven.engines.vllm`: every oddity of a metrics page skips that sample only; absent is absent, never zero."""

import sys
from math import inf, isclose, nan
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.engines.vllm import (
    LINE_BYTES_MAX,
    POSITIONS_MAX,
    SignalReader,
    acceptance_length,
    draft_acceptance_rate,
    health_event,
    read_signals,
    restarted,
)
from breakeven.fleet import ProbeFailed, ProbeSucceeded
from breakeven_policies.snapshot import EngineSignals

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="llama-70b"} 3.0
vllm:num_requests_waiting{engine="0",model_name="llama-70b"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="llama-70b",reason="capacity"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="llama-70b"} 0.25
vllm:num_preemptions_total{engine="0",model_name="llama-70b"} 1.0
vllm:prompt_tokens_total{engine="0",model_name="llama-70b"} 1000.0
vllm:prompt_tokens_by_source_total{engine="0",model_name="llama-70b",source="local_compute"} 900.0
vllm:generation_tokens_total{engine="0",model_name="llama-70b"} 250.0
vllm:generation_tokens_created{engine="0",model_name="llama-70b"} 1.77e+09
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="llama-70b"} 3.0
vllm:iteration_tokens_total_count{engine="0",model_name="llama-70b"} 120.0
vllm:iteration_tokens_total_sum{engine="0",model_name="llama-70b"} 1250.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="llama-70b"} 100.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="llama-70b"} 1.77e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="llama-70b"} 300.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="llama-70b"} 150.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="llama-70b",position="0"} 80.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="llama-70b",position="1"} 50.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="llama-70b",position="2"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="llama-70b",position="0"} 1.77e+09
"""
"""In the shape of a page of vLLM 0.33.0, names and labels from its source."""

SIGNALS = EngineSignals(
    running=3.0,
    waiting=2.0,
    kv_usage=0.25,
    preemptions=1.0,
    prompt_tokens=1000.0,
    generation_tokens=250.0,
    drafts=100.0,
    draft_tokens=300.0,
    accepted_tokens=150.0,
    accepted_tokens_per_position=(80.0, 50.0, 20.0),
    engine_steps=120.0,
)


def test_a_page_of_the_current_engine_is_read_and_created_time_stamps_are_not_data() -> None:
    assert read_signals(PAGE) == SIGNALS


@pytest.mark.parametrize(
    "page",
    [
        "",
        "\n",
        "# EOF\n",
        "<!doctype html><html><body>502 Bad Gateway</body></html>",
        "\x00\ud800\n",
        "vllm:",
        "{}\n} 3",
    ],
    ids=["empty", "blank", "end mark", "html", "garbage", "prefix", "braces"],
)
def test_a_page_without_metrics_leaves_everything_unknown(page: str) -> None:
    assert read_signals(page) == EngineSignals()


def test_the_old_name_of_the_kv_cache_is_read() -> None:
    assert read_signals('vllm:gpu_cache_usage_perc{model_name="m"} 0.5\n').kv_usage == 0.5


def test_old_and_new_name_on_one_page_are_not_added_up() -> None:
    assert read_signals("vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n").kv_usage == 0.25


@pytest.mark.parametrize("suffix", ["", "_total"])
def test_counters_are_read_with_and_without_total(suffix: str) -> None:
    assert read_signals(f"vllm:generation_tokens{suffix} 7\n").generation_tokens == 7.0


def test_a_counter_under_both_names_counts_once() -> None:
    page = "vllm:spec_decode_num_drafts 5\nvllm:spec_decode_num_drafts_total 5\n"
    assert read_signals(page).drafts == 5.0


def test_series_of_several_engines_are_summed_and_the_fullest_cache_counts() -> None:
    lines = []
    for engine in range(8):
        lines.append(f'vllm:num_requests_running{{engine="{engine}",model_name="m"}} {engine}')
        lines.append(f'vllm:kv_cache_usage_perc{{engine="{engine}",model_name="m"}} 0.{engine}')
        lines.append(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="0",engine="{engine}",model_name="m"}} 2'
        )
    found = read_signals("\n".join(lines))
    assert (found.running, found.kv_usage, found.accepted_tokens_per_position) == (28.0, 0.7, (16.0,))


def test_the_order_of_labels_and_odd_label_values_do_not_matter() -> None:
    page = 'vllm:num_requests_running{model_name="a}b \\"c\\" # {d",engine="0"} 4 1700000000000\n'
    assert read_signals(page).running == 4.0


def test_a_position_named_inside_another_label_is_not_the_position() -> None:
    page = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="m",draft_position="7"} 4\n'
    assert read_signals(page).accepted_tokens_per_position == ()


@pytest.mark.parametrize(
    "value",
    ["NaN", "+Inf", "-Inf", "-1", "abc", "", "0x10", "{", '{engine="0" 3'],
    ids=lambda value: value or "nothing",
)
def test_an_unusable_sample_is_skipped_and_its_neighbours_are_read(value: str) -> None:
    found = read_signals(f"vllm:num_requests_running {value}\nvllm:num_requests_waiting 2\n")
    assert (found.running, found.waiting) == (None, 2.0)


def test_a_share_above_one_is_no_share() -> None:
    assert read_signals("vllm:kv_cache_usage_perc 37\n").kv_usage is None


def test_openmetrics_with_exemplars_windows_line_ends_and_types_unknown_is_read() -> None:
    page = (
        "# TYPE vllm:num_requests_running unknown\r\n"
        'vllm:num_requests_running{engine="0"} 4.0 # {trace_id="abc"} 0.67 1.6e9\r\n'
        "# EOF\r\n"
    )
    assert read_signals(page).running == 4.0


def test_positions_end_at_the_first_gap_and_absurd_ones_are_ignored() -> None:
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    page = "".join(f'{name}{{position="{position}"}} 1\n' for position in (0, 1, 3, POSITIONS_MAX, "1e3", -1))
    assert read_signals(page).accepted_tokens_per_position == (1.0, 1.0)


def test_a_line_longer_than_its_limit_is_skipped_without_being_stored() -> None:
    reader = SignalReader()
    reader.feed(b'vllm:num_requests_running{model_name="')
    for _ in range(4):
        reader.feed(b"x" * LINE_BYTES_MAX)
    reader.feed(b'"} 3\nvllm:num_requests_waiting 2\nvllm:num_requests_running 1')
    assert (reader.finish().running, reader.finish().waiting) == (1.0, 2.0)


def test_an_overlong_line_that_comes_whole_is_skipped_too() -> None:
    page = f'vllm:num_requests_running{{model_name="{"x" * LINE_BYTES_MAX}"}} 3\nvllm:num_requests_waiting 2\n'
    found = read_signals(page)
    assert (found.running, found.waiting) == (None, 2.0)


def test_a_page_that_ends_inside_an_overlong_line_is_read_up_to_it() -> None:
    reader = SignalReader()
    reader.feed(b"vllm:num_requests_waiting 2\n" + b"x" * (LINE_BYTES_MAX + 1))
    assert reader.finish().waiting == 2.0


@given(st.lists(st.integers(min_value=1, max_value=len(PAGE) - 1), max_size=8))
def test_it_does_not_matter_in_which_pieces_a_page_arrives(cuts: list[int]) -> None:
    page, reader, start = PAGE.encode(), SignalReader(), 0
    for cut in [*sorted(cuts), len(page)]:
        reader.feed(page[start:cut])
        start = cut
    assert reader.finish() == SIGNALS


@given(st.text(alphabet='vllm:num_requests_running{}=",\\ \n#0123456789.eE+-NaInf', max_size=200))
def test_no_page_makes_the_reader_fail(text: str) -> None:
    found = read_signals(f"vllm:num_requests_waiting 2\n{text}\nvllm:num_preemptions 3\n")
    assert found.preemptions is not None


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer multiplies the cost")
def test_a_thousand_lines_are_read_within_the_time_a_relay_may_wait() -> None:
    filler = "".join(
        f'vllm:e2e_request_latency_seconds_bucket{{engine="0",le="{i}",model_name="m"}} 1.0\n' for i in range(980)
    )
    page = filler + PAGE

    def timed() -> float:
        began = perf_counter()
        assert read_signals(page) == SIGNALS
        return perf_counter() - began

    assert min(timed() for _ in range(20)) < 0.002


BEFORE = EngineSignals(drafts=100.0, draft_tokens=300.0, accepted_tokens=150.0, generation_tokens=400.0)
AFTER = EngineSignals(drafts=200.0, draft_tokens=600.0, accepted_tokens=300.0, generation_tokens=900.0)


def test_acceptance_is_taken_between_two_scrapes() -> None:
    assert acceptance_length(BEFORE, AFTER) == 2.5
    assert draft_acceptance_rate(BEFORE, AFTER) == 0.5


def test_acceptance_since_the_start_is_that_of_the_counters() -> None:
    zero = EngineSignals(drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0)
    assert acceptance_length(zero, SIGNALS) == 2.5
    assert draft_acceptance_rate(zero, SIGNALS) == 0.5


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(BEFORE, BEFORE, id="nothing drafted"),
        pytest.param(EngineSignals(running=1.0), EngineSignals(running=1.0), id="no speculation"),
        pytest.param(EngineSignals(), AFTER, id="first scrape"),
        pytest.param(AFTER, EngineSignals(), id="last scrape empty"),
        pytest.param(AFTER, BEFORE, id="restart"),
        pytest.param(
            EngineSignals(drafts=1.0, draft_tokens=3.0, accepted_tokens=1.0, generation_tokens=9.0),
            EngineSignals(drafts=2.0, draft_tokens=6.0, accepted_tokens=2.0, generation_tokens=8.0),
            id="restart that only another counter shows",
        ),
    ],
)
def test_acceptance_is_unknown_where_nothing_can_be_said(before: EngineSignals, after: EngineSignals) -> None:
    assert acceptance_length(before, after) is None
    assert draft_acceptance_rate(before, after) is None


@given(
    st.floats(min_value=1, max_value=1e6), st.floats(min_value=0, max_value=1), st.integers(min_value=1, max_value=8)
)
def test_length_and_rate_agree_where_every_draft_has_k_tokens(drafts: float, rate: float, k: int) -> None:
    zero = EngineSignals(drafts=0.0, draft_tokens=0.0, accepted_tokens=0.0)
    after = EngineSignals(drafts=drafts, draft_tokens=k * drafts, accepted_tokens=rate * k * drafts)
    length = acceptance_length(zero, after)
    assert length is not None
    assert isclose(length, 1 + k * rate)


def test_gauges_may_fall_without_a_restart() -> None:
    assert not restarted(EngineSignals(running=9.0, kv_usage=0.9), EngineSignals(running=1.0, kv_usage=0.1))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, ProbeSucceeded("e")),
        (503, ProbeFailed("e", "GET /health answered 503", loading=True)),
        (500, ProbeFailed("e", "GET /health answered 500")),
        (307, ProbeFailed("e", "GET /health answered 307")),
    ],
)
def test_health_answers_mean_what_the_engine_means(status: int, expected: ProbeSucceeded | ProbeFailed) -> None:
    assert health_event("e", status) == expected


@pytest.mark.parametrize(("status", "word"), [(401, "api_key"), (403, "api_key"), (404, "address")])
def test_an_answer_of_misconfiguration_keeps_the_engine_and_warns(status: int, word: str) -> None:
    event = health_event("e", status)
    assert isinstance(event, ProbeSucceeded)
    assert word in (event.warning or "")


def test_not_a_number_never_leaves_the_reader() -> None:
    found = read_signals(
        f"vllm:num_requests_running {nan}\nvllm:num_requests_running {inf}\nvllm:num_requests_running 1"
    )
    assert found.running == 1.0
