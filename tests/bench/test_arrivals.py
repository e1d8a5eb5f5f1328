"""Schedules: exactly the load that was asked for, from a seed, whatever the distribution."""

import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_bench.arrivals import Arrivals, constant, count_in, gamma, poisson, schedule

counts = st.integers(1, 300)
rates = st.floats(0.01, 1000.0)
seeds = st.integers(0, 2**32)


@pytest.mark.parametrize(("count", "rate_per_s"), [(0, 1.0), (-1, 1.0), (5, 0.0), (5, -2.0), (5, float("inf"))])
@pytest.mark.parametrize("arrivals", list(Arrivals))
def test_a_schedule_without_arrivals_or_without_a_rate_is_refused(arrivals, count, rate_per_s):
    with pytest.raises(ValueError, match="at least one arrival and a positive, finite rate"):
        schedule(arrivals, count, rate_per_s, 1)


@pytest.mark.parametrize("shape", [0.0, -1.0])
def test_a_gamma_schedule_needs_a_positive_shape(shape):
    with pytest.raises(ValueError, match="shape"):
        gamma(10, 1.0, shape, 1)


@pytest.mark.parametrize("block", [0, -3])
def test_a_block_holds_at_least_one_arrival(block):
    with pytest.raises(ValueError, match="block"):
        poisson(10, 1.0, 1, block)


def test_constant_arrivals_are_evenly_spaced_from_zero():
    assert constant(4, 2.0) == (0.0, 0.5, 1.0, 1.5)


@given(st.sampled_from(Arrivals), counts, rates, seeds, st.floats(0.1, 10.0))
def test_every_schedule_holds_its_count_in_order_inside_its_window(arrivals, count, rate_per_s, seed, shape):
    times = schedule(arrivals, count, rate_per_s, seed, shape=shape)
    assert len(times) == count
    assert list(times) == sorted(times)
    assert times[0] >= 0.0
    assert times[-1] <= count / rate_per_s


@given(st.sampled_from(Arrivals), counts, rates, seeds)
def test_the_same_seed_gives_the_same_schedule(arrivals, count, rate_per_s, seed):
    assert schedule(arrivals, count, rate_per_s, seed) == schedule(arrivals, count, rate_per_s, seed)


@pytest.mark.parametrize("arrivals", [Arrivals.POISSON, Arrivals.GAMMA])
def test_another_seed_gives_another_schedule(arrivals):
    assert schedule(arrivals, 20, 1.0, 1) != schedule(arrivals, 20, 1.0, 2)


@given(counts, seeds, st.integers(1, 50))
def test_every_block_of_a_poisson_schedule_fills_exactly_its_share_of_the_window(count, seed, block):
    times = poisson(count, 4.0, seed, block)
    for first in range(0, count, block):
        members = times[first : first + block]
        assert min(members) >= first / 4.0
        assert max(members) <= (first + len(members)) / 4.0


def spread_of_gaps(times):
    """Coefficient of variation: 1 for a Poisson process, 1/sqrt(shape) for gamma gaps."""
    gaps = [after - before for before, after in pairwise(times)]
    return statistics.stdev(gaps) / statistics.mean(gaps)


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (poisson(20_000, 3.0, 7), 1.0),
        (poisson(20_000, 3.0, 7, block=20), 1.0),
        (gamma(20_000, 3.0, 1.0, 7), 1.0),
        (gamma(20_000, 3.0, 0.25, 7), 2.0),
        (gamma(20_000, 3.0, 4.0, 7), 0.5),
    ],
)
def test_gaps_vary_as_their_distribution_says(times, expected):
    assert spread_of_gaps(times) == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize(("seconds", "rate", "expected"), [(0.1, 1.0, 1), (36.0, 1.75, 63), (1.0, 2.6, 3)])
def test_a_window_holds_its_arrivals_and_at_least_one(seconds, rate, expected):
    assert count_in(seconds, rate) == expected
