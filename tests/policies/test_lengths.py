"""How long answers get."""

from breakeven_policies.lengths import Lengths


def test_without_answers_their_length_is_unknown() -> None:
    assert Lengths().mean is None
