"""What finished requests and scrapes teach."""

from breakeven_policies.learning import Learning, PoolFacts
from breakeven_policies.snapshot import PoolKind


def test_before_the_first_observation_nothing_is_known_of_a_pool() -> None:
    assert Learning({"base": PoolFacts(PoolKind.PLAIN)}).view().pools == {}
