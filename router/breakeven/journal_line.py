"""What the router knows of a finished request, as a line of the journal; the format is the policies' `journal`."""

from collections.abc import Callable
from datetime import datetime

from breakeven.log_line import since
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
        return considered is not None and (share >= 1.0 or is_sampled(considered.request.ticket, share))

    return wanted


def _entry(ended: datetime, record: RequestRecord, considered: Considered) -> Entry:
    received_s = record.received_s
    return Entry(
        ended.isoformat(timespec="milliseconds"),
        record.request_id,
        considered,
        Happened(
            outcome=record.outcome,
            pool=record.pool,
            backend=record.backend,
            reason=record.reason,
            status=record.status,
            attempts=record.attempts,
            prompt_tokens=record.prompt_tokens,
            completion_tokens=record.completion_tokens,
            bytes_out=record.bytes_out,
            decided_s=since(received_s, record.decided_s),
            waited_s=since(0.0, record.waited_s),
            sent_s=since(received_s, record.sent_s),
            first_byte_s=since(received_s, record.first_byte_s),
            first_token_s=since(received_s, record.first_token_s),
            token_s=_token_s(record),
            finished_s=since(received_s, record.finished_s),
        ),
    )


def _token_s(record: RequestRecord) -> float | None:
    """Seconds per token after the first one, where stream and usage tell."""
    tokens, first_s, finished_s = record.completion_tokens, record.first_token_s, record.finished_s
    if tokens is None or tokens < 2 or first_s is None or finished_s is None:
        return None
    return round((finished_s - first_s) / (tokens - 1), 6)
