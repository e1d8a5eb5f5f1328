"""Means that forget."""

from breakeven_policies.fading import Fading


def test_nothing_observed_has_no_mean() -> None:
    assert Fading(10.0).mean is None
