"""What is believed of a pool."""

import math

from breakeven_policies.curve import FLAT, profile_of
from breakeven_policies.learned import PLAIN_ACCEPTANCE, Learned


def test_before_anything_is_learned_nothing_is_known() -> None:
    assert (Learned(0.0).pools, Learned(0.0).length) == ({}, None)


def test_a_pool_is_known_by_a_table_or_by_enough_observations() -> None:
    assert not profile_of(FLAT, FLAT, None, None, observations=19.0).known
    assert profile_of(FLAT, FLAT, None, None, observations=20.0).known
    assert profile_of(FLAT, FLAT, None, None, measured=True).known


def test_nobody_has_to_measure_that_a_plain_engine_makes_one_token_per_step() -> None:
    assert (PLAIN_ACCEPTANCE.length, PLAIN_ACCEPTANCE.lower) == (1.0, 1.0)
    assert 1e6 < PLAIN_ACCEPTANCE.observations < math.inf, "more than anybody makes, and JSON can say it"
