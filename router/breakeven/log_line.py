"""One line of the access log: JSON, ASCII, bounded; docs/logs.md describes its fields."""

from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from breakeven.record import ENDED_BY, RequestRecord
from breakeven_policies.journal import is_readable, readable

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


ROUNDING = 1.5 * 2.0**52
"""Added and taken away again it leaves a whole number, the nearest one (Hacker's Delight, section 17-3): five durations
of a line so rounded take a tenth of what calls of `round` take. Holds below 2**51 µs, seventy years.
"""


def log_line(ended: datetime, record: RequestRecord) -> bytes:
    """The log line, ASCII: an eighth of what a dictionary and the json module take. Durations to the microsecond."""
    received_s, waited_s, decided_s, sent_s = record.received_s, record.waited_s, record.decided_s, record.sent_s
    first_byte_s, first_token_s, finished_s = record.first_byte_s, record.first_token_s, record.finished_s
    model, outcome, trace = record.model, record.outcome, record.trace
    line = LogLine(
        ended,
        record.request_id,
        record.method or None,
        record.endpoint,
        model if model is None or is_readable(model) else readable(model),
        record.stream,
        record.temperature,
        record.pool,
        record.backend,
        record.reason,
        record.policy,
        outcome,
        None if outcome is None else ENDED_BY[outcome],
        record.status,
        record.attempts,
        record.bytes_in,
        record.bytes_out,
        record.prompt_tokens,
        record.completion_tokens,
        None if decided_s is None else ((decided_s - received_s) * 1e6 + ROUNDING - ROUNDING) / 1e6,
        None if waited_s is None else (waited_s * 1e6 + ROUNDING - ROUNDING) / 1e6,
        None if sent_s is None else ((sent_s - received_s) * 1e6 + ROUNDING - ROUNDING) / 1e6,
        None if first_byte_s is None else ((first_byte_s - received_s) * 1e6 + ROUNDING - ROUNDING) / 1e6,
        None if first_token_s is None else ((first_token_s - received_s) * 1e6 + ROUNDING - ROUNDING) / 1e6,
        None if finished_s is None else ((finished_s - received_s) * 1e6 + ROUNDING - ROUNDING) / 1e6,
        record.client_key,
        None if trace is None else trace.trace_id,
    )
    return _encode(line) + b"\n"
