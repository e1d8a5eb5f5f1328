"""Carries one request to an engine and its answer back: the edge at which the commands of `exchange` are carried out.

A relay stands between two sockets: `Receiver` of the upstream connection, `Responder` of the downstream one. What
either tells it becomes an event of the state machine, and what the machine commands it does. The bytes of an answer
go on in the same turn of the loop in which they came: nothing is held back, nothing is read ahead of a slow client.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec import Struct

from breakeven import downstream, upstream
from breakeven.admission import Admission
from breakeven.counted import CountedPassage
from breakeven.deadlines import Deadlines
from breakeven.error_row import fingerprint
from breakeven.errors import ApiError
from breakeven.exchange import Command, Event, Exchange, State
from breakeven.fleet import ConnectRefused, Erred, Finished, Fleet, Started
from breakeven.further_attempt import FurtherAttempt, finds_place, has_another
from breakeven.headers import (
    CORS_ANSWERS,
    RESPONSE_DROPPED,
    ResponseHead,
    dropped_headers,
    error_lines,
    request_head,
    unbuffered,
    why_lines,
)
from breakeven.lessons import teach
from breakeven.outcome_errors import ERRORS
from breakeven.passage import Passage, passage_of
from breakeven.record import AttemptResult, Outcome, RequestRecord, judged
from breakeven.shipment import Shipment
from breakeven_policies.decision import Reason

# What every request meets has a name here: Python 3.11 takes 0.2 µs to find a member of an enumeration.
START, CONNECTED, HEAD, END = Event.START, Event.CONNECTED, Event.HEAD, Event.END
ABANDONED, ANSWERED, COMPLETED = AttemptResult.ABANDONED, AttemptResult.ANSWERED, Outcome.COMPLETED

SAYS_NOTHING = (AttemptResult.ABANDONED, AttemptResult.CONNECT_FAILED)
"""Results that are not held against an engine: the client left; or there was no connection, which health checks judge,
and which may be for want of descriptors of our own.
"""

HEARD = (AttemptResult.ANSWERED, AttemptResult.SERVER_ERROR, AttemptResult.UNAVAILABLE)
"""Results for which the engine sent a head."""

UNAVAILABLE = frozenset((502, 503))
"""Statuses that say that this engine cannot serve now; another one may."""


class Engine(Struct, frozen=True):
    """How to reach one backend, and what is the same for each of its requests.

    `dropped` names the headers of a client that do not go there, `lines` are those that every request gets.
    """

    name: str
    pool: str
    host: bytes
    dropped: frozenset[bytes]
    lines: bytes
    accepts_gzip: bool
    connections: upstream.ConnectionPool
    started: Started
    answered: Finished
    failed: Finished
    left: Finished
    response_line: bytes


def engine_at(
    name: str,
    pool: str,
    host: bytes,
    authorization: bytes | None,
    connections: upstream.ConnectionPool,
    *,
    accepts_gzip: bool,
    router_has_keys: bool = False,
    policy_header: bytes = b"",
) -> Engine:
    """An engine with what is the same for each of its requests made once; what speaks to the router stays here."""
    line = f"x-breakeven-pool: {pool}\r\nx-breakeven-backend: {name}\r\n".encode()
    dropped = dropped_headers(policy_header, client_key=authorization is None and not router_has_keys)
    lines = b"" if authorization is None else b"authorization: %b\r\n" % authorization
    return Engine(
        name=name,
        pool=pool,
        host=host,
        dropped=dropped,
        lines=lines,
        accepts_gzip=accepts_gzip,
        connections=connections,
        started=Started(name),
        answered=Finished(name, answered=True),
        failed=Finished(name, answered=False),
        left=Finished(name),
        response_line=line,
    )


class Edge(Struct, frozen=True):
    """What all relays of a process share.

    `line` is where a request waits for a place; `is_well` asks a backend now whether it is well; `report` takes every
    finished record, `attempted` every end of an attempt.
    """

    engines: Mapping[str, Engine]
    fleet: Fleet
    line: Admission
    now: Callable[[], float]
    first_byte_timeout_s: float
    idle_timeout_s: float
    is_well: Callable[[str], Awaitable[bool]]
    report: Callable[[RequestRecord], None]
    attempted: Callable[[str, str, AttemptResult], None]
    deadlines: "Deadlines[Relay] | None" = None


class Relay:
    """One request between a client and the engines of its ranking."""

    __slots__ = (
        "_asking", "_client", "_connection", "_edge", "_ended", "_engine", "_exchange", "_first_body", "_head",
        "_heard_s", "_opening", "_passage", "_record", "_result", "_shipment", "_slow", "_timer",
    )  # fmt: skip

    def __init__(
        self, edge: Edge, client: downstream.Connection, exchange: Exchange, shipment: Shipment, record: RequestRecord
    ) -> None:
        self._edge = edge
        self._client = client
        self._exchange = exchange
        self._shipment = shipment
        self._record = record
        self._opening: upstream.Opening | FurtherAttempt | None = None
        self._connection: upstream.Connection | None = None
        self._engine: Engine | None = None
        self._head: ResponseHead | None = None
        self._first_body = b""
        self._ended = False
        self._asking: asyncio.Task[None] | None = None
        self._passage: Passage | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard_s = 0.0
        self._slow = False
        self._result = ABANDONED

    def start(self) -> None:
        """Set out for the first backend of the ranking."""
        self._client.attach(self)
        if self._edge.deadlines is not None:
            self._edge.deadlines.add(self, self._record.received_s)
        self._on(START)

    # -- Receiver: what the engine's side tells

    def on_connected(self, connection: upstream.Connection) -> None:
        """The connection stands."""
        self._opening = None
        self._connection = connection
        self._on(CONNECTED)

    def on_connect_failed(self, why: upstream.NoConnection) -> None:
        """Nothing was sent; a refusal takes the backend out for everybody."""
        if why is upstream.NoConnection.REFUSED and not self._current().connections.retired:
            self._edge.fleet.apply(ConnectRefused(self._exchange.target.backend))
        self._result = AttemptResult.CONNECT_FAILED
        has_another(self._exchange, self._edge.fleet)
        self._on(Event.CONNECT_FAILED)

    def on_head(self, head: ResponseHead, body: bytes) -> None:
        """Relay it, or try elsewhere where it says that this engine cannot serve."""
        self._head, self._first_body = head, body
        self._record.first_byte_s = self._heard_s = self._edge.now()
        self._disarm()
        if head.status == 500 and has_another(self._exchange, self._edge.fleet):
            # A request that no engine can serve and an engine that serves none look alike: its health tells them apart.
            self._pause_upstream()
            self._asking = asyncio.get_running_loop().create_task(self._ask_health())
        else:
            self._judged(can_serve=head.status not in UNAVAILABLE)

    def on_body(self, data: bytes, framed: bytes | None = None, *, last: bool = False) -> None:
        """Relay what came, as it came."""
        passage = self._passage
        if passage is None:  # the head is still being judged
            self._first_body += data
            return
        self._heard_s = now_s = self._edge.now()
        self._record.bytes_out += len(data)
        passed = passage.feed(data, now_s)
        if passed:
            write = self._client.hold if last else self._client.write
            write(passed, framed if passed is data else None)

    def on_end(self) -> None:
        """The engine has said everything."""
        self._connection = None
        if self._passage is None:  # the head is still being judged
            self._ended = True
            return
        tail = self._passage.finish(self._edge.now())
        if tail:
            self._client.hold(tail)
        self._on(Event.TRUNCATED if self._passage.truncated else END)

    def on_lost(self, *, stale: bool) -> None:
        """The engine's connection broke."""
        self._connection = None
        self._disarm()
        if self._passage is not None and self._passage.done:
            self._on(END)
            return
        self._stop_asking()
        self._result = AttemptResult.LOST
        has_another(self._exchange, self._edge.fleet)
        self._on(Event.STALE if stale else Event.LOST)

    # -- Responder: what the client's side tells

    def on_client_gone(self) -> None:
        """Nobody waits for the answer any more."""
        self._on(Event.CLIENT_GONE)

    def on_client_slow(self) -> None:
        """Let the engine's socket fill up instead of our memory."""
        self._slow = True
        self._pause_upstream()

    def on_client_reading(self) -> None:
        """Read on."""
        self._slow = False
        self._heard_s = self._edge.now()
        self._resume_upstream()

    def on_too_long(self) -> None:
        """The time for the whole is over."""
        if self._exchange.state is State.WAITING:  # it has had the request all the time and has said nothing
            self._result = AttemptResult.TIMED_OUT
        self._on(Event.TOTAL_TIMEOUT)

    def on_expired(self) -> None:
        """The router stops."""
        self._on(Event.EXPIRED)

    # -- the machine

    def _on(self, event: Event) -> None:
        for command in self._exchange.on(event):
            ACTIONS[command](self)

    def connect(self) -> None:
        """Take an idle connection to the current target, or open one."""
        self._leave()
        self._ended = False
        self._record.first_byte_s = None  # a head that was not relayed is no answer's
        if self._record.attempts and not finds_place(self._exchange, self._edge.fleet):  # the policy sees to the first
            give_up = partial(self._on, Event.NO_PLACE)
            self._opening = FurtherAttempt(
                self._edge.line, self._edge.fleet, self._exchange, self.connect, give_up, self._client.abort
            )
            self._opening.wait(len(self._shipment.body))
            return
        target = self._exchange.target
        self._engine = engine = self._edge.engines[target.backend]
        self._edge.fleet.apply(engine.started)
        if self._shipment.lesson is not None:
            self._shipment.lesson.batch_before = self._edge.fleet.load_of(engine.name)
        self._result = ABANDONED
        record = self._record
        record.attempts += 1
        record.pool, record.backend = target.pool, target.backend
        if record.spans is not None:
            record.spans.begin(target.pool, target.backend, self._edge.now())
        connection = engine.connections.take(self)
        if connection is None:
            self.reconnect()
        else:
            self.on_connected(connection)

    def reconnect(self) -> None:
        """Open a fresh connection to the current target."""
        self._result = ABANDONED
        self._opening = self._current().connections.open(self)

    def send(self) -> None:
        """Write the request."""
        engine = self._current()
        shipment = self._shipment
        body, dropped, lines = shipment.body, engine.dropped, engine.lines
        if shipment.coded_body is not None and engine.accepts_gzip:
            body = shipment.coded_body
        elif shipment.decoded:
            dropped |= {b"content-encoding"}
        if shipment.alias is not None:  # the model is to be renamed in the answer, so the answer has to be readable
            dropped |= {b"accept-encoding"}
            lines += b"accept-encoding: identity\r\n"
        if self._record.spans is not None:
            dropped, lines = self._record.spans.onward(dropped, lines)
        headers, request_id = shipment.headers.forwarded(dropped) + lines, self._record.request_id.encode()
        head = request_head(shipment.method, shipment.target, engine.host, headers, request_id, len(body))
        self._connected().send(head, body)
        self._record.sent_s = self._edge.now()
        if self._edge.first_byte_timeout_s:
            self._arm(self._edge.first_byte_timeout_s, Event.FIRST_BYTE_TIMEOUT)

    def abort_upstream(self) -> None:
        """Close the connection, or give up opening one, so that the engine stops working for nobody."""
        if self._opening is not None:
            self._opening.drop()
            self._opening = None
        if self._connection is not None:
            self._connection.drop()
            self._connection = None

    def relay_head(self) -> None:
        """Send the head on at once: a client wants to know that it is being served."""
        head = self._head
        if head is None:
            message = "no head to relay"
            raise ValueError(message)
        engine = self._current()
        shipment = self._shipment
        accepted = shipment.headers.named.get(b"accept-encoding") if shipment.alias is None else None
        self._passage = passage_of(head, shipment.alias, accepted, must_end=shipment.must_end)
        if shipment.lesson is not None:
            self._passage = CountedPassage(self._passage, shipment.lesson)
        self._record.status = head.status
        self._result = ANSWERED if head.status < 500 or head.status == 501 else AttemptResult.SERVER_ERROR
        dropped = RESPONSE_DROPPED | {b"content-encoding"} if self._passage.unpacks else RESPONSE_DROPPED
        if shipment.answers_cors:
            dropped |= CORS_ANSWERS
        lines = head.headers.forwarded(dropped)
        if engine.pool != self._exchange.targets[0].pool:
            self._record.reason = Reason.FAILOVER
        lines += self._own_lines() + engine.response_line
        if self._passage.streams:
            lines += unbuffered(head.headers)
        first = self._first_body
        if first:
            self._record.bytes_out += len(first)
            first = self._passage.feed(first, self._heard_s)
        self._client.start(head.status, head.phrase, lines, self._passage.body_bytes, first)
        if self._edge.idle_timeout_s:
            self._arm(self._edge.idle_timeout_s, Event.IDLE_TIMEOUT)
        if self._slow:
            self._pause_upstream()

    def complete(self) -> None:
        """The client has everything."""
        self._client.finish()

    def answer_error(self) -> None:
        """Nothing has gone to the client: say whose fault it was."""
        error = self._error()
        self._record.status = error.status
        if self._exchange.outcome is Outcome.REFUSED:
            self._record.reason = error.code
        self._client.respond(error.status, error_lines(error) + self._own_lines(), error.body())

    def break_off(self) -> None:
        """Tell the client that its answer is cut."""
        notice = None if self._passage is None else self._passage.cut(self._error())
        if notice is None:
            self._client.cut()
            return
        self._client.close_after()
        self._client.finish(notice)

    def finish(self) -> None:
        """Count, record and forget."""
        self._disarm()
        self._stop_asking()
        self._leave()
        record = self._record
        if self._edge.deadlines is not None:
            self._edge.deadlines.discard(self, record.received_s)
        record.finished_s = self._edge.now()
        record.outcome = self._exchange.outcome
        if self._passage is not None:
            failed_inside = self._passage.note(record)
            if record.outcome is COMPLETED:
                record.outcome = judged(record.status, failed_inside=failed_inside)
        if self._shipment.lesson is not None:
            teach(self._edge.fleet, self._shipment.lesson, record)
        self._edge.report(record)

    # -- what follows from it

    async def _ask_health(self) -> None:
        can_serve = await self._edge.is_well(self._exchange.target.backend)
        self._asking = None
        self._resume_upstream()
        self._judged(can_serve=can_serve)

    def _stop_asking(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _judged(self, *, can_serve: bool) -> None:
        """Relay the head, or try elsewhere where it means that this engine serves nobody now."""
        if can_serve:
            self._on(HEAD)
        else:
            self._result = AttemptResult.UNAVAILABLE
            has_another(self._exchange, self._edge.fleet)
            self._on(Event.HEAD_UNAVAILABLE)
        if self._ended and self._passage is not None:
            self.on_end()

    def _error(self) -> ApiError:
        outcome = self._exchange.outcome
        return ERRORS[Outcome.UPSTREAM_ERROR if outcome is None else outcome]

    def _own_lines(self) -> bytes:
        """The headers that every answer to this request carries, whoever gives it."""
        return self._shipment.lines + why_lines(self._record.reason or "none", self._record.policy)

    def _current(self) -> Engine:
        """The engine that a state after CHOSEN implies."""
        if self._engine is None:
            message = f"an exchange that is {self._exchange.state.name} has no engine"
            raise ValueError(message)
        return self._engine

    def _connected(self) -> upstream.Connection:
        """The connection that a state after CONNECTING implies."""
        if self._connection is None:
            message = f"an exchange that is {self._exchange.state.name} has no connection"
            raise ValueError(message)
        return self._connection

    def _pause_upstream(self) -> None:
        if self._connection is not None:
            self._connection.pause()

    def _resume_upstream(self) -> None:
        if self._connection is not None:
            self._connection.resume()

    def _leave(self) -> None:
        """The attempt at the current engine is over."""
        engine, self._engine = self._engine, None
        if engine is not None:
            ended = engine.failed
            if self._result is ANSWERED and not engine.connections.retired:
                ended = engine.answered
            elif self._result in SAYS_NOTHING or engine.connections.retired:
                ended = engine.left
            elif self._result is AttemptResult.SERVER_ERROR:  # its doing or the request's, which all of them tell
                self._edge.fleet.apply(Erred(engine.name, fingerprint(self._shipment.body), self._edge.now()))
                ended = engine.left
            self._edge.fleet.apply(ended)
            self._edge.attempted(engine.pool, engine.name, self._result)
            if self._record.spans is not None:
                status = self._head.status if self._head is not None and self._result in HEARD else None
                self._record.spans.end(self._result, status, self._edge.now())

    def _arm(self, delay_s: float, event: Event) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._time_out, event)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self, event: Event) -> None:
        """Silence for too long; what came meanwhile moves the limit, and a client that does not read is no silence."""
        self._timer = None
        if event is Event.IDLE_TIMEOUT:
            remaining_s = self._heard_s + self._edge.idle_timeout_s - self._edge.now()
            if remaining_s > 0 or self._slow:  # a client that reads again starts the time anew
                self._arm(remaining_s if remaining_s > 0 else self._edge.idle_timeout_s, event)
                return
        self._result = AttemptResult.TIMED_OUT
        self._on(event)


ACTIONS: Mapping[Command, Callable[[Relay], None]] = {
    Command.CONNECT: Relay.connect,
    Command.RECONNECT: Relay.reconnect,
    Command.SEND: Relay.send,
    Command.ABORT_UPSTREAM: Relay.abort_upstream,
    Command.RELAY_HEAD: Relay.relay_head,
    Command.COMPLETE: Relay.complete,
    Command.ANSWER_ERROR: Relay.answer_error,
    Command.BREAK: Relay.break_off,
    Command.FINISH: Relay.finish,
}
