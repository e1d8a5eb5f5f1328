"""Statistics: known values, and refusal where the sample is too small to speak."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_bench.stats import (
    PAIRS_MIN,
    SETTLING_REQUESTS_MIN,
    Backlog,
    backlog,
    interpolated,
    mean,
    paired_ratio,
    quantile,
    quantile_n_min,
    quantile_ranks,
)


def test_the_mean_of_nothing_is_unknown():
    assert mean([]) is None


def test_the_mean_is_the_mean():
    assert mean([1.0, 2.0, 6.0]) == 3.0


@pytest.mark.parametrize(("q", "expected"), [(0.5, 5), (0.95, 59), (0.99, 299)])
def test_a_quantile_needs_a_sample_whose_maximum_bounds_it(q, expected):
    assert quantile_n_min(q) == expected


def test_a_p95_of_fewer_than_59_observations_is_refused():
    assert quantile([float(value) for value in range(58)], 0.95) is None


def test_a_p95_of_59_observations_has_no_upper_bound_yet():
    estimate = quantile([float(value) for value in range(59)], 0.95)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (pytest.approx(55.1), 51.0, None, 59)


# Ranks from binomial tables, as other suites print them.
@pytest.mark.parametrize(
    ("n", "q", "expected"),
    [
        (50, 0.95, (44, None)),
        (71, 0.95, (63, None)),
        (72, 0.95, (64, 72)),
        (100, 0.95, (90, 100)),
        (150, 0.95, (137, 148)),
        (500, 0.95, (465, 485)),
        (500, 0.99, (490, 500)),
        (5, 0.5, (None, None)),
        (6, 0.5, (1, 6)),
    ],
)
def test_the_interval_of_a_quantile_lies_between_known_ranks(n, q, expected):
    assert quantile_ranks(n, q) == expected


def test_the_ranks_of_a_large_sample_do_not_overflow():
    low, high = quantile_ranks(20_000, 0.95)
    # binomial with mean 19,000 and standard deviation 30.8, by its normal approximation
    assert (low, high) == (pytest.approx(19_000 - 60.4, abs=2), pytest.approx(19_000 + 60.4, abs=2))


def test_a_quantile_interpolates_and_carries_its_interval():
    estimate = quantile([float(value) for value in range(100, 0, -1)], 0.95)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high, estimate.n) == (pytest.approx(95.05), 90.0, 100.0, 100)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=80), st.floats(0.0, 1.0))
def test_interpolation_agrees_with_numpy(values, q):
    assert interpolated(sorted(values), q) == pytest.approx(float(np.quantile(values, q)), rel=1e-9, abs=1e-6)


def test_too_few_pairs_give_no_comparison():
    values = [float(value) for value in range(1, PAIRS_MIN)]
    assert paired_ratio(values, values, 1) is None


def test_pairs_of_unequal_number_are_a_mistake():
    with pytest.raises(ValueError, match="equal lengths, got 30 and 31"):
        paired_ratio([1.0] * 30, [1.0] * 31, 1)


def test_a_ratio_to_something_that_may_be_zero_is_refused():
    assert paired_ratio([1.0] * 30, [0.0] + [1.0] * 29, 1) is None


def test_a_constant_factor_is_found_exactly():
    theirs = [float(value) for value in range(1, 41)]
    estimate = paired_ratio([1.1 * value for value in theirs], theirs, 1)
    assert estimate is not None
    assert (estimate.value, estimate.low, estimate.high) == (pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.1))


def test_the_same_seed_gives_the_same_interval_and_another_a_similar_one():
    rng = np.random.default_rng(3)
    ours, theirs = rng.gamma(2.0, 2.0, 60).tolist(), rng.gamma(2.0, 2.0, 60).tolist()
    first, again, other = (paired_ratio(ours, theirs, seed) for seed in (1, 1, 2))
    assert first == again
    assert first is not None
    assert other is not None
    assert first != other
    assert first.low == pytest.approx(other.low, abs=0.15)


@pytest.mark.slow
def test_the_interval_of_a_paired_ratio_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(5)
    covered = 0
    for trial in range(60):
        theirs = rng.gamma(2.0, 2.0, 60)
        ours = theirs * rng.uniform(0.6, 1.6, 60)  # 10 % longer in the mean
        estimate = paired_ratio(ours.tolist(), theirs.tolist(), trial)
        assert estimate is not None
        covered += estimate.low <= 0.1 <= estimate.high
    # 95 % of 60 is 57; 51 or fewer happen once in 200 such tests
    assert covered >= 52


def test_starts_and_ends_come_in_pairs():
    with pytest.raises(ValueError, match="2 starts and 1 ends"):
        backlog([0.0, 1.0], [1.0])


def test_a_run_of_few_requests_cannot_be_judged():
    few = SETTLING_REQUESTS_MIN - 1
    assert backlog([float(at) for at in range(few)], [float(at) + 1.0 for at in range(few)]) is None


def test_a_run_in_which_everything_comes_at_once_cannot_be_judged():
    assert backlog([0.0] * 40, [1.0] * 40) is None


def test_an_arm_that_serves_at_the_pace_of_its_arrivals_has_settled():
    starts = [0.1 * at for at in range(300)]
    found = backlog(starts, [start + 2.0 for start in starts])
    assert found is not None
    assert (found.middle, found.last) == (pytest.approx(20.0, rel=0.02), pytest.approx(20.0, rel=0.02))
    assert found.arrivals == 100.0
    assert found.settled


def test_an_arm_that_finishes_three_of_four_arrivals_has_not_settled():
    starts = [0.1 * at for at in range(300)]
    found = backlog(starts, [at / 7.5 for at in range(300)])
    assert found is not None
    assert found.growth_share == pytest.approx(0.25, abs=0.02)
    assert not found.settled


def test_requests_that_never_end_pile_up():
    starts = [0.1 * at for at in range(300)]
    found = backlog(starts, [None] * 300)
    assert found is not None
    assert (found.middle, found.last) == (pytest.approx(150.0, rel=0.02), pytest.approx(250.0, rel=0.02))
    assert not found.settled


@pytest.mark.parametrize(
    ("middle", "last", "expected"),
    [
        (20.0, 34.9, True),
        (20.0, 35.1, False),
        (200.0, 216.0, True),
        (0.0, 16.0, False),
        (20.0, 5.0, True),
    ],
    ids=["under the share", "over the share", "over the share but not a fifth", "from nothing", "shrinks"],
)
def test_a_backlog_is_what_grows_by_a_share_of_the_arrivals_and_by_a_fifth_of_itself(middle, last, expected):
    assert Backlog(middle, last, arrivals=100.0).settled is expected
