"""Types of command-line arguments: each refuses with one line what would make no sense later."""

import argparse
from urllib.parse import urlsplit

from breakeven_bench.arms import Arm, arms_named

PORT_MAX = 65_535
"""The largest number that a TCP header has room for."""


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


def port(text: str) -> int:
    """A TCP port; 0 lets the system choose. An address would silently take any other number modulo 65536."""
    value = int(text)
    if not 0 <= value <= PORT_MAX:
        message = f"a port between 0 and {PORT_MAX} is expected, got {text}"
        raise argparse.ArgumentTypeError(message)
    return value


def base_url(text: str) -> str:
    """Where an OpenAI API is, without a slash or `/v1` at its end: clients of OpenAI are given either form."""
    url = text.strip().rstrip("/").removesuffix("/v1").rstrip("/")
    if not text.strip().startswith(("http://", "https://")):
        message = f"a URL that begins with http:// or https:// is expected, got {text!r}; try http://{url}"
        raise argparse.ArgumentTypeError(message)
    if not urlsplit(url).hostname:
        message = f"a URL with a host is expected, got {text!r}"
        raise argparse.ArgumentTypeError(message)
    return url


def rates(text: str) -> tuple[float, ...]:
    """Positive numbers between commas, in rising order and each once."""
    return tuple(sorted({positive(part) for part in text.split(",")}))


def arms(text: str) -> tuple[Arm, ...]:
    """Names of arms between commas."""
    try:
        return arms_named(text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
