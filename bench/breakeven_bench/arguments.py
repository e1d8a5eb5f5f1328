"""Types of command-line arguments: each refuses with one line what would make no sense later."""

import argparse

from breakeven_bench.arms import Arm, arms_named


def positive(text: str) -> float:
    """A positive, finite number."""
    value = float(text)
    if not 0.0 < value < float("inf"):
        message = f"a positive number is expected, got {text}"
        raise argparse.ArgumentTypeError(message)
    return value


def count(text: str) -> int:
    """A whole number from 1 on."""
    value = int(text)
    if value < 1:
        message = f"at least 1 is expected, got {text}"
        raise argparse.ArgumentTypeError(message)
    return value


def rates(text: str) -> tuple[float, ...]:
    """Positive numbers between commas, in rising order and each once."""
    return tuple(sorted({positive(part) for part in text.split(",")}))


def arms(text: str) -> tuple[Arm, ...]:
    """Names of arms between commas."""
    try:
        return arms_named(text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
