"""How an engine drafts: method, draft tokens per step, drafting mode, and the schedule of dynamic speculation."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from breakeven_bench.engine.hardware import (
    NO_DRAFTER,
    Drafter,
    Hardware,
    draft_model_drafter,
    eagle_drafter,
    lookup_drafter,
)

DRAFT_TOKENS_MAX = 16
"""Beyond this no published run gains anything; it bounds the per-position series of the metrics page."""


class Method(StrEnum):
    """The values of vLLM's `speculative_config.method` that are simulated; NONE is a plain engine."""

    NONE = "none"
    EAGLE3 = "eagle3"
    DRAFT_MODEL = "draft_model"
    NGRAM = "ngram"


class DraftSampling(StrEnum):
    """vLLM's `draft_sample_method`. GREEDY is its default: the drafter proposes its most likely token."""

    GREEDY = "greedy"
    PROBABILISTIC = "probabilistic"


@dataclass(frozen=True, slots=True)
class Speculation:
    """`draft_tokens` is k, 0 on a plain engine; `by_batch[b]` is k for b scheduled sequences (None: always k)."""

    method: Method = Method.NONE
    draft_tokens: int = 0
    sampling: DraftSampling = DraftSampling.GREEDY
    by_batch: tuple[int, ...] | None = None

    @property
    def enabled(self) -> bool:
        """Whether the engine was started with a speculative configuration."""
        return self.method is not Method.NONE

    def drafts_after(self, batch: int) -> int:
        """Draft tokens per sequence that a step of `batch` sequences proposes for the next step."""
        if self.by_batch is None:
            return self.draft_tokens
        return self.by_batch[min(batch, len(self.by_batch) - 1)]


_DRAFTERS: dict[Method, Callable[[Hardware], Drafter]] = {
    Method.EAGLE3: eagle_drafter,
    Method.DRAFT_MODEL: draft_model_drafter,
    Method.NGRAM: lookup_drafter,
}


def drafter_of(method: Method, hardware: Hardware) -> Drafter:
    """What drafting costs on this hardware."""
    return _DRAFTERS[method](hardware) if method in _DRAFTERS else NO_DRAFTER


def parse_schedule(text: str, draft_tokens: int, batch_max: int) -> tuple[int, ...]:
    """`[[1,16,5],[17,32,3],[33,512,0]]`, inclusive ranges of batch size with their k, as a table indexed by batch size.

    As vLLM 0.33.0 does (`v1/spec_decode/dynamic/utils.py`): the first range starts at 1, ranges do not overlap, a gap
    and the tail carry the k before them forward, and no k exceeds `draft_tokens`. Raises ValueError with one clear
    line.
    """
    ranges = sorted(_read_ranges(text))
    if ranges[0][0] != 1:
        message = "the first batch-size range must start at 1"
        raise ValueError(message)
    table = [0] * (batch_max + 1)
    previous_end = 0
    for start, end, drafts in ranges:
        if start <= previous_end:
            message = f"batch-size ranges overlap at {start}"
            raise ValueError(message)
        table[start:] = [min(drafts, draft_tokens)] * len(table[start:])
        previous_end = end
    return tuple(table)


def _read_ranges(text: str) -> list[tuple[int, int, int]]:
    try:
        entries = json.loads(text)
    except ValueError:
        entries = None
    if not isinstance(entries, list) or not entries:
        message = f"not a list of [first batch, last batch, draft tokens]: {text}"
        raise ValueError(message)
    return [_read_range(entry) for entry in entries]


def _read_range(entry: object) -> tuple[int, int, int]:
    match entry:
        case [int(start), int(end), int(drafts)] if 0 < start <= end and drafts >= 0:
            return start, end, drafts
        case _:
            message = f"not a range [first batch >= 1, last batch >= first, draft tokens >= 0]: {json.dumps(entry)}"
            raise ValueError(message)
