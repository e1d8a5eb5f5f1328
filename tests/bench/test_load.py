"""The load generator: sends when it is due, records what came, retries nothing, and leaves nothing running."""

import asyncio
import socket

import aiohttp
import pytest

from breakeven_bench import load
from breakeven_bench.load import Destination, Tally, closed_loop, new_session, open_loop
from breakeven_bench.planned import PlannedRequest, chat_body
from breakeven_bench.record import ErrorClass
from tests.bench.streaming_server import DONE, chunk, respond, serving


def plan(count):
    return [PlannedRequest(index, f"p-{index}", "short_qa", "Why?", 0.7, 100, 10, index) for index in range(count)]


def to(url, **more):
    return Destination(url, "model-a", arm="arm", run_id="run", **more)


async def answer_at_once(server, request, body):
    return await respond(request, chunk("a", 2), chunk("b", 3, "stop"), DONE)


async def send_one(script, **more):
    """The record of one request to a server of this script, and the server."""
    async with serving(script) as server, new_session() as session:
        records = await open_loop(session, to(server.url, **more), plan(1), [0.0], drain_s=5.0)
    return records[0], server


# What can go wrong


async def test_a_port_where_nothing_listens_is_a_connect_error():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with new_session() as session:
            (record,) = await open_loop(session, to(url), plan(1), [0.0], drain_s=5.0)
    assert (record.error, record.status, record.head_s) == (ErrorClass.CONNECT, None, None)
    assert record.end_s is not None


@pytest.mark.parametrize(
    ("status", "expected"),
    [(400, ErrorClass.HTTP_4XX), (429, ErrorClass.HTTP_4XX), (500, ErrorClass.HTTP_5XX), (503, ErrorClass.HTTP_5XX)],
)
async def test_an_error_status_is_classed_kept_with_its_text_and_not_tried_again(status, expected):
    async def refuse(server, request, body):
        return aiohttp.web.Response(status=status, text="no room")

    record, server = await send_one(refuse)
    assert (record.error, record.status, record.error_detail) == (expected, status, f"{status}: no room")
    assert len(server.bodies) == 1


async def test_a_redirect_is_not_followed():
    async def redirect(server, request, body):
        return aiohttp.web.Response(status=307, headers={"location": "/v1/models"})

    record, _ = await send_one(redirect)
    assert (record.error, record.status) == (ErrorClass.HTTP_4XX, 307)


async def test_an_error_event_inside_the_stream_is_an_error():
    async def fail(server, request, body):
        return await respond(request, chunk("a", 1), b'data: {"error": {"message": "engine died"}}\n\n', DONE)

    record, _ = await send_one(fail)
    assert (record.error, record.error_detail) == (ErrorClass.STREAM_ERROR, "engine died")


@pytest.mark.parametrize("events", [(chunk("a", 1),), (DONE,), ()], ids=["no end mark", "no token", "nothing"])
async def test_a_stream_that_ends_early_is_truncated(events):
    async def stop(server, request, body):
        return await respond(request, *events)

    record, _ = await send_one(stop)
    assert record.error is ErrorClass.TRUNCATED


async def test_a_connection_that_breaks_inside_the_stream_is_disconnected():
    async def drop(server, request, body):
        response = await respond(request, chunk("a", 1))
        request.transport.abort()
        return response

    record, _ = await send_one(drop)
    assert record.error is ErrorClass.DISCONNECTED
    assert len(record.event_s) <= 1


async def test_bytes_that_are_no_events_are_malformed():
    async def babble(server, request, body):
        return await respond(request, b"data: {oh no\n\n")

    record, _ = await send_one(babble)
    assert record.error is ErrorClass.MALFORMED


async def hang(server, request, body):
    response = await respond(request, chunk("a", 1))
    await asyncio.Event().wait()
    return response


async def test_a_request_without_end_times_out():
    record, _ = await send_one(hang, timeout_s=0.05)
    assert (record.error, record.event_tokens) == (ErrorClass.TIMEOUT, (1,))


async def test_what_is_left_after_the_drain_is_given_up_recorded_and_hung_up_on():
    async with serving(hang) as server, new_session() as session:
        (record,) = await open_loop(session, to(server.url), plan(1), [0.0], drain_s=0.1)
        await asyncio.wait_for(server.left.wait(), 5.0)
    assert (record.error, record.end_s, record.event_tokens) == (ErrorClass.UNFINISHED, None, (1,))


async def test_a_cancelled_run_leaves_no_request_behind():
    async with serving(hang) as server, new_session() as session:
        run = asyncio.create_task(open_loop(session, to(server.url), plan(1), [0.0], drain_s=100.0))
        await asyncio.wait_for(server.came.wait(), 5.0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await asyncio.wait_for(server.left.wait(), 5.0)
        assert server.open == 0


async def test_a_fault_of_the_generator_itself_is_not_hidden_in_a_record():
    readings = iter([0.0, 0.0, 0.0])

    def broken_clock():
        return next(readings)

    async with serving(answer_at_once) as server, new_session() as session:
        with pytest.raises(RuntimeError, match="StopIteration"):
            await open_loop(session, to(server.url), plan(1), [0.0], drain_s=5.0, clock=broken_clock)


async def test_a_plan_and_a_schedule_of_unequal_length_are_a_mistake():
    async with serving(answer_at_once) as server, new_session() as session:
        with pytest.raises(ValueError, match="zip"):
            await open_loop(session, to(server.url), plan(2), [0.0], drain_s=5.0)


# What goes right


async def test_a_complete_answer_is_recorded_with_its_route():
    async def routed(server, request, body):
        headers = {
            "x-breakeven-pool": "speculative",
            "x-breakeven-backend": "speculative-0",
            "x-breakeven-reason": "temperature_within_threshold",
        }
        return await respond(request, chunk("a", 2), chunk("b", 3, "stop"), DONE, headers=headers)

    record, _ = await send_one(routed, time_scale=4.0)
    assert record.error is None
    assert (record.pool, record.backend) == ("speculative", "speculative-0")
    assert record.reason == "temperature_within_threshold"
    assert (record.event_tokens, record.completion_tokens, record.prompt_tokens) == ((2, 3), 3, 5)
    assert (record.finish_reason, record.status, record.time_scale) == ("stop", 200, 4.0)
    assert 0.0 <= record.sent_s <= record.head_s <= record.event_s[0] <= record.event_s[1] <= record.end_s


async def test_every_request_carries_its_own_salt_and_the_key_if_there_is_one():
    async with serving(answer_at_once) as server, new_session() as session:
        await open_loop(session, to(server.url, api_key="k"), plan(3), [0.0, 0.0, 0.0], drain_s=5.0)
    assert sorted(body["cache_salt"] for body in server.bodies) == ["run-arm-0", "run-arm-1", "run-arm-2"]
    assert {headers["authorization"] for headers in server.headers} == {"Bearer k"}


async def test_without_a_key_no_authorization_is_sent():
    _, server = await send_one(answer_at_once)
    assert "authorization" not in server.headers[0]


async def test_an_open_loop_sends_on_time_however_slow_the_answers_are():
    async with serving(hang) as server, new_session() as session:
        tally = Tally()
        schedule = [0.0, 0.05, 0.1]
        records = await open_loop(session, to(server.url), plan(3), schedule, drain_s=0.05, tally=tally)
    assert server.open_most == 3
    assert [record.scheduled_s for record in records] == schedule
    assert all(record.sent_s >= record.scheduled_s for record in records)
    assert (tally.planned, tally.sent, tally.finished, tally.failed, tally.in_flight) == (3, 3, 3, 3, 0)


async def test_a_schedule_in_seconds_of_a_faster_engine_is_shorter_on_the_wall_clock():
    async with serving(answer_at_once) as server, new_session() as session:
        records = await open_loop(session, to(server.url, time_scale=100.0), plan(2), [0.0, 5.0], drain_s=500.0)
    assert [record.scheduled_s for record in records] == [0.0, 0.05]


async def test_a_request_is_sent_when_it_is_handed_over_and_not_when_its_turn_was_planned(monkeypatch):
    now_s = [0.0]

    def slow_body(*arguments):
        now_s[0] += 1.0  # the client is busy for a second before each request
        return chat_body(*arguments)

    monkeypatch.setattr(load, "chat_body", slow_body)
    async with serving(answer_at_once) as server, new_session() as session:
        records = await open_loop(session, to(server.url), plan(2), [0.0, 0.0], drain_s=5.0, clock=lambda: now_s[0])
    assert [record.sent_s for record in records] == [1.0, 2.0]


async def test_a_closed_loop_keeps_its_number_in_flight_and_no_more():
    async def briefly(server, request, body):
        await asyncio.sleep(0.01)
        return await answer_at_once(server, request, body)

    async with serving(briefly) as server, new_session() as session:
        tally = Tally()
        records = await closed_loop(session, to(server.url), plan(9), 3, tally=tally)
    assert server.open_most == 3
    assert [record.index for record in records] == list(range(9))
    assert (tally.planned, tally.finished, tally.failed) == (9, 9, 0)
    assert all(record.scheduled_s <= record.sent_s for record in records)
