"""One request between two sockets, with both played by fakes: what is written to whom, counted and recorded."""

import asyncio
import gzip
from collections.abc import Callable

import pytest

from breakeven.admission import Admission
from breakeven.errors import shutting_down, upstream_error, upstream_timeout
from breakeven.exchange import Exchange
from breakeven.fleet import Finished, Fleet, PoolSpec, ProbeSucceeded, Started
from breakeven.headers import Header, Headers, ResponseHead
from breakeven.record import Outcome, RequestRecord
from breakeven.relay import Edge, Relay, Shipment, engine_at
from breakeven.spans import Attempt, Spans
from breakeven.upstream import NoConnection
from breakeven_policies.decision import Target
from breakeven_policies.snapshot import Health, PoolKind
from tests.router.test_admission import Watcher

STREAM_CUT = upstream_error().event()

SSE = [(b"content-type", b"text/event-stream")]
JSON = [(b"content-type", b"application/json")]
TOKEN = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n'
DONE = b"data: [DONE]\n\n"


class FakeClient:
    """The downstream connection: writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.written = b""
        self.framed: list[bytes | None] = []
        self.head = b""
        self.responder: Relay | None = None

    def attach(self, responder: Relay) -> None:
        self.responder = responder

    def start(self, status: int, phrase: bytes, lines: bytes, body_bytes: int | None, first: bytes) -> None:
        self.told.append(("start", status, body_bytes))
        self.head = lines
        self.written += first

    def respond(self, status: int, lines: bytes, body: bytes) -> None:
        self.told.append(("respond", status))
        self.head, self.written = lines, body

    def write(self, data: bytes, framed: bytes | None = None) -> None:
        self.written += data
        self.framed.append(framed)

    hold = write

    def finish(self, data: bytes = b"") -> None:
        self.told.append("finish")
        self.written += data

    def cut(self) -> None:
        self.told.append("cut")

    def abort(self) -> None:
        self.told.append("abort")

    def close_after(self) -> None:
        self.told.append("close after")


class FakeConnection:
    """An upstream connection without a socket."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, bytes]] = []
        self.dropped = False
        self.reading = True

    def send(self, head: bytes, body: bytes) -> None:
        self.sent.append((head, body))

    def pause(self) -> None:
        self.reading = False

    def resume(self) -> None:
        self.reading = True

    def drop(self) -> None:
        self.dropped = True


class FakeOpening:
    """A connection on its way; the test decides what becomes of it."""

    def __init__(self) -> None:
        self.dropped = False

    def drop(self) -> None:
        self.dropped = True


class FakePool:
    """Hands out idle connections first, then openings that the test settles."""

    def __init__(self) -> None:
        self.retired = False
        self.idle: list[FakeConnection] = []
        self.openings: list[FakeOpening] = []

    def take(self, receiver: Relay) -> FakeConnection | None:
        return self.idle.pop() if self.idle else None

    def open(self, receiver: Relay) -> FakeOpening:
        self.openings.append(FakeOpening())
        return self.openings[-1]


class Stage:
    """A relay over two backends, `a` and `b` of the pool `p`."""

    def __init__(
        self,
        *,
        first_byte_timeout_s: float = 0.0,
        idle_timeout_s: float = 0.0,
        in_flight_max: int = 0,
        queue_max: int = 1,
    ) -> None:
        self.now_s = 0.0
        self.fleet = Fleet((PoolSpec("p", PoolKind.PLAIN, "none", 0, ("a", "b"), in_flight_max),))
        for name in "ab":
            self.fleet.apply(ProbeSucceeded(name))
        self.pools = {name: FakePool() for name in "ab"}
        self.line = Admission(queue_max, 10.0, lambda: self.now_s, Watcher())
        self.fleet.on_room = self.line.soon
        self.reported: list[RequestRecord] = []
        self.attempts: list[tuple[str, str, str]] = []
        self.well: asyncio.Future[bool] | None = None
        engines = {
            name: engine_at(name, "p", b"host-" + name.encode(), None, self.pools[name], accepts_gzip=name == "b")
            for name in "ab"
        }
        self.edge = Edge(
            engines, self.fleet, self.line, lambda: self.now_s, first_byte_timeout_s, idle_timeout_s, self.is_well,
            self.reported.append, lambda *attempt: self.attempts.append(attempt),
        )  # fmt: skip
        self.client = FakeClient()
        self.record = RequestRecord("id-1", "chat.completions", 0.0, reason="least_loaded")

    async def is_well(self, backend: str) -> bool:
        self.well = asyncio.get_running_loop().create_future()
        return await self.well

    def start(self, *names: str, **changes: object) -> Relay:
        fields = {
            "method": b"POST", "target": b"/v1/chat/completions", "headers": [], "body": b"{}", "coded_body": None,
            "decoded": False, "alias": None, "must_end": True, "lines": b"x-request-id: id-1\r\n",
        } | changes  # fmt: skip
        fields["headers"] = Headers(fields["headers"])
        targets = tuple(Target("p", name) for name in names or ("a",))
        relay = Relay(self.edge, self.client, Exchange(targets), Shipment(**fields), self.record)
        relay.start()
        return relay

    def connected(self, relay: Relay, name: str = "a") -> FakeConnection:
        assert self.pools[name].openings
        connection = FakeConnection()
        relay.on_connected(connection)
        return connection

    def answered(
        self, relay: Relay, status: int, headers: list[Header], body: bytes = b"", length: int | None = None
    ) -> None:
        relay.on_head(ResponseHead(status, b"OK", Headers(headers), length, until_close=False), body)

    def in_flight(self) -> dict[str, int]:
        return {backend.name: backend.in_flight for backend in self.fleet.snapshot(0).pools[0].backends}

    @property
    def outcome(self) -> Outcome | None:
        (record,) = self.reported
        assert self.in_flight() == {"a": 0, "b": 0}
        return record.outcome


@pytest.fixture
def stage() -> Stage:
    return Stage()


# -- failures


def test_when_nobody_can_be_reached_the_client_hears_503_and_the_backends_are_out(stage: Stage) -> None:
    relay = stage.start("a", "b")
    relay.on_connect_failed(NoConnection.REFUSED)
    relay.on_connect_failed(NoConnection.REFUSED)
    assert stage.client.told == [("respond", 503)]
    assert b"retry-after: 1\r\n" in stage.client.head
    assert b"x-request-id: id-1\r\n" in stage.client.head
    assert stage.outcome is Outcome.REFUSED
    assert (stage.record.status, stage.record.reason, stage.record.attempts) == (503, "no_backend", 2)
    assert stage.fleet.health("a") is stage.fleet.health("b") is Health.DOWN
    assert stage.attempts == [("p", "a", "connect_failed"), ("p", "b", "connect_failed")]


def test_a_connect_time_out_is_no_proof_that_the_engine_is_gone(stage: Stage) -> None:
    stage.start("a").on_connect_failed(NoConnection.UNREACHABLE)
    assert stage.fleet.health("a") is Health.READY


def test_an_engine_that_vanishes_with_the_request_is_a_502(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    relay.on_lost(stale=False)
    assert stage.client.told == [("respond", 502)]
    assert stage.outcome is Outcome.UPSTREAM_ERROR
    assert stage.attempts == [("p", "a", "lost")]


@pytest.mark.parametrize("how", ["refused", "lost", "timed out", "500", "answered"])
def test_an_engine_that_has_moved_is_not_judged_by_what_happens_at_its_old_address(
    stage: Stage, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[object] = []
    apply = stage.fleet.apply
    monkeypatch.setattr(stage.fleet, "apply", lambda event: (applied.append(event), apply(event)))
    relay = stage.start()
    stage.pools["a"].retired = True  # by the reload that moved it
    if how == "refused":
        relay.on_connect_failed(NoConnection.REFUSED)
    else:
        stage.connected(relay)
    if how == "lost":
        relay.on_lost(stale=False)
    elif how == "timed out":
        relay.on_too_long()
    elif how in ("500", "answered"):
        stage.answered(relay, 500 if how == "500" else 200, JSON, b"{}", 2)
        relay.on_end()
    assert applied == [Started("a"), Finished("a")]
    assert stage.in_flight() == {"a": 0, "b": 0}


def test_a_failure_before_the_head_is_served_by_the_next_backend(stage: Stage) -> None:
    relay = stage.start("a", "b")
    stage.connected(relay)
    relay.on_lost(stale=False)
    assert stage.in_flight() == {"a": 0, "b": 1}
    stage.connected(relay, "b")
    stage.answered(relay, 200, JSON, b"{}", 2)
    relay.on_end()
    assert stage.client.told == [("start", 200, 2), "finish"]
    assert b"x-breakeven-pool: p\r\nx-breakeven-backend: b\r\n" in stage.client.head
    assert stage.outcome is Outcome.COMPLETED
    assert stage.attempts == [("p", "a", "lost"), ("p", "b", "answered")]


def test_what_an_engine_says_to_browsers_gives_way_to_what_the_router_says(stage: Stage) -> None:
    ours = b"access-control-allow-origin: https://app.example\r\n"
    theirs = [(b"access-control-allow-origin", b"*"), (b"access-control-allow-credentials", b"true"), (b"vary", b"x")]
    relay = stage.start(lines=ours, answers_cors=True)
    stage.connected(relay)
    stage.answered(relay, 200, theirs, b"{}", 2)
    assert stage.client.head.count(b"access-control") == 1
    assert ours in stage.client.head


def test_what_an_engine_says_to_browsers_goes_on_where_the_router_says_nothing(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, [(b"access-control-allow-origin", b"*")], b"{}", 2)
    assert b"access-control-allow-origin: *\r\n" in stage.client.head


def test_another_pool_that_serves_what_the_chosen_one_failed_says_so(stage: Stage) -> None:
    stage.edge.engines["b"] = engine_at("b", "q", b"host-b", None, stage.pools["b"], accepts_gzip=False)
    shipment = Shipment(
        method=b"POST", target=b"/", headers=Headers([]), body=b"{}", coded_body=None, decoded=False, alias=None,
        must_end=True, lines=b"",
    )  # fmt: skip
    targets = (Target("p", "a"), Target("q", "b"))
    relay = Relay(stage.edge, stage.client, Exchange(targets), shipment, stage.record)
    relay.start()
    relay.on_connect_failed(NoConnection.REFUSED)
    stage.connected(relay, "b")
    stage.answered(relay, 200, JSON, b"{}", 2)
    relay.on_end()
    assert b"x-breakeven-reason: failover\r\n" in stage.client.head
    assert stage.record.reason == "failover"


@pytest.mark.parametrize("status", [502, 503])
def test_an_engine_that_cannot_serve_is_left_for_the_next(stage: Stage, status: int) -> None:
    relay = stage.start("a", "b")
    connection = stage.connected(relay)
    stage.answered(relay, status, JSON, b"loading")
    assert connection.dropped
    assert stage.pools["b"].openings
    assert stage.client.told == []
    assert stage.attempts == [("p", "a", "unavailable")]


@pytest.mark.parametrize("status", [500, 502, 503])
def test_the_last_engines_own_words_are_passed_on(stage: Stage, status: int) -> None:
    relay = stage.start("a")
    stage.connected(relay)
    stage.answered(relay, status, JSON, b"words", 5)
    relay.on_end()
    assert stage.client.told == [("start", status, 5), "finish"]
    assert stage.client.written == b"words"
    assert stage.outcome is Outcome.UPSTREAM_ERROR


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 429])
def test_a_refusal_by_the_engine_is_passed_on_and_never_retried(stage: Stage, status: int) -> None:
    relay = stage.start("a", "b")
    stage.connected(relay)
    stage.answered(relay, status, [*JSON, (b"x-reason", b"a")], b"words", 5)
    relay.on_end()
    assert stage.client.told == [("start", status, 5), "finish"]
    assert b"x-reason: a\r\n" in stage.client.head
    assert stage.outcome is Outcome.REJECTED_BY_ENGINE


async def until(condition: Callable[[], object]) -> None:
    """Turn the loop until it holds; pytest's own time-out ends a wait in vain."""
    while not condition():  # noqa: ASYNC110  # there is no event: the test watches what fakes were told
        await asyncio.sleep(0.001)


async def asked(stage: Stage) -> asyncio.Future[bool]:
    """The question that the router asks the engine's health, to be answered by the test."""
    await until(lambda: stage.well)
    assert stage.well is not None
    return stage.well


async def test_a_500_of_an_engine_that_is_well_is_the_answer(stage: Stage) -> None:
    relay = stage.start("a", "b")
    connection = stage.connected(relay)
    stage.answered(relay, 500, JSON, b"wo", 5)
    assert not connection.reading
    relay.on_body(b"rds")
    relay.on_end()
    assert stage.client.told == []
    (await asked(stage)).set_result(True)
    await until(lambda: stage.reported)
    assert stage.client.told == [("start", 500, 5), "finish"]
    assert stage.client.written == b"words"
    assert stage.outcome is Outcome.UPSTREAM_ERROR


async def test_a_500_of_an_engine_that_is_not_well_is_tried_elsewhere(stage: Stage) -> None:
    relay = stage.start("a", "b")
    stage.connected(relay)
    stage.answered(relay, 500, JSON, b"words", 5)
    relay.on_end()
    (await asked(stage)).set_result(False)
    await until(lambda: stage.pools["b"].openings)
    stage.connected(relay, "b")
    stage.answered(relay, 200, JSON, b"{}", 2)
    relay.on_end()
    assert stage.client.told == [("start", 200, 2), "finish"]
    assert stage.outcome is Outcome.COMPLETED


async def test_a_client_that_leaves_while_the_engines_health_is_asked_is_gone(stage: Stage) -> None:
    relay = stage.start("a", "b")
    connection = stage.connected(relay)
    stage.answered(relay, 500, JSON, b"words", 5)
    await asked(stage)
    relay.on_client_gone()
    await asyncio.sleep(0)
    assert connection.dropped
    assert stage.outcome is Outcome.CLIENT_CLOSED
    assert not stage.pools["b"].openings


async def test_an_engine_lost_while_its_health_is_asked_is_left_for_the_next(stage: Stage) -> None:
    relay = stage.start("a", "b")
    stage.connected(relay)
    stage.answered(relay, 500, JSON, b"wo", 5)
    await asked(stage)
    relay.on_lost(stale=False)
    assert stage.pools["b"].openings


def test_a_stale_connection_is_replaced_without_counting_as_an_attempt(stage: Stage) -> None:
    idle = FakeConnection()
    stage.pools["a"].idle.append(idle)
    relay = stage.start()
    assert len(idle.sent) == 1
    relay.on_lost(stale=True)
    stage.connected(relay)
    stage.answered(relay, 200, JSON, b"{}", 2)
    relay.on_end()
    assert (stage.outcome, stage.record.attempts) == (Outcome.COMPLETED, 1)
    assert stage.attempts == [("p", "a", "answered")]


def test_a_stream_whose_engine_dies_ends_with_an_error_event_and_closes(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    relay.on_body(b'data: {"half')
    relay.on_lost(stale=False)
    assert stage.client.told == [("start", 200, None), "close after", "finish"]
    assert stage.client.written == TOKEN + b'data: {"half\n\n' + STREAM_CUT
    assert stage.outcome is Outcome.UPSTREAM_ERROR


def test_a_stream_that_ends_without_its_end_is_treated_as_cut(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    relay.on_end()
    assert stage.client.written == TOKEN + STREAM_CUT
    assert stage.outcome is Outcome.UPSTREAM_ERROR


def test_a_stream_that_was_done_loses_nothing_with_its_connection(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN + DONE)
    relay.on_lost(stale=False)
    assert stage.client.told == [("start", 200, None), "finish"]
    assert stage.outcome is Outcome.COMPLETED


def test_an_answer_that_is_no_stream_is_cut_where_its_engine_dies(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, JSON, b'{"ha', 100)
    relay.on_lost(stale=False)
    assert stage.client.told == [("start", 200, 100), "cut"]
    assert stage.outcome is Outcome.UPSTREAM_ERROR


def test_an_error_event_inside_a_success_is_relayed_and_counted_as_one(stage: Stage) -> None:
    error = b'data: {"error":{"message":"x","type":"InternalServerError","param":null,"code":500}}\n\n'
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, SSE, error + DONE)
    relay.on_end()
    assert stage.client.written == error + DONE
    assert stage.outcome is Outcome.UPSTREAM_ERROR


def test_a_client_that_leaves_while_connecting_is_gone(stage: Stage) -> None:
    relay = stage.start("a", "b")
    relay.on_client_gone()
    assert stage.pools["a"].openings[0].dropped
    assert (stage.outcome, stage.client.told) == (Outcome.CLIENT_CLOSED, [])
    assert stage.attempts == [("p", "a", "abandoned")]


def test_a_client_that_leaves_a_stream_aborts_the_engine(stage: Stage) -> None:
    relay = stage.start()
    connection = stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    relay.on_client_gone()
    assert connection.dropped
    assert stage.outcome is Outcome.CLIENT_CLOSED


async def test_an_engine_that_does_not_begin_in_time_is_a_504_and_is_closed() -> None:
    stage = Stage(first_byte_timeout_s=0.01)
    connection = stage.connected(stage.start("a", "b"))
    await until(lambda: stage.reported)
    assert connection.dropped
    assert stage.client.told == [("respond", 504)]
    assert stage.outcome is Outcome.UPSTREAM_TIMEOUT
    assert stage.attempts == [("p", "a", "timed_out")]


async def test_silence_inside_a_stream_cuts_it() -> None:
    stage = Stage(idle_timeout_s=0.01)
    relay = stage.start()
    connection = stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    stage.now_s = 1.0
    await until(lambda: stage.reported)
    assert connection.dropped
    assert stage.client.written == TOKEN + upstream_timeout("The engine was silent for too long.").event()
    assert stage.outcome is Outcome.UPSTREAM_TIMEOUT


@pytest.mark.parametrize("why", ["data came", "the client is slow"])
async def test_what_is_no_silence_does_not_cut_it(why: str) -> None:
    stage = Stage(idle_timeout_s=0.02)
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    if why == "the client is slow":
        stage.now_s = 1.0
        relay.on_client_slow()
    await asyncio.sleep(0.06)  # three limits long; the clock of the test stands still, or the client does not read
    assert not stage.reported
    relay.on_client_gone()


def test_when_the_router_stops_a_stream_ends_with_an_error_event(stage: Stage) -> None:
    relay = stage.start()
    connection = stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    relay.on_expired()
    assert connection.dropped
    assert stage.client.written == TOKEN + shutting_down().event()
    assert stage.outcome is Outcome.CUT_BY_DRAIN


def test_when_the_router_stops_a_request_without_an_answer_hears_503(stage: Stage) -> None:
    stage.start().on_expired()
    assert stage.client.told == [("respond", 503)]
    assert b'"shutting_down"' in stage.client.written


# -- what is sent


def test_the_request_goes_out_as_it_came_with_its_id(stage: Stage) -> None:
    relay = stage.start(headers=[(b"content-type", b"application/json"), (b"x-mine", b"1")], body=b'{"a": 1e5 }')
    ((head, body),) = stage.connected(relay).sent
    assert body == b'{"a": 1e5 }'
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nhost: host-a\r\n")
    assert b"x-mine: 1\r\n" in head
    assert b"x-request-id: id-1\r\n" in head
    assert b"content-length: 11\r\n" in head


@pytest.mark.parametrize(("backend", "body", "coding"), [("a", b"{}", False), ("b", b"packed", True)])
def test_a_packed_body_goes_on_packed_only_to_engines_that_unpack(
    stage: Stage, backend: str, body: bytes, coding: bool
) -> None:
    relay = stage.start(backend, headers=[(b"content-encoding", b"gzip")], coded_body=b"packed", decoded=True)
    ((head, sent),) = stage.connected(relay, backend).sent
    assert sent == body
    assert (b"content-encoding: gzip\r\n" in head) is coding


def test_under_an_alias_the_answer_must_be_readable(stage: Stage) -> None:
    relay = stage.start(headers=[(b"accept-encoding", b"gzip")], alias="fast")
    ((head, _),) = stage.connected(relay).sent
    assert head.count(b"accept-encoding") == 1
    assert b"accept-encoding: identity\r\n" in head


def test_an_answer_that_passes_as_it_came_keeps_its_framing(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, SSE)
    relay.on_body(TOKEN, b"framed")
    assert (stage.client.written, stage.client.framed) == (TOKEN, [b"framed"])


def test_an_answer_that_is_renamed_on_its_way_gets_a_new_framing(stage: Stage) -> None:
    relay = stage.start(alias="fast")
    stage.connected(relay)
    stage.answered(relay, 200, SSE)
    relay.on_body(b'data: {"model":"m"}\n\n', b"framed")
    assert (stage.client.written, stage.client.framed) == (b'data: {"model":"fast"}\n\n', [None])


def test_under_an_alias_even_an_answer_that_is_always_packed_is_unpacked(stage: Stage) -> None:
    relay = stage.start(headers=[(b"accept-encoding", b"gzip")], alias="fast")
    stage.connected(relay)
    stage.answered(relay, 200, [*JSON, (b"content-encoding", b"gzip")], gzip.compress(b'{"model":"m"}'))
    relay.on_end()
    assert stage.client.written == b'{"model":"fast"}'
    assert b"content-encoding" not in stage.client.head


def test_a_slow_client_stops_the_reading_from_the_engine_until_it_has_caught_up(stage: Stage) -> None:
    relay = stage.start()
    connection = stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    relay.on_client_slow()
    assert not connection.reading
    relay.on_client_reading()
    assert connection.reading


def test_a_client_that_was_slow_before_the_head_stays_slow_after_it(stage: Stage) -> None:
    relay = stage.start()
    relay.on_client_slow()
    connection = stage.connected(relay)
    stage.answered(relay, 200, SSE, TOKEN)
    assert not connection.reading


def test_sending_without_a_connection_is_a_fault_that_shows(stage: Stage) -> None:
    relay = stage.start()
    with pytest.raises(ValueError, match="an exchange that is CONNECTING has no connection"):
        relay.send()


def test_the_record_tells_when_what_happened(stage: Stage) -> None:
    relay = stage.start()
    stage.now_s = 1.0
    stage.connected(relay)
    stage.now_s = 2.0
    stage.answered(relay, 200, SSE)
    stage.now_s = 3.0
    relay.on_body(TOKEN)
    stage.now_s = 4.0
    relay.on_body(DONE)
    relay.on_end()
    record = stage.record
    assert stage.reported == [record]
    assert (record.sent_s, record.first_byte_s, record.first_token_s, record.finished_s) == (1.0, 2.0, 3.0, 4.0)
    assert (record.pool, record.backend, record.status, record.stream) == ("p", "a", 200, True)
    assert record.bytes_out == len(TOKEN + DONE)


def test_the_head_of_an_engine_that_could_not_serve_is_no_first_byte(stage: Stage) -> None:
    relay = stage.start("a", "b")
    stage.connected(relay)
    stage.answered(relay, 503, JSON, b"loading")
    stage.now_s = 1.0
    stage.connected(relay, "b")
    relay.on_lost(stale=False)
    assert stage.client.told == [("respond", 502)]
    assert (stage.record.sent_s, stage.record.first_byte_s) == (1.0, None)


def test_a_request_that_takes_too_long_is_held_against_an_engine_that_said_nothing(stage: Stage) -> None:
    relay = stage.start("a", "b")
    connection = stage.connected(relay)
    relay.on_too_long()
    assert connection.dropped
    assert stage.client.told == [("respond", 504)]
    assert stage.attempts == [("p", "a", "timed_out")]
    assert stage.outcome is Outcome.TOTAL_TIMEOUT


def test_a_stream_that_takes_too_long_is_broken_off_and_its_engine_has_answered(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, [(b"content-type", b"text/event-stream")])
    relay.on_too_long()
    assert b"total_timeout" in stage.client.written
    assert stage.attempts == [("p", "a", "answered")]


def test_a_server_error_is_one_attempt_of_its_own_kind(stage: Stage) -> None:
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 500, JSON, b"{}", 2)
    relay.on_end()
    assert stage.attempts == [("p", "a", "server_error")]
    assert stage.outcome is Outcome.UPSTREAM_ERROR


# -- traces


def traced(stage: Stage) -> Spans:
    numbers = iter(range(1, 100))
    stage.record.spans = Spans(Headers([]), lambda parent, trace_id: True, lambda count: next(numbers))
    return stage.record.spans


def test_each_attempt_is_kept_with_how_it_ended_and_the_status_of_its_own_head_only(stage: Stage) -> None:
    spans = traced(stage)
    relay = stage.start("a", "b")
    first = stage.connected(relay)
    stage.answered(relay, 503, JSON)
    stage.now_s = 2.0
    relay.on_connect_failed(NoConnection.UNREACHABLE)
    assert spans.attempts == [
        Attempt(f"{3:016x}", "p", "a", 0.0, 0.0, "unavailable", 503),
        Attempt(f"{4:016x}", "p", "b", 0.0, 2.0, "connect_failed"),
    ]
    ((head, _),) = first.sent
    assert f"traceparent: 00-{1:032x}-{3:016x}-01\r\n".encode() in head


def test_an_attempt_that_answered_ends_with_its_request(stage: Stage) -> None:
    spans = traced(stage)
    relay = stage.start()
    stage.connected(relay)
    stage.answered(relay, 200, JSON, length=0)
    stage.now_s = 3.0
    relay.on_end()
    assert spans.attempts == [Attempt(f"{3:016x}", "p", "a", 0.0, 3.0, "answered", 200)]
