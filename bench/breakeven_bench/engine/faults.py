"""Faults that can be switched on while the engine runs: what there is, what a request for one may say, when it is over.

One fault is on at a time. It ends by itself after `seconds` (wall time), or once it has hit `count` requests, or when
another one, or `none`, replaces it. POST /sim/faults switches, GET /sim/faults shows.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

SECONDS_MAX = 3600.0
"""No test waits longer than an hour; a typing error must not switch an engine off for good."""


class FaultKind(StrEnum):
    """What can go wrong; `DESCRIPTIONS` says what each one does."""

    NONE = "none"
    LOADING = "loading"
    REFUSE = "refuse"
    HANG_BEFORE_HEAD = "hang_before_head"
    DIE_MID_STREAM = "die_mid_stream"
    ERROR_EVENT = "error_event"
    STATUS = "status"
    SLOW_EVENTS = "slow_events"
    CORE_DEAD = "core_dead"


DESCRIPTIONS: dict[FaultKind, str] = {
    FaultKind.NONE: "serve again",
    FaultKind.LOADING: (
        "answer 503 on every path but this one, /health included, as a proxy before a loading engine does (vLLM itself "
        "accepts no connection until it has loaded, see refuse)"
    ),
    FaultKind.REFUSE: 'close the listening socket and idle connections for "seconds" (required)',
    FaultKind.HANG_BEFORE_HEAD: "take requests for text and answer nothing, not even a head, until the fault is over",
    FaultKind.DIE_MID_STREAM: 'cut the connection under a stream after "after_events" events (default 3)',
    FaultKind.ERROR_EVENT: 'end a stream with an error event after "after_events" events (default 3)',
    FaultKind.STATUS: 'answer requests for text with "code": 429, 500 or 503',
    FaultKind.SLOW_EVENTS: 'make every engine step "gap_ms" milliseconds of wall time longer (default 500)',
    FaultKind.CORE_DEAD: (
        "kill the engine core: what is being served fails, /health is 503, requests for text are 500, and within five "
        "seconds the process ends"
    ),
}

_COUNTABLE = {FaultKind.HANG_BEFORE_HEAD, FaultKind.DIE_MID_STREAM, FaultKind.ERROR_EVENT, FaultKind.STATUS}
_TEXT_ONLY = {FaultKind.HANG_BEFORE_HEAD, FaultKind.STATUS}
_STREAM_ONLY = {FaultKind.DIE_MID_STREAM, FaultKind.ERROR_EVENT}


class FaultRequest(BaseModel):
    """The body of POST /sim/faults; a word that means nothing is refused rather than ignored."""

    model_config = ConfigDict(extra="forbid")

    fault: FaultKind
    seconds: float | None = Field(None, gt=0, le=SECONDS_MAX)
    count: int | None = Field(None, ge=1)
    after_events: int = Field(3, ge=1)
    code: int = 503
    gap_ms: float = Field(500.0, ge=0, le=60_000)


def parse_fault(document: Any) -> FaultRequest:
    """The fault that a body asks for. Raises ValueError with one line that says what is wrong."""
    try:
        fault = FaultRequest.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        message = f"{'.'.join(str(part) for part in first['loc']) or 'body'}: {first['msg']}"
        raise ValueError(message) from None
    if fault.fault is FaultKind.REFUSE and fault.seconds is None:
        message = "seconds: refuse needs it, since nothing could switch the engine back on"
        raise ValueError(message)
    if fault.fault is FaultKind.CORE_DEAD and fault.seconds is not None:
        message = "seconds: nothing revives a dead core"
        raise ValueError(message)
    if fault.count is not None and fault.fault not in _COUNTABLE:
        message = f"count: {fault.fault} does not hit single requests"
        raise ValueError(message)
    if fault.fault is FaultKind.STATUS and fault.code not in (429, 500, 503):
        message = f"code: {fault.code} is not one of 429, 500, 503"
        raise ValueError(message)
    return fault


@dataclass(slots=True)
class FaultSwitch:
    """Which fault is on. Times are seconds on the caller's clock."""

    _fault: FaultRequest | None = None
    _until_s: float | None = None
    hits: int = 0

    def set(self, fault: FaultRequest, now_s: float) -> None:
        """Switch a fault on, or everything off."""
        self._fault = None if fault.fault is FaultKind.NONE else fault
        self._until_s = None if fault.seconds is None else now_s + fault.seconds
        self.hits = 0

    def current(self, now_s: float) -> FaultRequest | None:
        """The fault that is on."""
        fault = self._fault
        if fault is None or (self._until_s is not None and now_s >= self._until_s):
            return None
        return None if fault.count is not None and self.hits >= fault.count else fault

    def strike(self, now_s: float, *, stream: bool) -> FaultRequest | None:
        """The fault that hits a request for text which arrives now, counted; None: it is served as always."""
        fault = self.current(now_s)
        if fault is None:
            return None
        if fault.fault in _TEXT_ONLY or (stream and fault.fault in _STREAM_ONLY):
            self.hits += 1
            return fault
        return None

    def extra_step_s(self, now_s: float) -> float:
        """By how much an engine step is longer now, in seconds of wall time."""
        fault = self.current(now_s)
        return fault.gap_ms / 1000 if fault is not None and fault.fault is FaultKind.SLOW_EVENTS else 0.0

    def is_on(self, kind: FaultKind, now_s: float) -> bool:
        """Whether this is the fault that is on."""
        fault = self.current(now_s)
        return fault is not None and fault.fault is kind

    def describe(self, now_s: float) -> dict[str, Any]:
        """What GET shows: the fault with its settings, the requests it hit, and the seconds left (null: no end)."""
        fault = self.current(now_s)
        shown: dict[str, Any] = {"fault": FaultKind.NONE.value} if fault is None else fault.model_dump(mode="json")
        left_s = None if fault is None or self._until_s is None else round(self._until_s - now_s, 3)
        return {**shown, "hits": self.hits, "seconds_left": left_s}
