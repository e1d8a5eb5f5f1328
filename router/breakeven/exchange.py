"""One proxied request as a state machine: events in, commands out, no I/O.

    chosen -> connecting -> waiting -> streaming -> finished

The table at the end of this file is the whole machine: a cell that is not in it cannot happen, and `on` raises if it
does. The laws that it keeps, tested over random sequences of events:

- exactly one outcome;
- nothing is tried again once a response head went to the client;
- no backend is tried twice (one reconnect to the same backend after a stale connection is the same attempt);
- a request that was fully sent and then timed out is never sent again;
- a request that was lost with `LOST_MAX` engines is not given to another: it may be what kills them;
- a departed client aborts the upstream exactly once.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum, auto

from msgspec import Struct

from breakeven.record import Outcome
from breakeven_policies.decision import Target

LOST_MAX = 2
"""Engines that may break with one request before it has an answer. One loss is an engine's accident and worth another
attempt; after two the request itself is suspect, and a third engine is worth more than its answer.
"""


class _Word(Enum):
    """A member is its own hash: Enum's, in Python, costs 0.5 µs at every step of the table."""

    __hash__ = object.__hash__


class State(_Word):
    """Where an exchange stands."""

    CHOSEN = auto()
    CONNECTING = auto()
    WAITING = auto()
    STREAMING = auto()
    FINISHED = auto()


class Event(_Word):
    """What can happen to an exchange."""

    START = auto()
    CONNECTED = auto()
    CONNECT_FAILED = auto()
    NO_PLACE = auto()
    """Every backend left in the ranking had as many requests as it may have, for longer than one waits for a place."""
    STALE = auto()
    """A reused connection was lost before any byte of the response."""
    LOST = auto()
    """The connection was lost, or what came is not HTTP."""
    HEAD = auto()
    HEAD_UNAVAILABLE = auto()
    """A head that says that this engine cannot serve now: 502, 503, or 500 of an engine that is not ready."""
    END = auto()
    TRUNCATED = auto()
    """The response ended as HTTP, but its stream said neither why it finished nor that it is done."""
    FIRST_BYTE_TIMEOUT = auto()
    IDLE_TIMEOUT = auto()
    TOTAL_TIMEOUT = auto()
    """The whole took longer than a request may."""
    CLIENT_GONE = auto()
    EXPIRED = auto()
    """The router stops and the time to drain is over."""


class Command(_Word):
    """What the edge must do, in the order given."""

    CONNECT = auto()
    """Take a connection to the current target, an idle one if there is one."""
    RECONNECT = auto()
    """Open a fresh connection to the current target."""
    SEND = auto()
    ABORT_UPSTREAM = auto()
    """Close the connection (or give up connecting), so that the engine stops working for nobody."""
    RELAY_HEAD = auto()
    COMPLETE = auto()
    """End the response to the client and keep the upstream connection for others."""
    ANSWER_ERROR = auto()
    """Answer with the router's own error: nothing has gone to the client yet."""
    BREAK = auto()
    """Tell the client that its answer is cut: an error event in a stream, a cut connection otherwise."""
    FINISH = auto()
    """Count, record and forget; always the last command, and given once."""


Commands = tuple[Command, ...]


class Step(Struct, frozen=True):
    """What an event leads to: the next state, what to do on the way, and the outcome where this is the end."""

    state: State
    commands: Commands
    outcome: Outcome | None = None


class Exchange:
    """One request on its way through at most `len(targets)` backends. `outcome` is None until it has finished."""

    __slots__ = ("attempt", "lost", "outcome", "reconnected", "state", "targets")

    def __init__(self, targets: tuple[Target, ...]) -> None:
        if not targets:
            message = "an exchange needs at least one target"
            raise ValueError(message)
        self.targets = targets
        self.attempt = 0
        self.lost = 0
        self.reconnected = False
        self.state = State.CHOSEN
        self.outcome: Outcome | None = None

    @property
    def target(self) -> Target:
        """The backend being tried."""
        return self.targets[self.attempt]

    @property
    def has_next(self) -> bool:
        """Whether another backend of the ranking is left to try."""
        return self.attempt + 1 < len(self.targets)

    @property
    def left(self) -> tuple[Target, ...]:
        """The backend being tried and those after it."""
        return self.targets[self.attempt :]

    def leave_out(self, backends: Collection[str]) -> None:
        """Try none of these after the one being tried now."""
        here = self.attempt + 1
        self.targets = self.targets[:here] + tuple(each for each in self.targets[here:] if each.backend not in backends)

    def turn_to(self, target: Target) -> None:
        """Try that one of `left` now, and the others after it in their order."""
        others = tuple(each for each in self.left if each != target)
        self.targets = (*self.targets[: self.attempt], target, *others)

    def on(self, event: Event) -> Commands:
        """Take one event; the commands are to be carried out before the next one. ValueError: it cannot happen here."""
        cell = TABLE[self.state].get(event)
        if cell is None:
            message = f"{event.name} cannot happen to an exchange that is {self.state.name}"
            raise ValueError(message)
        step = cell if isinstance(cell, Step) else cell(self)
        self.state = step.state
        self.outcome = step.outcome
        return step.commands


Cell = Step | Callable[[Exchange], Step]
"""One step, or a choice between steps that depends on what is left to try."""


def _end(outcome: Outcome, *commands: Command) -> Step:
    return Step(State.FINISHED, (*commands, Command.FINISH), outcome)


CONNECT = Step(State.CONNECTING, (Command.CONNECT,))
LEAVE_AND_CONNECT = Step(State.CONNECTING, (Command.ABORT_UPSTREAM, Command.CONNECT))
RECONNECT = Step(State.CONNECTING, (Command.RECONNECT,))
SEND = Step(State.WAITING, (Command.SEND,))
RELAY = Step(State.STREAMING, (Command.RELAY_HEAD,))
COMPLETE = _end(Outcome.COMPLETED, Command.COMPLETE)
NOT_REACHED = _end(Outcome.REFUSED, Command.ANSWER_ERROR)
LOST_BEFORE_HEAD = _end(Outcome.UPSTREAM_ERROR, Command.ANSWER_ERROR)
BROKEN = _end(Outcome.UPSTREAM_ERROR, Command.BREAK)
SILENT_BEFORE_HEAD = _end(Outcome.UPSTREAM_TIMEOUT, Command.ABORT_UPSTREAM, Command.ANSWER_ERROR)
SILENT = _end(Outcome.UPSTREAM_TIMEOUT, Command.ABORT_UPSTREAM, Command.BREAK)
TOO_LONG_BEFORE_HEAD = _end(Outcome.TOTAL_TIMEOUT, Command.ABORT_UPSTREAM, Command.ANSWER_ERROR)
TOO_LONG = _end(Outcome.TOTAL_TIMEOUT, Command.ABORT_UPSTREAM, Command.BREAK)
DEPARTED = _end(Outcome.CLIENT_CLOSED, Command.ABORT_UPSTREAM)
EXPIRED_BEFORE_HEAD = _end(Outcome.CUT_BY_DRAIN, Command.ABORT_UPSTREAM, Command.ANSWER_ERROR)
EXPIRED = _end(Outcome.CUT_BY_DRAIN, Command.ABORT_UPSTREAM, Command.BREAK)


def _next_or(last: Step, onward: Step = CONNECT) -> Callable[[Exchange], Step]:
    """The next backend of the ranking, or `last` where none is left."""

    def choose(exchange: Exchange) -> Step:
        if not exchange.has_next:
            return last
        exchange.attempt += 1
        exchange.reconnected = False
        return onward

    return choose


_after_a_loss = _next_or(LOST_BEFORE_HEAD)
_not_reached = _next_or(NOT_REACHED)


def _lost_before_head(exchange: Exchange) -> Step:
    """The engine broke with the request on it."""
    exchange.lost += 1
    return LOST_BEFORE_HEAD if exchange.lost >= LOST_MAX else _after_a_loss(exchange)


def _no_connection(exchange: Exchange) -> Step:
    """The engine cannot be reached; where it could be just now, on a connection that broke, it was lost."""
    return _lost_before_head(exchange) if exchange.reconnected else _not_reached(exchange)


def _once_more(exchange: Exchange) -> Step:
    """A fresh connection to the same backend, once; a second stale one is a loss like any other."""
    if exchange.reconnected:
        return _lost_before_head(exchange)
    exchange.reconnected = True
    return RECONNECT


TABLE: Mapping[State, Mapping[Event, Cell]] = {
    State.CHOSEN: {
        Event.START: CONNECT,
    },
    State.CONNECTING: {
        Event.CONNECTED: SEND,
        Event.CONNECT_FAILED: _no_connection,
        Event.NO_PLACE: NOT_REACHED,
        Event.TOTAL_TIMEOUT: TOO_LONG_BEFORE_HEAD,
        Event.CLIENT_GONE: DEPARTED,
        Event.EXPIRED: EXPIRED_BEFORE_HEAD,
    },
    State.WAITING: {
        Event.STALE: _once_more,
        Event.LOST: _lost_before_head,
        Event.HEAD: RELAY,
        Event.HEAD_UNAVAILABLE: _next_or(RELAY, LEAVE_AND_CONNECT),
        Event.FIRST_BYTE_TIMEOUT: SILENT_BEFORE_HEAD,
        Event.TOTAL_TIMEOUT: TOO_LONG_BEFORE_HEAD,
        Event.CLIENT_GONE: DEPARTED,
        Event.EXPIRED: EXPIRED_BEFORE_HEAD,
    },
    State.STREAMING: {
        Event.LOST: BROKEN,
        Event.END: COMPLETE,
        Event.TRUNCATED: BROKEN,
        Event.IDLE_TIMEOUT: SILENT,
        Event.TOTAL_TIMEOUT: TOO_LONG,
        Event.CLIENT_GONE: DEPARTED,
        Event.EXPIRED: EXPIRED,
    },
    State.FINISHED: {},
}
