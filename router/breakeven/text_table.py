"""Rows as aligned lines of text, for people at a terminal."""

from collections.abc import Iterable, Sequence


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """One line a row, each column as wide as its widest cell; rows have the same number of cells."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def number(value: float | None, digits: int = 4, unit: float = 1.0) -> str:
    """So many significant digits of it, in multiples of `unit`; a dash for what is not known."""
    return "-" if value is None else f"{value / unit:.{digits}g}"
