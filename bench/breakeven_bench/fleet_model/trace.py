"""A production trace as requests: the Azure LLM inference traces' columns TIMESTAMP, ContextTokens, GeneratedTokens.

Source of the format: github.com/Azure/AzurePublicDataset, CC-BY 4.0 (Patel et al., "Splitwise", ISCA 2024). A trace is
read by path and is no part of this repository. Its order and burstiness stay; its clock is stretched to a rate.
"""

import csv
from collections.abc import Iterable
from datetime import datetime
from itertools import islice

from breakeven_bench.fleet_model.traffic import Asked

CATEGORY = "trace"
"""What a trace says of the kind of its texts: nothing."""

PROMPT_TOKENS_MAX = 16_000
OUTPUT_TOKENS_MAX = 4_000
"""Beyond anything in the published traces; it keeps a broken line from standing for hours of work."""

_FRACTION_DIGITS = 6


def read_trace(lines: Iterable[str], count: int) -> list[Asked]:
    """The first `count` requests in seconds from the first one; ValueError names the line that cannot be read."""
    rows = csv.reader(lines)
    header = next(rows, [])
    if header[:3] != ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]:
        message = "not a trace: its first line is not TIMESTAMP,ContextTokens,GeneratedTokens"
        raise ValueError(message)
    asked: list[Asked] = []
    began = None
    for number, row in enumerate(islice(rows, count), start=2):
        try:
            at = _moment(row[0])
            prompt, output = int(row[1]), int(row[2])
        except (ValueError, IndexError) as error:
            message = f"line {number} of the trace: {error}"
            raise ValueError(message) from error
        began = began or at
        at_s = (at - began).total_seconds()
        asked.append(
            Asked(at_s, CATEGORY, min(max(prompt, 1), PROMPT_TOKENS_MAX), min(max(output, 1), OUTPUT_TOKENS_MAX))
        )
    if not asked:
        message = "the trace has no requests"
        raise ValueError(message)
    return asked


def stretched(asked: list[Asked], count: int, rate_per_s: float) -> list[Asked]:
    """`count` requests of the trace at this mean rate; a trace that is too short begins again."""
    span_s = asked[-1].at_s - asked[0].at_s
    period_s = span_s * len(asked) / max(1, len(asked) - 1)  # the gap behind the last one is a mean one
    scale = len(asked) / (period_s * rate_per_s) if period_s > 0.0 else 0.0
    requests = []
    for index in range(count):
        lap, place = divmod(index, len(asked))
        each = asked[place]
        at_s = (lap * period_s + each.at_s) * scale
        requests.append(Asked(at_s, each.category, each.prompt_tokens, each.output_tokens))
    return requests


def _moment(text: str) -> datetime:
    """Seven digits of a second are one too many for `datetime`."""
    whole, _, fraction = text.partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:_FRACTION_DIGITS]:0<{_FRACTION_DIGITS}}+00:00")
