"""One decision and its outcome as one line of JSON: enough to decide it again under another policy, and to compare.

A line holds the parameters of the request (no prompt, no header), the ticket, the fleet as the policy saw it, what was
decided, and what came of it. It is versioned: `"v":1` comes first. Members may be added without another version, and
readers pass over what they do not know; a change of meaning is a new version, and a reader says which it can read.

What is left out of the fleet is which models each engine lists: a line tells whether it serves the one of this request
(`serves`), which is all that capability asks. Every policy decides the same from a line as it did from the fleet.
Nothing here opens a file: the router writes the lines and the suite reads them.
"""

import json
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from breakeven_policies.capability import serves_model
from breakeven_policies.decision import Decision, Reason, Refusal, Refuse, Route, Target
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolKind, PoolView

VERSION = 1

MODEL_CHARACTERS_MAX = 200
"""Clients name the model; a megabyte of name must not become a megabyte of journal."""

GOLDEN = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio: its multiples modulo 2**64 are spread evenly (Knuth, volume 3, section 6.4)."""


class Considered(Struct, frozen=True):
    """What a policy was asked and what it answered; `fleet` as it saw it."""

    request: RequestView
    fleet: FleetSnapshot
    decision: Decision


class Happened(Struct, frozen=True, omit_defaults=True):
    """What came of a decision; times are seconds since the request was complete, None: it never happened.

    `outcome`, `pool`, `backend` and `reason` are the words of the access log: `reason` is that of the answer, which is
    not the decision's where another pool stood in. `token_s` is the time per token after the first one.
    """

    outcome: str | None = None
    pool: str | None = None
    backend: str | None = None
    reason: str | None = None
    status: int | None = None
    attempts: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    bytes_out: int = 0
    decided_s: float | None = None
    waited_s: float | None = None
    sent_s: float | None = None
    first_byte_s: float | None = None
    first_token_s: float | None = None
    token_s: float | None = None
    finished_s: float | None = None


class Entry(Struct, frozen=True):
    """One line. `time`: when the request had ended, with its time zone; `request_id` as in the access log."""

    time: datetime
    request_id: str
    considered: Considered
    happened: Happened


class _Backend(Struct, frozen=True, omit_defaults=True):
    name: str
    health: Health = Health.READY
    serves: bool = True
    in_flight: int = 0
    in_flight_max: int = 0
    draining: bool = False
    in_flight_at_scrape: int = 0
    scraped_at_s: float | None = None
    signals: EngineSignals | None = None


class _Pool(Struct, frozen=True, omit_defaults=True):
    name: str
    kind: PoolKind
    backends: tuple[_Backend, ...]
    method: str = "none"
    speculative_tokens: int = 0


class _Decided(Struct, frozen=True, omit_defaults=True):
    policy: str
    reason: Reason | None = None
    refusal: Refusal | None = None
    ranking: tuple[str, ...] = ()


class _Line(Struct, frozen=True, tag_field="v", tag=VERSION):
    time: datetime
    request_id: str
    request: RequestView
    now_s: float
    pools: tuple[_Pool, ...]
    decision: _Decided
    happened: Happened


class _Version(Struct, frozen=True):
    v: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode
_decode_version = msgspec.json.Decoder(_Version).decode


class Encoder:
    """Writes entries as lines, each with its line end, ASCII.

    The fleet is most of a line and little of it changes from one to the next: what a pool or a backend was written as
    is kept for as long as its view is the same object. Names are configured, so that what is kept is bounded.
    """

    def __init__(self) -> None:
        self._signals: dict[str, tuple[EngineSignals, Raw]] = {}
        self._backends: dict[tuple[str, bool], tuple[BackendView, bytes]] = {}
        self._pools: dict[str, tuple[PoolView, str | None, bytes]] = {}

    def encode(self, entry: Entry) -> bytes:
        """The line."""
        request, fleet, decision = entry.considered.request, entry.considered.fleet, entry.considered.decision
        pools: Any = Raw(b"[%b]" % b",".join([self._pool(pool, request) for pool in fleet.pools]))
        if request.model is not None:
            model = readable(request.model)
            if model is not request.model:
                request = replace(request, model=model)
        line = _Line(entry.time, entry.request_id, request, fleet.now_s, pools, _decided(decision), entry.happened)
        return _encode(line) + b"\n"

    def _pool(self, pool: PoolView, request: RequestView) -> bytes:
        known = self._pools.get(pool.name)
        if known is not None and known[0] is pool and known[1] == request.model:
            return known[2]
        backends: Any = Raw(b"[%b]" % b",".join([self._backend(backend, request) for backend in pool.backends]))
        written = _encode(_Pool(pool.name, pool.kind, backends, pool.method, pool.speculative_tokens))
        self._pools[pool.name] = (pool, request.model, written)
        return written

    def _backend(self, backend: BackendView, request: RequestView) -> bytes:
        serves = serves_model(backend, request)
        known = self._backends.get((backend.name, serves))
        if known is not None and known[0] is backend:
            return known[1]
        signals: Any = None if backend.signals is None else self._figures(backend.name, backend.signals)
        written = _encode(
            _Backend(
                backend.name,
                backend.health,
                serves,
                backend.in_flight,
                backend.in_flight_max,
                backend.draining,
                backend.in_flight_at_scrape,
                backend.scraped_at_s,
                signals,
            )
        )
        self._backends[backend.name, serves] = (backend, written)
        return written

    def _figures(self, backend: str, signals: EngineSignals) -> Raw:
        """Those that are known: they are the same objects from one scrape to the next."""
        known = self._signals.get(backend)
        if known is not None and known[0] is signals:
            return known[1]
        figures = {name: value for name, value in asdict(signals).items() if value not in (None, ())}
        written = Raw(_encode(figures))
        self._signals[backend] = (signals, written)
        return written


def decode(line: bytes) -> Entry:
    """The entry of one line; ValueError says that it is none, or of which version it is."""
    try:
        version = _decode_version(line).v
        if version != VERSION:
            message = f"a journal line of version {version}; this release reads version {VERSION}"
            raise ValueError(message)
        return _entry(_decode(line))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"not a line of a journal: {error}"
        raise ValueError(message) from None


def is_sampled(ticket: float, share: float) -> bool:
    """Whether a request is among the `share` (0 to 1) that is written down: the same for the same ticket.

    The ticket is mixed first: a policy may explore with tickets below some bound, and a journal of those alone would
    tell of nothing else.
    """
    return ((int(ticket * 2**53) * GOLDEN) & 0xFFFFFFFFFFFFFFFF) < share * 2**64


def readable(text: str) -> str | Any:
    """A client's word, short and escaped: it must not steer the terminal of whoever reads it, nor break the encoder."""
    short = text[:MODEL_CHARACTERS_MAX]
    if short.isascii() and short.isprintable():
        return short
    whole = short.encode("utf-8", "replace").decode()  # half a character, which JSON can spell and few readers take
    return Raw(json.dumps(whole).encode("ascii"))


def _decided(decision: Decision) -> _Decided:
    if isinstance(decision, Refuse):
        return _Decided(decision.policy, None, decision.refusal)
    return _Decided(decision.policy, decision.reason, None, tuple([target.backend for target in decision.ranking]))


def _entry(line: _Line) -> Entry:
    fleet = FleetSnapshot(line.now_s, tuple(map(_pool, line.pools)))
    decided, pool_of = line.decision, {backend.name: pool.name for pool in fleet.pools for backend in pool.backends}
    if decided.refusal is not None:
        decision: Decision = Refuse(decided.refusal, decided.policy)
    elif decided.reason is not None and pool_of.keys() >= set(decided.ranking):
        ranking = tuple(Target(pool_of[backend], backend) for backend in decided.ranking)
        decision = Route(ranking, decided.reason, decided.policy)
    else:
        message = "not a line of a journal: it neither routes within its fleet nor refuses"
        raise ValueError(message)
    return Entry(line.time, line.request_id, Considered(line.request, fleet, decision), line.happened)


def _pool(pool: _Pool) -> PoolView:
    backends = tuple(
        BackendView(
            name=backend.name,
            health=backend.health,
            in_flight=backend.in_flight,
            signals=backend.signals,
            scraped_at_s=backend.scraped_at_s,
            in_flight_at_scrape=backend.in_flight_at_scrape,
            models=None if backend.serves else frozenset(),
            in_flight_max=backend.in_flight_max,
            draining=backend.draining,
        )
        for backend in pool.backends
    )
    return PoolView(pool.name, pool.kind, backends, pool.method, pool.speculative_tokens)
