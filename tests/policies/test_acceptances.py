"""Acceptance by class."""

from breakeven_policies.acceptances import Acceptances


def test_without_table_and_observation_an_acceptance_is_unknown() -> None:
    assert Acceptances(5, {}, None).of("t0/short/free") is None
