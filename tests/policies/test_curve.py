"""Curves over the running batch."""

from breakeven_policies.curve import rising


def test_a_value_that_falls_is_pooled_with_those_before_it() -> None:
    assert rising((1.0, 3.0, 2.0, 4.0), (1.0,) * 4) == (1.0, 2.5, 2.5, 4.0)
