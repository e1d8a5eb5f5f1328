"""Summaries: what failed is not forgotten, what is unknown is not zero, and doubts are said."""

from dataclasses import replace

import pytest

from breakeven_bench.engine_page import StepCounts
from breakeven_bench.record import ErrorClass, figures
from breakeven_bench.summary import (
    Target,
    doubts,
    events_per_read,
    gap_p95_ms,
    lives,
    shares,
    summarise,
    token_weighted_ms,
)
from tests.bench.runs import record, summary

TARGET = Target()


def test_a_summary_of_nothing_is_a_mistake():
    with pytest.raises(ValueError, match="nothing was sent to arm"):
        summarise("arm", 1.0, [], TARGET)


def test_an_arm_that_answered_nothing_has_no_figures_but_has_its_errors():
    dead = [record(index, error=ErrorClass.CONNECT, event_s=(), event_tokens=(), pool=None) for index in range(3)]
    made = summarise("arm", 1.0, dead, TARGET)
    assert (made.sent, made.errors, made.latencies_s) == (3, {"connect": 3}, {})
    assert (made.latency_mean_s, made.latency_p95_s, made.ttft_mean_s, made.tpot_mean_ms) == (None, None, None, None)
    assert (made.tpot_token_weighted_ms, made.tokens_per_event, made.events_per_read) == (None, None, None)
    assert made.gap_p95_ms is None
    assert (made.within_target, made.pool_shares, made.settled) == (0.0, {}, None)


def test_what_failed_did_not_meet_the_target():
    sent = [record(0), record(1, error=ErrorClass.TRUNCATED)]
    made = summarise("arm", 1.0, sent, Target(ttft_s=10.0, tpot_ms=1000.0))
    assert made.within_target == 0.5
    assert made.latencies_s == {0: 3.0}


def test_the_figures_are_means_over_answers():
    made = summarise("arm", 1.0, [record(0, latency_s=3.0), record(1, latency_s=5.0)], TARGET)
    assert (made.latency_mean_s, made.ttft_mean_s) == (4.0, 1.0)
    # 2 s and 4 s for 20 tokens each
    assert made.tpot_mean_ms == pytest.approx(150.0)
    assert made.tokens_per_event == 10.0


def test_a_p95_is_refused_below_59_answers_and_given_from_there():
    assert summarise("arm", 1.0, [record(index) for index in range(58)], TARGET).latency_p95_s is None
    given = summarise("arm", 1.0, [record(index) for index in range(59)], TARGET).latency_p95_s
    assert given is not None
    assert (given.value, given.n) == (3.0, 59)


def test_a_long_answer_counts_more_in_the_token_weighted_time_per_token():
    # 20 tokens at 100 ms and 200 tokens at 10 ms
    slow = record(0, latency_s=3.0)
    fast = record(1, latency_s=3.0, event_tokens=(1, 101, 201), completion_tokens=201)
    made = summarise("arm", 1.0, [slow, fast], TARGET)
    assert made.tpot_mean_ms == pytest.approx(55.0)
    assert made.tpot_token_weighted_ms == pytest.approx(1000.0 * 4.0 / 220)


def test_without_counted_tokens_there_is_no_token_weighted_time():
    assert token_weighted_ms([record(0, completion_tokens=None)]) is None


def test_times_are_seconds_of_the_engine_and_not_of_the_wall_clock():
    made = summarise("arm", 1.0, [record(0, time_scale=10.0, sent_s=0.002)], TARGET)
    assert (made.latency_mean_s, made.late_p95_s) == (30.0, pytest.approx(0.02))
    assert lives([record(2, time_scale=10.0)]) == ([20.0], [50.0])


def test_the_share_of_late_sends_is_of_all_that_was_sent():
    sent = [record(0), record(1, sent_s=1.2, error=ErrorClass.TIMEOUT)]
    assert summarise("arm", 1.0, sent, TARGET).late_share == 0.5


def test_an_arm_that_does_not_keep_up_has_not_settled():
    sent = [record(index, latency_s=3.0 + index) for index in range(60)]
    assert summarise("arm", 1.0, sent, TARGET).settled is False


def test_an_arm_that_keeps_up_has_settled():
    assert summarise("arm", 1.0, [record(index) for index in range(60)], TARGET).settled is True


def test_a_request_that_was_given_up_has_no_end():
    assert lives([record(0, end_s=None, error=ErrorClass.UNFINISHED)]) == ([0.0], [None])


def test_events_per_socket_read_show_a_client_that_reads_late():
    assert events_per_read([record(0, reads=1), record(1, reads=2)]) == 2.0


def test_shares_of_pools_add_up_to_one():
    assert shares(["b", "a", "b", "b"]) == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize(
    ("ttft_s", "tpot_ms", "expected"),
    [(2.0, 50.0, True), (2.1, 50.0, False), (2.0, 50.1, False), (2.0, None, True), (2.1, None, False)],
)
def test_an_answer_is_in_time_if_its_first_token_and_its_pace_are(ttft_s, tpot_ms, expected):
    served = figures(record(0))
    assert served is not None
    assert TARGET.is_met(replace(served, ttft_s=ttft_s, tpot_ms=tpot_ms)) is expected


def test_more_than_five_percent_of_late_steps_are_a_doubt():
    assert doubts(summary(), StepCounts(100, 6), 0.0) == ("6.0% of engine steps late",)


def test_late_sends_are_a_doubt():
    assert doubts(replace(summary(), late_share=0.06), None, None) == ("6.0% of requests sent late",)


def test_a_lagging_loop_is_a_doubt():
    assert doubts(summary(), None, 0.3) == ("client lagged 0.30 s",)


@pytest.mark.parametrize("steps", [None, StepCounts(0, 0), StepCounts(100, 5)])
def test_a_run_within_its_bounds_is_believed(steps):
    assert doubts(replace(summary(), late_share=0.05), steps, 0.1) == ()


def test_the_gaps_between_events_are_told_from_59_of_them_on():
    # two gaps of one second each in every answer
    assert gap_p95_ms([record(index) for index in range(29)]) is None
    assert gap_p95_ms([record(index) for index in range(30)]) == 1000.0


def test_a_stall_inside_a_few_streams_shows_in_the_gaps():
    stalled = [record(index, latency_s=21.0 if index < 4 else 3.0) for index in range(30)]
    assert gap_p95_ms(stalled) == 10_000.0
