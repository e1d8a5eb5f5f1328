"""One decision and its outcome as one line of JSON: enough to decide it again under another policy, and to compare.

A line holds the parameters of the request (no prompt, no header), the ticket, the fleet as the policy saw it, what was
decided, and what came of it. It is versioned: `"v":1` comes first. Members may be added without another version, and
readers pass over what they do not know; a change of meaning is a new version, and a reader says which it can read.

What is left out of the fleet is which models each engine lists: a line tells whether it serves the one of this request
(`serves`), which is all that capability asks. A policy that learns nothing decides the same from a line as it did from
the fleet; what one that learns had learned (`FleetSnapshot.learned`) is not in it, only what it predicted from that.
Nothing here opens a file: the router writes the lines and the suite reads them.
"""

import json
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from breakeven_policies.capability import serves_model
from breakeven_policies.decision import Decision, Prediction, Reason, Refusal, Refuse, Route, Target
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolKind, PoolView

VERSION = 1

MODEL_CHARACTERS_MAX = 200
"""Clients name the model; a megabyte of name must not become a megabyte of journal or log."""

ROUTES_MAX = 1000
"""Routes that are remembered as they were written: the rankings of ten backends. Beyond it all are forgotten."""

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
    method: str = "none"
    speculative_tokens: int = 0
    backends: tuple[_Backend, ...] = ()


class _Decided(Struct, frozen=True, omit_defaults=True):
    policy: str
    reason: Reason | None = None
    refusal: Refusal | None = None
    ranking: tuple[str, ...] = ()
    prediction: Prediction | None = None


class _Line(Struct, frozen=True, tag_field="v", tag=VERSION):
    time: datetime
    request_id: str
    request: RequestView
    now_s: float
    pools: tuple[_Pool, ...]
    decision: _Decided
    happened: Happened
    replicas: float = 1.0


class _Version(Struct, frozen=True):
    v: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode
_decode_version = msgspec.json.Decoder(_Version).decode


class _Written(Struct, frozen=True):
    """How a backend was written: all that comes before the number of its requests, which changes with each of them."""

    view: BackendView
    before: bytes


class Encoder:
    """Writes entries as lines, each with its line end, ASCII.

    The fleet is most of a line and little of it changes from one to the next: what a pool was written as is kept for as
    long as its view is the same object, and of a backend all but its requests in flight for as long as its scrape and
    its health are the same. Names are configured, so that what is kept is bounded.
    """

    def __init__(self) -> None:
        self._signals: dict[str, tuple[EngineSignals, Raw]] = {}
        self._backends: dict[tuple[str, bool], _Written] = {}
        self._pools: dict[str, tuple[PoolView, str | None, bytes]] = {}
        self._routes: dict[tuple[tuple[Target, ...], Reason, str], tuple[_Decided, Raw]] = {}

    def encode(self, entry: Entry) -> bytes:
        """The line."""
        considered = entry.considered
        request, fleet, model = considered.request, considered.fleet, considered.request.model
        pools: Any = Raw(b"[%b]" % b",".join([self._pool(pool, request) for pool in fleet.pools]))
        decided: Any = self._decided(considered.decision)
        if model is not None and not is_readable(model):
            request = replace(request, model=readable(model))
        line = _Line(entry.time, entry.request_id, request, fleet.now_s, pools, decided, entry.happened, fleet.replicas)
        return _encode(line) + b"\n"

    def _decided(self, decision: Decision) -> Raw | _Decided:
        if isinstance(decision, Refuse):
            return _Decided(decision.policy, None, decision.refusal)
        key = (decision.ranking, decision.reason, decision.policy)
        known = self._routes.get(key)
        if known is None:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            decided = _Decided(
                decision.policy, decision.reason, None, tuple([each.backend for each in decision.ranking])
            )
            known = self._routes[key] = decided, Raw(_encode(decided))
        return known[1] if decision.prediction is None else replace(known[0], prediction=decision.prediction)

    def _pool(self, pool: PoolView, request: RequestView) -> bytes:
        known = self._pools.get(pool.name)
        if known is not None and known[0] is pool and known[1] == request.model:
            return known[2]
        head = _encode(_Pool(pool.name, pool.kind, pool.method, pool.speculative_tokens))
        backends = b",".join([self._backend(backend, request) for backend in pool.backends])
        written = b'%b,"backends":[%b]}' % (head[:-1], backends)
        self._pools[pool.name] = (pool, request.model, written)
        return written

    def _backend(self, view: BackendView, request: RequestView) -> bytes:
        serves = view.models is None or serves_model(view, request)
        known = self._backends.get((view.name, serves))
        if known is None or _differ(known.view, view):
            known = self._backends[view.name, serves] = self._written(view, serves=serves)
        return b"%b%d}" % (known.before, view.in_flight)

    def _written(self, view: BackendView, *, serves: bool) -> _Written:
        signals: Any = None if view.signals is None else self._figures(view.name, view.signals)
        backend = _Backend(
            view.name,
            view.health,
            serves,
            0,
            view.in_flight_max,
            view.draining,
            view.in_flight_at_scrape,
            view.scraped_at_s,
            signals,
        )
        return _Written(view, _encode(backend)[:-1] + b',"in_flight":')

    def _figures(self, backend: str, signals: EngineSignals) -> Raw:
        """Those that are known: they are the same objects from one scrape to the next."""
        known = self._signals.get(backend)
        if known is not None and known[0] is signals:
            return known[1]
        figures = {name: value for name, value in asdict(signals).items() if value not in (None, ())}
        written = Raw(_encode(figures))
        self._signals[backend] = (signals, written)
        return written


def _differ(one: BackendView, other: BackendView) -> bool:
    """Whether two views of a backend differ in more than how many requests it has of this router."""
    return (
        one.signals is not other.signals
        or one.health is not other.health
        or one.scraped_at_s != other.scraped_at_s
        or one.in_flight_at_scrape != other.in_flight_at_scrape
        or one.draining is not other.draining
        or one.in_flight_max != other.in_flight_max
    )


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


def is_readable(text: str) -> bool:
    """Whether a client's word may stand in a line as it is, as nearly every one may."""
    return len(text) <= MODEL_CHARACTERS_MAX and text.isascii() and text.isprintable()


def readable(text: str) -> str | Any:
    """A client's word, short and escaped: it must not steer the terminal of whoever reads it, nor break the encoder."""
    short = text[:MODEL_CHARACTERS_MAX]
    if is_readable(short):
        return short
    whole = short.encode("utf-8", "replace").decode()  # half a character, which JSON can spell and few readers take
    return Raw(json.dumps(whole).encode("ascii"))


def _entry(line: _Line) -> Entry:
    fleet = FleetSnapshot(line.now_s, tuple(map(_pool, line.pools)), replicas=line.replicas)
    decided, pool_of = line.decision, {backend.name: pool.name for pool in fleet.pools for backend in pool.backends}
    if decided.refusal is not None:
        decision: Decision = Refuse(decided.refusal, decided.policy)
    elif decided.reason is not None and pool_of.keys() >= set(decided.ranking):
        ranking = tuple(Target(pool_of[backend], backend) for backend in decided.ranking)
        decision = Route(ranking, decided.reason, decided.policy, decided.prediction)
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
