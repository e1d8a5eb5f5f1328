"""What is believed of a pool."""

from breakeven_policies.curve import FLAT, profile_of


def test_a_pool_is_known_by_a_table_or_by_enough_observations() -> None:
    assert not profile_of(FLAT, FLAT, None, None, observations=19.0).known
    assert profile_of(FLAT, FLAT, None, None, observations=20.0).known
    assert profile_of(FLAT, FLAT, None, None, measured=True).known
