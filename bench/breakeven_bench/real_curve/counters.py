"""Reads vLLM's own counters of speculation off its metrics page. Names and meaning: vLLM 0.32.0 `v1/spec_decode`.

acceptance length = 1 + accepted / drafts      tokens that a verification yields, one of them the target's own
acceptance rate   = accepted / draft tokens
at position i     = accepted there / drafts    counted only where all before it were accepted
"""

import re
from dataclasses import dataclass

_SINGLE = {
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "vllm:generation_tokens_total": "generated_tokens",
    "vllm:num_requests_running": "requests",
    "vllm:num_requests_waiting": "requests",
}

_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

_SAMPLE = re.compile(r"^([\w:]+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_POSITION = re.compile(r'position="(\d+)"')


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums over the page's label sets. A plain engine drafts nothing; `requests` run or wait now."""

    requests: int
    generated_tokens: int
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: tuple[int, ...] = ()

    def since(self, earlier: "Counters") -> "Counters":
        """What was counted between the two; ValueError where a counter fell, because the engine was restarted."""
        if self.generated_tokens < earlier.generated_tokens or self.drafts < earlier.drafts:
            message = "a counter fell: the engine was restarted in between"
            raise ValueError(message)
        # An engine names no position before its first draft.
        before = earlier.accepted_per_position or (0,) * len(self.accepted_per_position)
        return Counters(
            requests=self.requests,
            generated_tokens=self.generated_tokens - earlier.generated_tokens,
            drafts=self.drafts - earlier.drafts,
            draft_tokens=self.draft_tokens - earlier.draft_tokens,
            accepted_tokens=self.accepted_tokens - earlier.accepted_tokens,
            accepted_per_position=tuple(
                now - then for now, then in zip(self.accepted_per_position, before, strict=True)
            ),
        )


def read_counters(page: str) -> Counters:
    """The page's counters; ValueError where it is no page of an engine."""
    totals = {"requests": 0, "drafts": 0, "draft_tokens": 0, "accepted_tokens": 0}
    positions: dict[int, int] = {}
    for name, labels, value in _SAMPLE.findall(page):
        if (field := _SINGLE.get(name)) is not None:
            totals[field] = totals.get(field, 0) + int(float(value))
        elif name == _PER_POSITION and (found := _POSITION.search(labels)):
            position = int(found.group(1))
            positions[position] = positions.get(position, 0) + int(float(value))
    if "generated_tokens" not in totals:
        message = "a metrics page without vllm:generation_tokens_total"
        raise ValueError(message)
    return Counters(accepted_per_position=tuple(positions[position] for position in sorted(positions)), **totals)
