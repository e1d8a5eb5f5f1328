"""What is remembered of one finished request: the one line from which metrics and the access log are made."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from breakeven.spans import Spans
from breakeven.trace_context import TraceParent
from breakeven_policies.journal import Considered


class Outcome(StrEnum):
    """How a request ended, and by whose doing; the word in metric labels and in the access log."""

    __hash__ = str.__hash__  # Enum's is a function in Python, and every request looks its end up twice

    COMPLETED = "completed"
    REJECTED_BY_ENGINE = "rejected_by_engine"
    CLIENT_ERROR = "client_error"
    CLIENT_CLOSED = "client_closed"
    UPSTREAM_ERROR = "upstream_error"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    REFUSED = "refused"
    CUT_BY_DRAIN = "cut_by_drain"


class Party(StrEnum):
    """Who ended a request: whose word or deed was the last one."""

    CLIENT = "client"
    ENGINE = "engine"
    ROUTER = "router"


ENDED_BY: Mapping[Outcome, Party] = {
    Outcome.COMPLETED: Party.ENGINE,
    Outcome.REJECTED_BY_ENGINE: Party.ENGINE,
    Outcome.CLIENT_ERROR: Party.ROUTER,
    Outcome.CLIENT_CLOSED: Party.CLIENT,
    Outcome.UPSTREAM_ERROR: Party.ENGINE,
    Outcome.UPSTREAM_TIMEOUT: Party.ROUTER,
    Outcome.TOTAL_TIMEOUT: Party.ROUTER,
    Outcome.REFUSED: Party.ROUTER,
    Outcome.CUT_BY_DRAIN: Party.ROUTER,
}
"""A time-out is the router's doing: the engine might have answered yet."""


class AttemptResult(StrEnum):
    """How the attempt at one backend ended, as far as the choice of a backend is concerned."""

    __hash__ = str.__hash__

    ANSWERED = "answered"
    SERVER_ERROR = "server_error"
    CONNECT_FAILED = "connect_failed"
    LOST = "lost"
    UNAVAILABLE = "unavailable"
    TIMED_OUT = "timed_out"
    ABANDONED = "abandoned"


class Waited(StrEnum):
    """How a wait for a place at an engine ended."""

    SERVED = "served"
    EXPIRED = "expired"
    LEFT = "left"
    REFUSED = "refused"


class RequestRecord(Struct):
    """Filled in while a request lives. Times are seconds on the monotonic clock of the loop; None: it never happened.

    `received_s`: the body was complete; `decided_s`: the policy had answered; `sent_s`: the request was written to
    the engine that answered in the end; `first_byte_s`: its response head came; `first_token_s`: the first event with
    generated text; `finished_s`: the end. Token counts are the engine's own usage. `attempts` counts backends tried.
    `waited_s` is how long it waited for a place at an engine, where it had to.
    `method` is empty where the request could not be read; `client_key` is the name of the client's key, never the key.
    `trace`: the trace that it belongs to;
    `considered`: what the policy was asked, kept only where the journal or a span wants it;
    `spans`: where the router takes part in tracing; `finish_reason`: the last word of a stream about its end.
    """

    request_id: str
    endpoint: str
    received_s: float
    method: str = "POST"
    model: str | None = None
    stream: bool = False
    temperature: float | None = None
    pool: str | None = None
    backend: str | None = None
    reason: str | None = None
    policy: str | None = None
    outcome: Outcome | None = None
    status: int | None = None
    attempts: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    decided_s: float | None = None
    sent_s: float | None = None
    first_byte_s: float | None = None
    first_token_s: float | None = None
    finished_s: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    client_key: str | None = None
    trace: TraceParent | None = None
    considered: Considered | None = None
    waited_s: float | None = None
    spans: Spans | None = None
    finish_reason: str | None = None


def judged(status: int | None, *, failed_inside: bool) -> Outcome:
    """What a complete answer means: a refusal is the client's doing, a 5xx or an error inside a stream the engine's."""
    if failed_inside or (status is not None and status >= 500):
        return Outcome.UPSTREAM_ERROR
    if status is not None and status >= 400:
        return Outcome.REJECTED_BY_ENGINE
    return Outcome.COMPLETED
