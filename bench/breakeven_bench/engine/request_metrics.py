"""`metrics` of one answer: timing, and how speculation fared (vLLM 0.33.0, `PerRequestMetrics`).

Only for answers of a single sequence, as in vLLM: with n > 1 the numbers would belong to one of several. Times are
milliseconds of wall time on the engine's clock; unlike what a client sees, time to first token leaves out the queue.
"""

from enum import StrEnum
from typing import Any

from breakeven_bench.engine.scheduler import Sequence


class SpeculationDetail(StrEnum):
    """The values of `--per-request-spec-decode-metrics`."""

    NONE = "none"
    SUMMARY = "summary"
    DETAILED = "detailed"


def request_metrics(
    sequence: Sequence, *, timing: bool, speculation: SpeculationDetail, draft_tokens: int
) -> dict[str, Any] | None:
    """The object with all of its fields, None for those that are off, or None where everything is off."""
    if not timing and speculation is SpeculationDetail.NONE:
        return None
    fields: dict[str, Any] = dict.fromkeys(
        ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms", "mean_itl_ms", "tokens_per_second")
    )
    if timing:
        fields |= _timing(sequence)
    fields["speculative_decoding"] = None
    if speculation is not SpeculationDetail.NONE:
        fields["speculative_decoding"] = _speculation(sequence, draft_tokens)
    return fields


def _timing(sequence: Sequence) -> dict[str, float | None]:
    scheduled_s, first_s, last_s = sequence.scheduled_s, sequence.first_token_s, sequence.last_token_s
    if scheduled_s is None or first_s is None or last_s is None:
        return {}
    after_first = sequence.generated_tokens - 1
    inference_s = last_s - scheduled_s
    return {
        "time_to_first_token_ms": (first_s - scheduled_s) * 1000,
        "generation_time_ms": (last_s - first_s) * 1000,
        "queue_time_ms": (scheduled_s - sequence.queued_s) * 1000,
        "mean_itl_ms": (last_s - first_s) / after_first * 1000 if after_first > 0 else None,
        "tokens_per_second": sequence.generated_tokens / inference_s if inference_s > 0 else None,
    }


def _speculation(sequence: Sequence, draft_tokens: int) -> dict[str, Any]:
    """Per-step lists are null unless the engine kept them (`detailed`) and there were any."""
    steps = sum(sequence.accepted_counts)
    accepted = sum(count * times for count, times in enumerate(sequence.accepted_counts))
    verified = sequence.verified or []
    return {
        "mean_acceptance_length": 1.0 + accepted / steps if steps else 1.0,
        "draft_acceptance_rate": accepted / sequence.drafted_tokens if sequence.drafted_tokens else 0.0,
        "acceptance_histogram": list(sequence.accepted_counts),
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": sequence.drafted_tokens,
        "num_spec_tokens": draft_tokens,
        "per_step_accepted": [accepted for _, accepted in verified] or None,
        "per_step_drafted": [drafted for drafted, _ in verified] or None,
    }
