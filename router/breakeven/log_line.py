"""One line of the access log: JSON, ASCII, bounded; docs/logs.md describes its fields."""

import json
from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from breakeven.record import ENDED_BY, RequestRecord

MODEL_CHARACTERS_MAX = 200
"""Clients name the model; a megabyte of name must not become a megabyte of log."""

_encode = msgspec.json.Encoder().encode


class LogLine(Struct, frozen=True):
    """What a line holds, in this order. Durations are seconds since the request was complete; null: never happened."""

    time: datetime
    request_id: str
    method: str | None
    endpoint: str
    model: str | Raw | None
    stream: bool
    temperature: float | None
    pool: str | None
    backend: str | None
    reason: str | None
    policy: str | None
    outcome: str | None
    ended_by: str | None
    status: int | None
    attempts: int
    bytes_in: int
    bytes_out: int
    prompt_tokens: int | None
    completion_tokens: int | None
    decided_s: float | None
    waited_s: float | None
    sent_s: float | None
    first_byte_s: float | None
    first_token_s: float | None
    finished_s: float | None
    client_key: str | None
    trace_id: str | None


def log_line(ended: datetime, record: RequestRecord) -> bytes:
    """The log line, ASCII: an eighth of what a dictionary and the json module take."""
    received_s = record.received_s
    line = LogLine(
        ended,
        record.request_id,
        record.method or None,
        record.endpoint,
        readable(record.model),
        record.stream,
        record.temperature,
        record.pool,
        record.backend,
        record.reason,
        record.policy,
        record.outcome,
        None if record.outcome is None else ENDED_BY[record.outcome],
        record.status,
        record.attempts,
        record.bytes_in,
        record.bytes_out,
        record.prompt_tokens,
        record.completion_tokens,
        since(received_s, record.decided_s),
        since(0.0, record.waited_s),
        since(received_s, record.sent_s),
        since(received_s, record.first_byte_s),
        since(received_s, record.first_token_s),
        since(received_s, record.finished_s),
        record.client_key,
        None if record.trace is None else record.trace.trace_id,
    )
    return _encode(line) + b"\n"


def since(received_s: float, moment_s: float | None) -> float | None:
    """Seconds between the complete request and a moment, to the microsecond: by arithmetic, since round() spells it."""
    return None if moment_s is None else ((moment_s - received_s) * 1e6 + 0.5) // 1 / 1e6


def readable(model: str | None) -> str | Raw | None:
    """A client's word, short and escaped: nothing of it may steer the terminal of whoever reads the log."""
    if model is None:
        return None
    short = model[:MODEL_CHARACTERS_MAX]
    if short.isascii() and short.isprintable():
        return short
    whole = short.encode("utf-8", "replace").decode()  # half a character, which JSON can spell and few readers take
    return Raw(json.dumps(whole).encode("ascii"))
