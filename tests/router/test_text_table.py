"""`breakeven.text_table`: what a person reads stands under its heading."""

import pytest

from breakeven.text_table import aligned, number


def test_without_rows_there_are_no_lines() -> None:
    assert aligned([]) == []


def test_columns_are_as_wide_as_their_widest_cell_and_nothing_trails() -> None:
    assert aligned([("pool", "ms"), ("speculative", ""), ("a", "1.5")]) == [
        "pool         ms",
        "speculative",
        "a            1.5",
    ]


def test_rows_of_different_lengths_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="zip"):
        aligned([("a", "b"), ("c",)])


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "-"), (0.0, "0"), (0.0234567, "23.46"), (12.0, "1.2e+04"), (0.001, "1")]
)
def test_unknown_is_a_dash_and_never_a_zero(value: float | None, shown: str) -> None:
    assert number(value, unit=0.001) == shown
