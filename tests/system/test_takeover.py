"""One router takes over the ports of another under load, and no request is lost: issue of restarts without a balancer.

Either somebody keeps the listening sockets and starts routers with them, as systemd does, or a router that is asked to
(SIGUSR2) starts its successor itself.
"""

import asyncio
import json
import re
import signal
import socket
import sys
from contextlib import AsyncExitStack, ExitStack, contextmanager

import httpx
import psutil
import pytest

from tests.field.router import Router, until
from tests.house.needs import needs
from tests.router.scripted_engine import says, scripted_engine
from tests.system.chaos.run import settings_of
from tests.system.router_process import RouterProcess, router_process
from tests.system.test_process import (
    EVENT,
    LAST,
    REQUEST,
    GatedStream,
    chat_answer,
    engine_answers,
    stopped,
    until_status,
)
from tests.system.under_load import DELAY_S, EVER, engines_in, load_on, nothing_failed, some_more

pytestmark = [pytest.mark.slow, pytest.mark.timeout(480)]
"""Seconds where nothing else runs; many processes start here, and each start takes a busy machine long."""

HANDS_OVER = """
import os, sys
from breakeven.exec_with_sockets import place
place([int(number) for number in sys.argv[1].split(",")], 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "breakeven.socket:admin"}
os.execvp(sys.argv[2], sys.argv[2:])
"""

TAKEN = r"process (\d+) serves now"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class Keeper:
    """Keeps two listening sockets and starts routers with them."""

    def __init__(self, stack, engines, folder):
        self._stack, self._engines, self._folder = stack, engines, folder
        self._sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024)) for _ in range(2)]

    async def start(self, number):
        """A router with two workers that serves there, however long others do."""
        folder = self._folder / f"router-{number}"
        folder.mkdir()
        router = Router(
            folder, settings_of(self._engines, folder) | EVER | {"drain_delay_s": DELAY_S, "workers": 2, "port": 0}
        )
        router.port, router.admin_port = (each.getsockname()[1] for each in self._sockets)
        router.pass_fds = tuple(each.fileno() for each in self._sockets)
        router.run_by = (sys.executable, "-c", HANDS_OVER, ",".join(map(str, router.pass_fds)))
        self._stack.push_async_callback(router.kill)
        await router.start()
        return router


async def test_routers_come_and_go_at_one_port_and_no_request_fails(tmp_path):
    """Started by whoever keeps the sockets, before the old one ends and after; then by the router that is to end."""
    async with engines_in(tmp_path) as engines, AsyncExitStack() as stack:
        keeper = Keeper(stack, engines, tmp_path)
        first = await keeper.start(1)
        async with load_on(first.port, again := []) as fates:
            await some_more(fates, 0)
            second = await keeper.start(2)
            await first.stop()
            await some_more(fates, len(fates))
            await second.stop()  # from here on clients wait at the socket
            third = await keeper.start(3)
            await some_more(fates, len(fates))
            third.settings["workers"] = 1
            third.write()
            serving = await taken_over(
                third, psutil.Process(third.pid), stack
            )  # by one process, from one with two workers
            await some_more(fates, len(fates))
            serving = await taken_over(third, serving, stack)
            since = len(fates)
            await some_more(fates, since)
        serving.terminate()
        await third.stop()  # its pipes close once all have ended
        nothing_failed(engines, fates, again)
        logged = [json.loads(line)["request_id"] for line in log_of(third).read_text().splitlines()]
        assert {fate.wish.token for fate in fates[since:] if fate.done} <= set(logged)


def log_of(router):
    """Where this router, and who took over from it, wrote what they served."""
    return router.folder / "access.log"


async def taken_over(router, serving, stack):
    """Ask the process that serves to be taken over, and wait for its end; the one that serves then."""
    mark = len(router.log)
    serving.send_signal(signal.SIGUSR2)

    async def line():
        return next((line for line in router.log[mark:] if re.search(TAKEN, line)), None)

    successor = successor_in(await until(line, "another process serves", 60))
    stack.callback(kill, successor)
    await until(lambda: ended(serving), "the old one has ended", 60)
    return successor


async def ended(process):
    """Whether it runs no more; nobody may have asked for its exit code yet."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def successor_in(line):
    return psutil.Process(int(re.search(TAKEN, line)[1]))


def kill(process):
    if process.is_running():
        process.kill()


@contextmanager
def succession(router: RouterProcess):
    """Asks the router to be taken over; `await` what is yielded for the process that serves then, which ends here."""
    with ExitStack() as stack:

        async def successor():
            router.send(signal.SIGUSR2)
            line = await said(router, " serves now")
            process = successor_in(line)
            stack.callback(kill, process)
            return process

        yield successor


async def said(router, text):
    """Wait for a line with this text; lines of its successor count, too."""

    async def line():
        return next((line for line in router.lines if text in line), None)

    return await until(line, f"{text!r} in {router.lines}", 60)


@contextmanager
def service_manager(folder):
    """Whoever hears what a service says of itself."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hearing:
        hearing.bind(str(folder / "notify"))
        hearing.setblocking(False)
        yield hearing


async def heard(hearing):
    async with asyncio.timeout(60):
        return (await asyncio.get_running_loop().sock_recv(hearing, 1000)).decode()


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_a_running_stream_ends_on_the_old_one_while_the_new_one_serves_and_is_the_main_one(tmp_path, workers):
    stream = GatedStream()
    async with scripted_engine(**engine_answers(stream.answer)) as engine, httpx.AsyncClient() as client:
        flags = ("--baseline", f"http://127.0.0.1:{engine.port}", "--workers", workers, "--drain-timeout-s", "0.1")
        with (
            service_manager(tmp_path) as manager,
            router_process(*flags, NOTIFY_SOCKET=str(tmp_path / "notify")) as router,
            succession(router) as successor,
        ):
            assert await heard(manager) == "READY=1"
            await until_status(client, f"{router.url}/ready", 200)
            request = client.stream("POST", f"{router.url}/v1/chat/completions", json={**REQUEST, "stream": True})
            async with request as answer:
                pieces = answer.aiter_bytes()
                assert await anext(pieces) == EVENT
                process = await successor()
                assert await heard(manager) == f"MAINPID={process.pid}"
                engine.answers["/v1/chat/completions"] = chat_answer("new")
                async with httpx.AsyncClient() as newcomer:
                    served = await newcomer.post(f"{router.url}/v1/chat/completions", json=REQUEST)
                    assert served.json()["choices"][0]["message"]["content"] == "new"

                    async def counts_its_own_only():
                        page = (await newcomer.get(f"{router.admin_url}/metrics")).text
                        return 'breakeven_requests_in_flight{backend="baseline-0",pool="baseline"} 0.0' in page

                    # A worker may have answered and not yet counted the end when another process shows the counts.
                    await until(counts_its_own_only, "it counts only its own", 60)
                assert router.process.poll() is None
                stream.gate.set()
                assert b"".join([piece async for piece in pieces]) == LAST
            assert await stopped(router) == 0
            process.terminate()
            assert (await heard(manager)).startswith("STOPPING=1\nEXTEND_TIMEOUT_USEC=")
            await asyncio.to_thread(psutil.wait_procs, [process], 20)
            await router.all_read()
    assert "Traceback" not in "".join(router.lines)


async def test_a_configuration_that_is_wrong_changes_nothing_and_a_corrected_one_takes_over(tmp_path):
    answers = engine_answers(chat_answer("served"))
    async with scripted_engine(**answers) as engine, httpx.AsyncClient() as client:
        config = tmp_path / "breakeven.yaml"
        right = {"baseline": f"http://127.0.0.1:{engine.port}", "api_keys_file": str(tmp_path / "keys")}
        (tmp_path / "keys").write_text("sk-1")
        config.write_text(json.dumps(right))
        headers = {"authorization": "Bearer sk-1"}

        async def serves():
            answer = await client.post(f"{router.url}/v1/chat/completions", json=REQUEST, headers=headers)
            return answer.status_code

        with router_process("--config", str(config)) as router, succession(router) as successor:
            await until_status(client, f"{router.url}/ready", 200)
            config.write_text(json.dumps(right | {"threshold": "warm"}))
            router.send(signal.SIGUSR2)

            async def serves_on():
                return await serves() == 200 and any("not taken over" in line for line in router.lines)

            await until(serves_on, "it serves on", 60)
            assert "threshold: expected a number, got 'warm'" in "".join(router.lines)
            config.write_text(json.dumps(right))
            process = await successor()
            assert await serves() == 200
            assert await stopped(router) == 0
            process.terminate()
            await asyncio.to_thread(psutil.wait_procs, [process], 20)


async def test_a_router_that_is_told_to_end_while_another_process_starts_ends_alone(tmp_path):
    async with scripted_engine(health=says(200)) as engine, httpx.AsyncClient() as client:
        with router_process("--baseline", f"http://127.0.0.1:{engine.port}") as router:
            await until_status(client, f"{router.url}/ready", 200)
            router.send(signal.SIGUSR2)

            async def child():
                return psutil.Process(router.process.pid).children()

            (successor,) = await until(child, "a successor is started", 60)
            router.send(signal.SIGTERM)
            assert await stopped(router) == 0
            assert not successor.is_running()
            with pytest.raises(httpx.ConnectError):
                await client.get(f"{router.url}/health")


async def test_systemd_itself_hands_the_sockets_over():
    activate = needs("systemd-socket-activate", "apt-get install systemd")
    with ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
    async with scripted_engine(**engine_answers(chat_answer("served"))) as engine, httpx.AsyncClient() as client:
        listening = [f"--listen=127.0.0.1:{port}" for port in free]
        serve = [sys.executable, "-m", "breakeven", "serve", "--baseline", f"http://127.0.0.1:{engine.port}"]
        process = await asyncio.create_subprocess_exec(
            activate, *listening, "--fdname=api:admin", *serve, "--workers", "2", stderr=asyncio.subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            for _ in free:
                assert b"Listening on" in await process.stderr.readline()
            answer = await client.post(f"http://127.0.0.1:{free[0]}/v1/chat/completions", json=REQUEST, timeout=60)
            assert answer.status_code == 200
            assert (await client.get(f"http://127.0.0.1:{free[1]}/ready")).status_code == 200
            process.terminate()
            assert b"Traceback" not in await process.stderr.read()
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
