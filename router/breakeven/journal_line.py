"""What the router knows of a finished request, as a line of the journal; the format is the policies' `journal`."""

from collections.abc import Callable
from datetime import datetime

from breakeven.record import RequestRecord
from breakeven_policies.journal import Considered, Encoder, Entry, Happened, is_sampled


def journal_lines() -> Callable[[datetime, RequestRecord], bytes]:
    """What makes a line of each record that was decided; nothing of one that was not. For one thread."""
    encoder = Encoder()

    def line(ended: datetime, record: RequestRecord) -> bytes:
        considered = record.considered
        return b"" if considered is None else encoder.encode(_entry(ended, record, considered))

    return line


def is_wanted(share: float) -> Callable[[RequestRecord], bool]:
    """What picks the decided requests of which a line is kept."""

    def wanted(record: RequestRecord) -> bool:
        considered = record.considered
        return considered is not None and is_sampled(considered.request.ticket, share)

    return wanted


def _entry(ended: datetime, record: RequestRecord, considered: Considered) -> Entry:
    """Times are left as they are: rounding seven of them takes as long as encoding the line."""
    received_s = record.received_s
    decided_s, sent_s, finished_s = record.decided_s, record.sent_s, record.finished_s
    first_byte_s, first_token_s = record.first_byte_s, record.first_token_s
    return Entry(
        ended,
        record.request_id,
        considered,
        Happened(
            record.outcome,
            record.pool,
            record.backend,
            record.reason,
            record.status,
            record.attempts,
            record.prompt_tokens,
            record.completion_tokens,
            record.bytes_out,
            None if decided_s is None else decided_s - received_s,
            record.waited_s,
            None if sent_s is None else sent_s - received_s,
            None if first_byte_s is None else first_byte_s - received_s,
            None if first_token_s is None else first_token_s - received_s,
            None if first_token_s is None else _token_s(record.completion_tokens, first_token_s, finished_s),
            None if finished_s is None else finished_s - received_s,
        ),
    )


def _token_s(tokens: int | None, first_s: float, finished_s: float | None) -> float | None:
    """Seconds per token after the first one, where stream and usage tell."""
    return None if tokens is None or tokens < 2 or finished_s is None else (finished_s - first_s) / (tokens - 1)
