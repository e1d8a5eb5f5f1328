"""What is kept of one request: one line of JSON with raw observations only, and the figures that follow from it.

Nothing derived is stored, so that a figure can be defined anew without running again. Raw times are seconds of the
client's monotonic clock since the start of the run. A simulated engine runs `time_scale` times faster than what it
stands for; figures are therefore multiplied by `time_scale` (1 for a real engine) and are seconds of the *engine*.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import pairwise
from typing import Any

import orjson

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; a reader refuses what it does not know."""


class ErrorClass(StrEnum):
    """Why a request gave no complete answer."""

    CONNECT = "connect"
    TIMEOUT = "timeout"
    DISCONNECTED = "disconnected"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    STREAM_ERROR = "stream_error"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """Raw observations of one request; None: it did not happen or the engine did not say.

    `scheduled_s`: when it should have been sent; `sent_s`: when it was handed to the HTTP session; `head_s`: response
    head; `event_s` and `event_tokens`: when each event that carried tokens came, and the tokens generated up to and
    including it (0: the engine did not count them); `end_s`: end of the stream. `reads` counts socket reads that
    brought events. `acceptance_length` is the engine's own figure for this request: tokens per step, the bonus token
    included.
    """

    run_id: str
    arm: str
    index: int
    prompt_id: str
    category: str
    temperature: float
    max_tokens: int
    seed: int
    scheduled_s: float
    sent_s: float
    time_scale: float = 1.0
    head_s: float | None = None
    end_s: float | None = None
    event_s: tuple[float, ...] = ()
    event_tokens: tuple[int, ...] = ()
    reads: int = 0
    status: int | None = None
    pool: str | None = None
    backend: str | None = None
    reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    finish_reason: str | None = None
    acceptance_length: float | None = None
    error: ErrorClass | None = None
    error_detail: str | None = None
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Figures:
    """What one complete answer says about its service, in seconds of the engine.

    `latency_s` counts from the scheduled time, so that a late client cannot hide a queue. `tpot_ms` is None for an
    answer of one event: there is no gap to measure. `tokens_per_event` is None for it, too.
    """

    latency_s: float
    ttft_s: float
    tpot_ms: float | None
    tokens_per_event: float | None


def figures(record: RequestRecord) -> Figures | None:
    """The figures of a complete answer; None of a failed one."""
    if record.error is not None or not record.event_s:
        return None
    first_s, last_s = record.event_s[0], record.event_s[-1]
    tokens = tokens_after_first(record)
    gaps = len(record.event_s) - 1
    return Figures(
        latency_s=(last_s - record.scheduled_s) * record.time_scale,
        ttft_s=(first_s - record.scheduled_s) * record.time_scale,
        tpot_ms=1000.0 * (last_s - first_s) * record.time_scale / tokens if tokens else None,
        tokens_per_event=tokens / gaps if tokens and gaps else None,
    )


def tokens_after_first(record: RequestRecord) -> int | None:
    """Tokens that came after the first event: the denominator of the time per output token.

    The first event of a speculative engine carries several tokens, which cost no decoding gap (aiperf#1279); they are
    known from `continuous_usage_stats` and taken as 1 without it. None where the answer has no later token or no count.
    """
    if record.completion_tokens is None or len(record.event_s) < 2:
        return None
    first = record.event_tokens[0] or 1
    return record.completion_tokens - first if record.completion_tokens > first else None


def inter_event_ms(record: RequestRecord) -> tuple[float, ...]:
    """Gaps between events in milliseconds of the engine: the smoothness of a stream, not a latency per token."""
    return tuple(1000.0 * (after - before) * record.time_scale for before, after in pairwise(record.event_s))


def encode(record: RequestRecord) -> bytes:
    """One line of JSON, newline included."""
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def decode(line: bytes) -> RequestRecord:
    """The record of a line; ValueError for another schema version, a missing field, or no JSON object."""
    raw: Any = orjson.loads(line)
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        message = f"a record of schema version {version}, this reader knows {SCHEMA_VERSION}"
        raise ValueError(message)
    known = {field.name: raw[field.name] for field in fields(RequestRecord) if field.name in raw}
    try:
        known["event_s"] = tuple(known["event_s"])
        known["event_tokens"] = tuple(known["event_tokens"])
        known["error"] = None if known["error"] is None else ErrorClass(known["error"])
        return RequestRecord(**known)
    except (KeyError, TypeError) as error:
        message = f"an incomplete record: {error}"
        raise ValueError(message) from error


def read_records(lines: Iterable[bytes]) -> Iterator[RequestRecord]:
    """The records of a file, line by line; blank lines are skipped."""
    return (decode(line) for line in lines if line.strip())
