"""How many sequences run at once."""

from breakeven_policies.saturation import Saturation


def test_where_nothing_waited_the_slots_are_unknown() -> None:
    assert Saturation().slots() is None
