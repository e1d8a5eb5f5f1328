"""One proxied request as a state machine: events in, commands out, no I/O.

    chosen -> connecting -> waiting -> streaming -> finished

The table at the end of this file is the whole machine: a cell that is not in it cannot happen, and `on` raises if it
does. The laws that it keeps, tested over random sequences of events:

- exactly one outcome;
- nothing is tried again once a response head went to the client;
- no backend is tried twice (one reconnect to the same backend after a stale connection is the same attempt);
- a request that was fully sent and then timed out is never sent again;
- a departed client aborts the upstream exactly once.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto

from breakeven.record import Outcome
from breakeven_policies.decision import Target


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


class Exchange:
    """One request on its way through at most `len(targets)` backends. `outcome` is None until it has finished."""

    __slots__ = ("attempt", "outcome", "reconnected", "state", "targets")

    def __init__(self, targets: tuple[Target, ...]) -> None:
        if not targets:
            message = "an exchange needs at least one target"
            raise ValueError(message)
        self.targets = targets
        self.attempt = 0
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

    def on(self, event: Event) -> Commands:
        """Take one event; the commands are to be carried out before the next one. ValueError: it cannot happen here."""
        cell = TABLE[self.state].get(event)
        if cell is None:
            message = f"{event.name} cannot happen to an exchange that is {self.state.name}"
            raise ValueError(message)
        return cell(self)


def _start(exchange: Exchange) -> Commands:
    exchange.state = State.CONNECTING
    return (Command.CONNECT,)


def _send(exchange: Exchange) -> Commands:
    exchange.state = State.WAITING
    return (Command.SEND,)


def _reconnect(exchange: Exchange) -> Commands:
    if exchange.reconnected:
        return _lost_before_head(exchange)
    exchange.reconnected = True
    exchange.state = State.CONNECTING
    return (Command.RECONNECT,)


def _next(exchange: Exchange) -> Commands:
    exchange.attempt += 1
    exchange.reconnected = False
    exchange.state = State.CONNECTING
    return (Command.CONNECT,)


def _not_reached(exchange: Exchange) -> Commands:
    if exchange.has_next:
        return _next(exchange)
    return _finish(exchange, Outcome.REFUSED, Command.ANSWER_ERROR)


def _lost_before_head(exchange: Exchange) -> Commands:
    if exchange.has_next:
        return _next(exchange)
    return _finish(exchange, Outcome.UPSTREAM_ERROR, Command.ANSWER_ERROR)


def _head(exchange: Exchange) -> Commands:
    exchange.state = State.STREAMING
    return (Command.RELAY_HEAD,)


def _unavailable(exchange: Exchange) -> Commands:
    if exchange.has_next:
        return (Command.ABORT_UPSTREAM, *_next(exchange))
    return _head(exchange)


def _complete(exchange: Exchange) -> Commands:
    return _finish(exchange, Outcome.COMPLETED, Command.COMPLETE)


def _break(exchange: Exchange) -> Commands:
    return _finish(exchange, Outcome.UPSTREAM_ERROR, Command.BREAK)


def _break_idle(exchange: Exchange) -> Commands:
    return _finish(exchange, Outcome.UPSTREAM_TIMEOUT, Command.ABORT_UPSTREAM, Command.BREAK)


def _time_out(exchange: Exchange) -> Commands:
    return _finish(exchange, Outcome.UPSTREAM_TIMEOUT, Command.ABORT_UPSTREAM, Command.ANSWER_ERROR)


def _client_gone(exchange: Exchange) -> Commands:
    return _finish(exchange, Outcome.CLIENT_CLOSED, Command.ABORT_UPSTREAM)


def _refuse_expired(exchange: Exchange) -> Commands:
    return _finish(exchange, Outcome.CUT_BY_DRAIN, Command.ABORT_UPSTREAM, Command.ANSWER_ERROR)


def _break_expired(exchange: Exchange) -> Commands:
    return _finish(exchange, Outcome.CUT_BY_DRAIN, Command.ABORT_UPSTREAM, Command.BREAK)


def _finish(exchange: Exchange, outcome: Outcome, *commands: Command) -> Commands:
    exchange.state = State.FINISHED
    exchange.outcome = outcome
    return (*commands, Command.FINISH)


TABLE: Mapping[State, Mapping[Event, Callable[[Exchange], Commands]]] = {
    State.CHOSEN: {
        Event.START: _start,
    },
    State.CONNECTING: {
        Event.CONNECTED: _send,
        Event.CONNECT_FAILED: _not_reached,
        Event.CLIENT_GONE: _client_gone,
        Event.EXPIRED: _refuse_expired,
    },
    State.WAITING: {
        Event.STALE: _reconnect,
        Event.LOST: _lost_before_head,
        Event.HEAD: _head,
        Event.HEAD_UNAVAILABLE: _unavailable,
        Event.FIRST_BYTE_TIMEOUT: _time_out,
        Event.CLIENT_GONE: _client_gone,
        Event.EXPIRED: _refuse_expired,
    },
    State.STREAMING: {
        Event.LOST: _break,
        Event.END: _complete,
        Event.TRUNCATED: _break,
        Event.IDLE_TIMEOUT: _break_idle,
        Event.CLIENT_GONE: _client_gone,
        Event.EXPIRED: _break_expired,
    },
    State.FINISHED: {},
}
