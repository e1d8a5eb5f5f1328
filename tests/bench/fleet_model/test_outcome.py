"""Verdicts on runs: what is warm-up, what is stable, what is within the targets."""

import pytest

from breakeven_bench.fleet_model.outcome import judge, requests_of
from breakeven_bench.fleet_model.simulation import Run, Served

POOLS = ("plain", "spec")


def served(latencies, ttft_s=0.5, output_tokens=101):
    return tuple(
        Served(index, float(index), ttft_s, latency, output_tokens, index % 2)
        for index, latency in enumerate(latencies)
    )


def outcome(latencies, drowned=False, **how):
    return judge(Run(served(latencies, **how), drowned, 0), POOLS, part=2, warm_up=2)


def test_a_run_that_drowned_before_it_was_judged_has_no_mean():
    early = judge(Run(served([1.0]), True, 0), POOLS, part=2, warm_up=2)
    assert (early.mean_s, early.stable, early.within) == (None, False, 0.0)


def test_warm_up_does_not_count():
    found = outcome([99.0, 99.0, *([2.0] * 6)])
    assert (found.mean_s, found.stable, found.carried) == (2.0, True, True)
    assert found.share_by_pool == pytest.approx({"plain": 0.5, "spec": 0.5})


def test_a_mean_that_grows_with_the_run_is_unstable_and_one_that_falls_is_not():
    assert not outcome([1.0, 1.0, 2.0, 2.0, 2.2, 2.2, 2.5, 2.5]).stable
    assert outcome([1.0, 1.0, 2.5, 2.5, 2.2, 2.2, 2.0, 2.0]).stable


def test_longer_answers_in_the_later_part_of_a_trace_are_no_queue():
    run = Run(
        served([2.0] * 4, output_tokens=100) + served([4.0] * 8, output_tokens=200)[4:], drowned=False, preemptions=0
    )
    assert judge(run, POOLS, part=2, warm_up=2).stable


def test_a_run_that_drowned_later_is_unstable_whatever_its_mean():
    assert not outcome([2.0] * 8, drowned=True).stable


def test_late_first_tokens_and_slow_tokens_are_both_outside_the_targets():
    assert outcome([5.4] * 8).within == 1.0
    slow = outcome([5.6] * 8)
    assert (slow.within, slow.stable, slow.carried) == (0.0, True, False)
    assert outcome([5.4] * 8, ttft_s=2.1).within == 0.0


def test_three_parts_are_judged_after_the_warm_up():
    assert requests_of(1000, 500) == 3500
