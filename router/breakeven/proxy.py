"""The data plane: takes requests from clients, views and decides them, and sends a relay on its way with each."""

import asyncio
import logging
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from math import inf
from typing import Protocol

from msgspec import Struct

from breakeven import downstream
from breakeven.admission import Admission
from breakeven.api_keys import ApiKeys
from breakeven.body import Viewed, rename_model, view
from breakeven.clients import Clients
from breakeven.coding import Decoder
from breakeven.config import Settings
from breakeven.cors import Cors
from breakeven.deadlines import Deadlines
from breakeven.endpoints import Endpoint, EndpointTable
from breakeven.errors import ApiError, internal_error, no_backend, no_capable_pool, unknown_model
from breakeven.exchange import Exchange
from breakeven.fields import Utf8Check
from breakeven.fleet import Fleet
from breakeven.headers import error_lines, table_line, usable_request_id, why_lines
from breakeven.lessons import lesson_for, with_workload
from breakeven.listener import Listener
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory
from breakeven.own_pages import OwnPages
from breakeven.passage import GZIP
from breakeven.queued import Queued
from breakeven.recent_heads import RecentHeads
from breakeven.record import Outcome, RequestRecord
from breakeven.recorder import Recorder, Recorders, Tracing
from breakeven.relay import Edge, Relay
from breakeven.request_reader import BadRequest, Limits, Request
from breakeven.retry_after import retry_after_s
from breakeven.roster import Roster
from breakeven.shadow import Shadows
from breakeven.shipment import Shipment
from breakeven.shortage import Shortages, Side
from breakeven.spans import Spans
from breakeven.trace_context import TRACEPARENT, trace_parent_of
from breakeven.turns import AT_ONCE_MAX, InTurns
from breakeven_policies.decision import Decision, Refusal, Refuse, Route
from breakeven_policies.journal import Considered
from breakeven_policies.policy import Policy

LOG = logging.getLogger(__name__)

JSON_LINE = b"content-type: application/json\r\n"


SWEEP_S = 30.0
"""How often idle clients are looked for: 1 ms for 9,000 of them. More often where they may stay less than a minute."""

SWEEP_MIN_S = 0.05


class HasPolicy(Protocol):
    """The policy in force; it may be another one for the next request."""

    @property
    def current(self) -> Policy:
        """Decides this request."""


class Visit(Struct, frozen=True):
    """One request of one client; `lines` are the headers that every answer to it carries."""

    request: Request
    client: downstream.Connection
    record: RequestRecord
    lines: bytes
    answers_cors: bool = False


class Proxy:
    """Serves clients until it is drained. `chance` gives tickets and request ids; `is_well` asks a backend now."""

    def __init__(
        self,
        *,
        settings: Settings,
        fleet: Fleet,
        policy: HasPolicy,
        directory: ModelDirectory,
        metrics: Metrics,
        recorder: Recorder | Recorders,
        clock: Callable[[], float],
        chance: random.Random,
        is_well: Callable[[str], Awaitable[bool]],
        tracing: Tracing | None = None,
        keys: ApiKeys | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._keys = keys
        self._fleet = fleet
        self._policy = policy
        self._tracing = tracing
        self._keeps_considered = settings.journal != "off" or tracing is not None
        self._metrics = metrics
        self._recorder = recorder
        self._now = clock
        self._chance = chance
        self._pages = OwnPages(directory, lambda: fleet.ready() and not self._draining)
        self.line = Admission(settings.queue_max, settings.queue_timeout_s, clock, metrics)
        fleet.on_room = self.line.soon
        shortages = Shortages(metrics.shortage, clock)
        self._roster = Roster(clock, partial(shortages.tell, Side.ENGINES))
        self._is_well = is_well
        self._limits = Limits()
        self.reconfigure(settings, keys)
        self._clients = Clients(metrics)
        self._sweeping: asyncio.TimerHandle | None = None
        self._recent: RecentHeads[Request] = RecentHeads()
        no_client = partial(shortages.tell, Side.CLIENTS)
        self._listener = Listener(self._connection, no_client, tls, settings.client_header_timeout_s)
        self._draining = False

    def reconfigure(self, settings: Settings, keys: ApiKeys | None) -> None:
        """Serve by these settings from the next request on; those that run finish by the ones they began with."""
        self._keys = keys
        self._models = settings.model_table()
        self._workloads = frozenset(settings.workloads)
        self._endpoints = EndpointTable(tuple(settings.extra_paths))
        self._cors = Cors(frozenset(settings.cors_origins))
        self._probe_s = settings.probe_interval_s
        self._total_s = settings.total_timeout_s
        self._choice = settings.policy_choice()
        shadows = settings.build_shadows()
        self._shadows = Shadows(shadows, self._metrics, self._now, _soon) if shadows else None
        self._attempts_max = settings.attempts_max
        self._keepalive_s = settings.client_keepalive_s
        limits = self._limits  # one object for all connections
        limits.header_bytes_max = settings.header_max_bytes
        limits.body_bytes_max = settings.body_max_bytes
        limits.header_timeout_s = settings.client_header_timeout_s
        limits.body_timeout_s = settings.client_body_timeout_s
        limits.admit = None if keys is None else keys.admit
        self.line.reconfigure(settings.queue_max, settings.queue_timeout_s)
        self._roster.reconfigure(settings, router_has_keys=keys is not None)
        self._edge = Edge(
            engines=self._roster.engines,
            fleet=self._fleet,
            line=self.line,
            now=self._now,
            first_byte_timeout_s=settings.first_byte_timeout_s,
            idle_timeout_s=settings.idle_timeout_s,
            is_well=self._is_well,
            report=self._report,
            attempted=self._metrics.attempt,
            deadlines=_deadlines(settings.total_timeout_s, self._now),
        )

    # -- life

    @property
    def sockets(self) -> list[socket.socket]:
        """Where clients are accepted."""
        return self._listener.sockets

    async def listen_at(self, sockets: list[socket.socket]) -> int:
        """Accept clients at these from now on, and let go of them at the end; their port. OSError where it cannot."""
        bound = await self._listener.open(sockets)
        self._sweep()
        return bound

    def part(self) -> None:
        """Not ready any more, and every connection is told to go with its next answer; clients are still accepted."""
        self._draining = True
        self._clients.part()

    async def drain(self, timeout_s: float, idle_s: float = 0.0) -> bool:
        """Accept no more, let running requests finish, cut what is left at the deadline; whether all had finished.

        With `idle_s` another process accepts clients, so that whoever asks is told of readiness as before; and who is
        connected and asks nothing has so long to ask once more.
        """
        self._draining = not idle_s
        self._listener.close()
        return await self._clients.leave(timeout_s, idle_s)

    def close(self) -> None:
        """Stop listening and close idle connections to the engines."""
        self._listener.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        self.line.close()
        if self._edge.deadlines is not None:
            self._edge.deadlines.close()
        self._roster.close()

    def _sweep(self) -> None:
        """Send away clients that have been idle too long, now and again and again."""
        pause_s = max(SWEEP_MIN_S, min(SWEEP_S, self._keepalive_s / 2)) if self._keepalive_s else SWEEP_S
        # First of all: whatever one client does to the looking, it is looked again.
        self._sweeping = asyncio.get_running_loop().call_later(pause_s, self._sweep)
        if self._keepalive_s:
            self._clients.dismiss(self._now() - self._keepalive_s)

    def _connection(self) -> downstream.Connection:
        return downstream.Connection(self, self._limits, self._clients, self._now, self._recent)

    # -- Handler: what clients send

    def on_request(self, request: Request, client: downstream.Connection) -> None:
        """Answer a request, or set a relay on its way."""
        visit = self._visit(request, client)
        if self._keys is not None and not self._admits(self._keys, visit):
            return
        if not self._endpoints.forwards(visit.record.method, request.path) and self._answer_itself(visit):
            return  # the table is asked first because nearly every request is forwarded
        try:
            self._forward(visit)
        except ApiError as error:
            self.refuse(visit, error)

    def on_bad_request(self, bad: BadRequest, client: downstream.Connection) -> None:
        """Answer what could not be read."""
        unread = Request(bad.method, b"", bad.path, bad.headers, b"", keep_alive=False, chunked_answers=True)
        self.refuse(self._visit(unread, client), bad.error)

    def _visit(self, request: Request, client: downstream.Connection) -> Visit:
        named = request.headers.named
        request_id = usable_request_id(named.get(b"x-request-id")) or self._new_id()
        record = RequestRecord(request_id.decode(), "none", self._now(), request.method.decode())
        record.bytes_in = len(request.body)
        if self._tracing is not None:
            record.spans = Spans(request.headers, self._tracing.sampled, self._chance.getrandbits)
            record.trace = record.spans.own
        elif TRACEPARENT in named:
            record.trace = trace_parent_of(request.headers.pairs)
        lines = b"x-request-id: %b\r\n" % request_id
        cors = self._cors.lines(named) if b"origin" in named else b""
        return Visit(request, client, record, lines + cors, answers_cors=bool(cors))

    def _admits(self, keys: ApiKeys, visit: Visit) -> bool:
        """Whether the client may ask this; who may not is answered.

        The reader asked before it read a body, but not about a head that came before; and keys may be withdrawn.
        """
        request = visit.request
        try:
            visit.record.client_key = keys.admit(request.method, request.path.encode("latin-1"), request.headers)
        except ApiError as error:
            self.refuse(visit, error)
            return False
        return True

    # -- one request

    def refuse(self, visit: Visit, error: ApiError) -> None:
        """Answer with an error of the router's own, and count it."""
        record = visit.record
        record.status = error.status
        record.outcome = Outcome.REFUSED if error.status >= 500 else Outcome.CLIENT_ERROR
        record.reason = record.reason or error.code
        record.finished_s = self._now()
        why = why_lines(record.reason or "none", record.policy)
        visit.client.respond(error.status, error_lines(error) + visit.lines + why, error.body())
        self._report(record)

    def abandon(self, visit: Visit) -> None:
        """Count a client that left before its request was decided."""
        visit.record.outcome = Outcome.CLIENT_CLOSED
        visit.record.finished_s = self._now()
        self._report(visit.record)

    def give_up(self, visit: Visit, responder: downstream.Responder) -> None:
        """End a request that a fault of our own has hit: with an error where nothing was sent on its way by then."""
        if visit.client.is_answered_by(responder):
            self.refuse(visit, internal_error("The router failed at this request."))
        else:  # a relay has begun; it hears that the client is gone
            visit.client.abort()

    def dispatch(
        self,
        visit: Visit,
        endpoint: Endpoint,
        decoded: bytes | None,
        viewed: Viewed | None = None,
        route: Route | None = None,
    ) -> None:
        """View, decide, relay. `decoded`: the body out of its content coding, None where it has none. ApiError: no.

        `viewed`: it was large and viewed before; `route`: it had to wait, and has a route now.
        """
        request = visit.request
        content_type = request.headers.named.get(b"content-type", b"").decode("latin-1")
        body = request.body if decoded is None else decoded
        if viewed is None:
            viewed = view(endpoint, body, content_type, self._models, self._chance.random())
        if route is None:
            if self._workloads:
                viewed = with_workload(viewed, request.headers.named, self._workloads)
            if self.line.due:  # who waits comes first
                self.line.ask()
            route = self.decide(viewed, visit)
            if route is None:
                self._wait(visit, endpoint, decoded, viewed)
                return
        if viewed.alias is not None and viewed.request.model is not None:
            # A renamed body is sent as it is read here, so its coding is gone with its old name.
            body = rename_model(endpoint, body, content_type, viewed.request.model)
        coded_body = None
        if decoded is not None and viewed.alias is None and request.headers.coding in GZIP:
            coded_body = request.body
        lines = visit.lines
        if route.prediction is not None and route.prediction.table is not None:
            lines += table_line(route.prediction.table)
        shipment = Shipment(
            method=request.method,
            target=request.target,
            headers=request.headers,
            body=body,
            coded_body=coded_body,
            decoded=decoded is not None,
            alias=viewed.alias,
            must_end=endpoint.marks_end,
            lines=lines,
            answers_cors=visit.answers_cors,
            lesson=None if self._fleet.learning is None else lesson_for(viewed.request),
        )
        Relay(self._edge, visit.client, Exchange(route.ranking[: self._attempts_max]), shipment, visit.record).start()

    def _answer_itself(self, visit: Visit) -> bool:
        """Preflights and pages of our own, which are no requests to be counted; whether it was one of those."""
        request = visit.request
        preflight = self._cors.preflight(request.headers.named) if request.method == b"OPTIONS" else b""
        if preflight:
            visit.client.respond(204, visit.lines + preflight, b"")
            return True
        try:
            body = self._pages.body(request.method, request.path)
        except ApiError as error:
            visit.client.respond(error.status, error_lines(error) + visit.lines, error.body())
            return True
        if body is not None:
            visit.client.respond(200, visit.lines + JSON_LINE, body)
        return body is not None

    def _forward(self, visit: Visit) -> None:
        """Send a request on to an engine. ApiError where it cannot be."""
        request = visit.request
        endpoint = self._endpoints.find(visit.record.method, request.path)
        visit.record.endpoint = endpoint.name
        coding = request.headers.coding
        if coding in (b"", b"identity") and len(request.body) <= AT_ONCE_MAX:
            self.dispatch(visit, endpoint, None)
        else:
            steps = self._prepared(visit, endpoint, Decoder(coding.decode("latin-1"), self._limits.body_bytes_max))
            working = InTurns(
                steps, partial(self.refuse, visit), partial(self.abandon, visit), partial(self.give_up, visit)
            )
            visit.client.attach(working)
            working.step()

    def _prepared(self, visit: Visit, endpoint: Endpoint, decoder: Decoder) -> Iterator[None]:
        """What is done with a body that is large or packed, in steps."""
        request = visit.request
        check = Utf8Check()
        plain: list[bytes] = []
        for piece in decoder.feed(request.body):
            if not decoder.identity:
                plain.append(piece)
            yield from check.feed(piece)
            yield
        decoder.finish()
        decoded = None if decoder.identity else b"".join(plain)
        body = request.body if decoded is None else decoded
        plain.clear()
        yield
        viewed = self._view(visit, endpoint, body, is_utf8=check.finish())
        yield
        self.dispatch(visit, endpoint, decoded, viewed)

    def _view(self, visit: Visit, endpoint: Endpoint, body: bytes, *, is_utf8: bool) -> Viewed:
        content_type = visit.request.headers.named.get(b"content-type", b"").decode("latin-1")
        return view(endpoint, body, content_type, self._models, self._chance.random(), is_utf8=is_utf8)

    def _wait(self, visit: Visit, endpoint: Endpoint, decoded: bytes | None, viewed: Viewed) -> None:
        """Let a request wait for a place at an engine. ApiError where too many do."""

        def go(route: Route) -> None:
            self.dispatch(visit, endpoint, decoded, viewed, route)

        queued = Queued(self, visit, viewed, go, self._now)
        latest_s = visit.record.received_s + self._total_s if self._total_s else inf
        queued.wait(latest_s, len(visit.request.body) + len(decoded or b""))
        visit.client.attach(queued)

    def decide(self, viewed: Viewed, visit: Visit) -> Route | None:
        """Ask the policy; None: it may wait for a place. ApiError where it refuses."""
        record = visit.record
        snapshot = self._fleet.snapshot(self._now())
        policy = self._policy.current
        if self._choice is not None:
            policy = self._choice.of(visit.request.headers.named, viewed.alias) or policy
        try:
            decision: Decision = policy.decide(viewed.request, snapshot)
        except Exception as fault:  # a policy may be anybody's module: its fault costs one request, not all
            LOG.exception("policy %s failed", policy.name)
            raise internal_error("The policy failed to decide this request.") from fault
        record.decided_s = self._now()
        record.model, record.temperature = viewed.request.model, viewed.request.temperature
        record.policy = decision.policy
        if self._keeps_considered:
            record.considered = Considered(viewed.request, snapshot, decision)
        if self._shadows is not None:
            self._shadows.consider(viewed.request, snapshot, decision)
        if isinstance(decision, Refuse):
            record.reason = decision.refusal
            if decision.refusal is Refusal.AT_CAPACITY:
                return None
            raise _refusal(decision, viewed.alias or viewed.request.model, retry_after_s(snapshot, self._probe_s))
        record.reason = decision.reason
        return decision

    def _report(self, record: RequestRecord) -> None:
        self._metrics.observe(record)
        self._recorder.write(record)
        if record.spans is not None and record.spans.own.sampled and self._tracing is not None:
            self._tracing.recorder.write(record)

    def _new_id(self) -> bytes:
        return self._chance.getrandbits(128).to_bytes(16).hex().encode()  # 0.6 µs; formatting the number takes 0.8


def _refusal(decision: Refuse, model: str | None, retry_s: int) -> ApiError:
    if decision.refusal is Refusal.UNKNOWN_MODEL:
        return unknown_model(model)
    if decision.refusal is Refusal.NO_CAPABLE_POOL:
        return no_capable_pool()
    return no_backend("No engine that can serve this request is ready.", decision.refusal.value, retry_s)


def _soon(work: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(work)


def _deadlines(limit_s: float, clock: Callable[[], float]) -> Deadlines[Relay] | None:
    return Deadlines(limit_s, clock, Relay.on_too_long) if limit_s else None
