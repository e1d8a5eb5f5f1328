"""The engine as a process: it says when it is ready, ends on a signal, and ends when it is broken."""

import asyncio
import contextlib
import gc
import os
import re
import signal
import socket
import sys
from threading import Thread

import pytest

from breakeven_bench.engine.connection import HttpServer
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.serve import Listener, serve
from tests.bench.engine.engines import eventually, running_engine

READY = re.compile(rb"engine ready on http://127\.0\.0\.1:(\d+) \((.+)\)\n")


async def test_a_port_that_is_taken_is_an_error_of_the_start():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            await Listener("127.0.0.1", taken.getsockname()[1]).open(HttpServer(lambda request, response: None))


async def test_refusing_before_listening_does_nothing():
    listener = Listener("127.0.0.1", 0)
    listener.refuse(0.01)
    listener.close()
    assert await listener.open(HttpServer(lambda request, response: None)) > 0
    listener.close()


async def test_refusing_twice_listens_again_after_the_second_time_and_only_once():
    listener = Listener("127.0.0.1", 0)
    port = await listener.open(HttpServer(lambda request, response: None))
    listener.refuse(0.01)
    listener.refuse(0.03)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)

    async def listens():
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            return False
        writer.close()
        return True

    await eventually(listens)
    listener.close()


async def test_a_port_that_was_taken_meanwhile_is_no_silent_end():
    failures = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
    listener = Listener("127.0.0.1", 0)
    port = await listener.open(HttpServer(lambda request, response: None))
    listener.refuse(0.02)
    await asyncio.sleep(0)
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", port))
        thief.listen()

        async def failed():
            return bool(failures)

        await eventually(failed)
    assert isinstance(failures[0], OSError)


async def test_stopping_accepts_nothing_and_leaves_what_is_being_served_without_an_end_until_its_client_leaves():
    async with running_engine(time_scale=1.0) as engine:
        reader, writer = await asyncio.open_connection("127.0.0.1", engine.port)
        body = b'{"messages":[],"stream":true,"max_tokens":5000,"ignore_eos":true}'
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
        writer.write(head + b"content-length: %d\r\n\r\n" % len(body) + body)
        await reader.readuntil(b"\r\n\r\n")
        _, idle = await asyncio.open_connection("127.0.0.1", engine.port)
        engine.stop.set()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(), 0.1)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", engine.port)
        writer.close()
        idle.close()


@pytest.fixture
def thawed():
    """The tests' own process goes on living: what `serve` froze must be collectable again."""
    yield
    gc.unfreeze()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_status_zero(thawed, number):
    ports = []

    def announce(port):
        ports.append(port)
        os.kill(os.getpid(), number)

    assert serve(EngineOptions(), "127.0.0.1", 0, announce) == 0
    assert ports[0] > 0


def test_a_second_signal_does_not_wait_for_clients(thawed):
    """The client is a thread's, because the engine has this one for itself."""
    cut = []

    def ask(port):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            body = b'{"messages":[],"stream":true,"max_tokens":5000,"ignore_eos":true}'
            head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            client.recv(1)
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            with contextlib.suppress(ConnectionResetError):
                while client.recv(1 << 16):
                    pass
            cut.append(port)

    threads = []

    def announce(port):
        threads.append(Thread(target=ask, args=(port,)))
        threads[0].start()

    assert serve(EngineOptions(), "127.0.0.1", 0, announce) == 0
    threads[0].join(5)
    assert cut


def test_a_port_that_is_taken_is_told_in_one_line(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert serve(EngineOptions(), "127.0.0.1", port, lambda _: pytest.fail("it cannot be ready")) == 1
    message = capsys.readouterr().err
    assert re.fullmatch(rf"breakeven-bench engine: cannot listen on 127\.0\.0\.1:{port}: .*in use\n", message)


def test_an_engine_that_is_broken_ends_rather_than_going_on_wrongly(thawed, caplog):
    def announce(port):
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)

    assert serve(EngineOptions(), "127.0.0.1", 0, announce) == 70
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.slow
async def test_as_a_process_it_says_that_it_is_ready_serves_and_ends_at_once():
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "breakeven_bench", "engine", "--port", "0"),
        *("--method", "eagle3", "--model", "m"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    match = READY.fullmatch(await asyncio.wait_for(process.stdout.readline(), 20))
    assert match, await process.stderr.read()
    assert match[2] == b"m, a100-tp2-int8, eagle3 k=5, greedy drafting, time x1"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(match[1]))
    writer.write(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    process.send_signal(signal.SIGTERM)
    _, errors = await asyncio.wait_for(process.communicate(), 5)
    assert (process.returncode, errors) == (0, b"")
    writer.close()
