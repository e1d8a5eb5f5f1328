"""Means that forget."""

import pytest

from breakeven_policies.fading import HALF_LIFE_S, Fading


def test_nothing_observed_has_no_mean_and_no_spread() -> None:
    nothing = Fading(10.0)
    assert (nothing.mean, nothing.variance, nothing.weight_at(5.0)) == (None, 0.0, 0.0)


def test_the_mean_is_over_denominators_not_over_observations() -> None:
    steps = Fading(10.0)
    steps.add(30.0, 0.0, under=10.0)
    steps.add(10.0, 0.0, under=10.0)
    steps.add(0.0, 0.0, under=20.0)
    assert steps.mean == 1.0


def test_later_observations_push_earlier_ones_out() -> None:
    means = Fading(5.0)
    for _ in range(100):
        means.add(1.0, 0.0)
    assert means.weight == pytest.approx(5.0)
    for _ in range(20):
        means.add(2.0, 0.0)
    assert means.mean == pytest.approx(2.0, abs=0.02)


def test_half_an_hour_halves_the_weight_of_what_was_seen() -> None:
    means = Fading(100.0)
    for _ in range(8):
        means.add(1.0, 0.0)
    assert means.weight_at(HALF_LIFE_S) == 4.0
    means.add(2.0, HALF_LIFE_S)
    assert means.weight == 5.0
    assert means.mean == pytest.approx((4 * 1.0 + 2.0) / 5)


def test_a_clock_that_goes_back_changes_no_weight() -> None:
    means = Fading(100.0)
    means.add(1.0, 50.0)
    means.add(1.0, 10.0)
    assert means.weight_at(40.0) == 2.0


def test_the_spread_is_that_of_single_observations() -> None:
    means = Fading(1000.0)
    for number in range(500):
        means.add(1.0 + (number % 2), float(number) / 1000)
    assert means.variance == pytest.approx(0.25, rel=0.05)


def test_one_that_may_weigh_no_more_than_one_keeps_the_last_only() -> None:
    means = Fading(1.0)
    means.add(1.0, 0.0)
    means.add(5.0, 0.0)
    assert means.mean == 5.0
