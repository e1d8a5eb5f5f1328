"""How an engine comes and goes: loading, a signal, a kill, and the death of its core behind a living HTTP server."""

import asyncio
import signal

import pytest

from breakeven_bench.launch import Launcher, free_port
from tests.contract.engine import DONE, POLL_S, Engine, accepts, events_of, started
from tests.contract.targets import Shape

LONG = {"max_tokens": 1800, "ignore_eos": True}

END_MAX_S = 30.0
"""How long an engine may take to be gone: vLLM looks for the death of its core every five seconds."""

SILENCE_S = 1.0
"""Ten engine steps and more on either target."""

pytestmark = pytest.mark.slow


async def ended(engine):
    """The exit status, once there is one."""
    async with asyncio.timeout(END_MAX_S):
        while engine.server.exit_status is None:  # noqa: ASYNC110  # `Server` is a poll, see its module
            await asyncio.sleep(POLL_S)
    return engine.server.exit_status


async def streaming(engine, client):
    await client.send(started(stream=True, **LONG), "POST")
    return await client.has(b'"content":" ')


async def test_an_engine_that_loads_accepts_no_connection_and_one_that_accepts_is_healthy(target, tmp_path):
    async with Launcher(tmp_path) as launcher:
        port = free_port()
        server = launcher.start(target.command(Shape(), port))
        engine = Engine(target, server, port)
        attempts = 0
        async with asyncio.timeout(server.command.ready_timeout_s):
            while not await accepts(port):
                server.check()
                attempts += 1
                await asyncio.sleep(POLL_S)
        assert attempts > 0
        assert [(await engine.get(path)).status for path in ("/health", "/v1/models", "/metrics")] == [200, 200, 200]
        assert (await engine.answer())["choices"]


async def test_asked_to_end_it_accepts_nothing_and_what_is_served_falls_silent_until_its_client_leaves(own_engine):
    """So only a deadline of one's own ends such a stream: neither an event nor an end of the connection does."""
    async with await own_engine.connect() as client, await own_engine.connect() as waiting:
        await streaming(own_engine, client)
        await waiting.send(started(**LONG), "POST")
        await own_engine.until(lambda page: page.value("vllm:num_requests_running") == 2)
        own_engine.server.terminate()
        async with asyncio.timeout(END_MAX_S):
            while await accepts(own_engine.port):  # noqa: ASYNC110  # a port tells nobody that it was closed
                await asyncio.sleep(POLL_S)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.gather(client.end(), waiting.end()), SILENCE_S)
        assert own_engine.server.exit_status is None
        assert (client.reply.complete, client.reply.closed, b"error" in client.reply.body) == (False, False, False)
        assert waiting.reply.status is None
    assert await ended(own_engine) == 0


async def test_a_kill_breaks_every_connection_in_the_middle(own_engine):
    async with await own_engine.connect() as client:
        await streaming(own_engine, client)
        own_engine.server.kill()
        reply = await client.end()
    assert (reply.complete, reply.closed) == (False, True)
    assert b"data: [DONE]" not in reply.body
    assert own_engine.server.exit_status == -signal.SIGKILL
    assert not await accepts(own_engine.port)


async def test_a_dead_core_ends_streams_with_an_error_event_answers_500_and_then_takes_the_server_along(
    target, own_engine
):
    async with await own_engine.connect() as client, await own_engine.connect() as waiting:
        await streaming(own_engine, client)
        await waiting.send(started(**LONG), "POST")
        await own_engine.until(lambda page: page.value("vllm:num_requests_running") == 2)
        await target.kill_core(own_engine.server, own_engine.port)
        stream, whole = await client.end(), await waiting.end()
    *_, told, done = events_of(stream.body)
    assert (stream.complete, done) == (True, DONE)
    assert (told["error"]["type"], told["error"]["code"]) == ("InternalServerError", 500)
    assert whole.status == 500
    assert whole.json()["error"]["type"] == "InternalServerError"
    await ended(own_engine)
    assert not await accepts(own_engine.port)
