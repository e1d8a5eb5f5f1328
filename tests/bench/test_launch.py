"""The launcher: servers become ready, are watched, and are gone afterwards, in whatever way the work ends."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from multiprocessing import resource_tracker

import psutil
import pytest

from breakeven_bench import launch
from breakeven_bench.launch import (
    TAIL_LINES,
    Command,
    Launcher,
    LaunchError,
    cancel_on_signals,
    exit_words,
    free_port,
    tail,
)
from tests.bench.commands import is_alive

READY = "print('ready on http://127.0.0.1:5', flush=True)\n"
FOREVER = "import time\nwhile True: time.sleep(60)\n"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
WITH_A_WORKER = (
    "import subprocess, sys\n"
    "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print('worker', worker.pid, flush=True)\n"
)

PARENT = """
import asyncio, re, sys
from multiprocessing import resource_tracker
from pathlib import Path
from breakeven_bench.launch import Command, Launcher

async def main():
    async with Launcher(Path({directory!r}), grace_s=0.2) as launcher:
        argv = [sys.executable, "-c", {child!r}]
        server = launcher.start(Command("child", argv, re.compile("ready"), 10, guarded={guarded}))
        await server.ready()
        print(server.pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""

pytestmark = pytest.mark.slow  # every test starts an interpreter


def command(code, name="server", timeout_s=10.0, pattern=r"ready on (\S+)", **more):
    return Command(name, [sys.executable, "-c", code], re.compile(pattern), timeout_s, **more)


async def until(happened):
    """Nothing signals what other processes do; the test's own time-out bounds the wait."""
    while True:
        if happened():
            return
        await asyncio.sleep(0.01)


async def test_a_program_that_does_not_exist_is_a_clear_error(tmp_path):
    async with Launcher(tmp_path) as launcher:
        with pytest.raises(LaunchError, match=r"ghost cannot be started: .*no-such-program"):
            launcher.start(Command("ghost", ["./no-such-program"], re.compile("x"), 1.0))


async def test_a_server_that_ends_before_it_is_ready_shows_the_end_of_its_log(tmp_path):
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command("print('loading'); raise SystemExit('no such model')"))
        with pytest.raises(LaunchError, match=r"(?s)server ended with status 1 before it was ready.*no such model"):
            await server.ready()


async def test_a_server_that_is_never_ready_is_given_up_at_its_deadline(tmp_path):
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(FOREVER, timeout_s=0.2))
        with pytest.raises(LaunchError, match=r"(?s)was not ready within 0.2 s.*\(the log is empty\)"):
            await server.ready()
    assert not is_alive(server.pid)


async def test_a_server_that_dies_while_it_is_needed_ends_the_work(tmp_path):
    async def work():
        os.kill(server.pid, signal.SIGKILL)
        try:
            await asyncio.sleep(600.0)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    ended = []
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(READY + FOREVER))
        await server.ready()
        launcher.check()
        with pytest.raises(LaunchError, match="ended with signal SIGKILL while it was in use"):
            await launcher.while_alive(work())
    assert ended == ["cancelled"]


async def test_a_server_that_dies_explains_the_error_that_its_death_causes(tmp_path):
    async def work():
        os.kill(server.pid, signal.SIGKILL)
        raise ConnectionResetError

    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(READY + FOREVER))
        await server.ready()
        with pytest.raises(LaunchError, match="ended with signal SIGKILL while it was in use"):
            await launcher.while_alive(work())


async def test_an_error_of_the_work_itself_comes_through(tmp_path):
    async def work():
        raise ZeroDivisionError

    async with Launcher(tmp_path) as launcher:
        with pytest.raises(ZeroDivisionError):
            await launcher.while_alive(work())


async def test_work_under_watch_gives_its_result(tmp_path):
    async def work():
        return 7

    async with Launcher(tmp_path) as launcher:
        assert await launcher.while_alive(work()) == 7


async def test_a_server_that_ignores_the_request_to_end_is_killed_with_its_workers(tmp_path):
    async with Launcher(tmp_path, grace_s=0.2) as launcher:
        server = launcher.start(command(STUBBORN + WITH_A_WORKER + READY + FOREVER, pattern=r"worker (\d+)\nready"))
        worker = int((await server.ready()).group(1))
        assert is_alive(worker)
    assert not is_alive(server.pid)
    assert not is_alive(worker)


async def test_workers_that_a_crashed_server_left_are_ended_too(tmp_path):
    async with Launcher(tmp_path, grace_s=5.0) as launcher:
        server = launcher.start(command(WITH_A_WORKER + READY + FOREVER, pattern=r"worker (\d+)\nready"))
        worker = int((await server.ready()).group(1))
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: server.exit_status is not None)
    assert not is_alive(worker)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, asyncio.CancelledError])
async def test_whatever_ends_the_work_no_server_is_left(tmp_path, error):
    servers = []

    async def work():
        async with Launcher(tmp_path) as launcher:
            servers.extend(launcher.start(command(READY + FOREVER, name=f"server-{index}")) for index in range(2))
            await asyncio.gather(*(server.ready() for server in servers))
            raise error

    with pytest.raises(error):
        await work()
    assert [is_alive(server.pid) for server in servers] == [False, False]


async def test_an_interrupt_during_the_grace_period_still_leaves_no_server(tmp_path):
    async def work():
        async with Launcher(tmp_path, grace_s=600.0) as launcher:
            server = launcher.start(command(STUBBORN + READY + FOREVER))
            await server.ready()
            pids.append(server.pid)

    pids = []
    task = asyncio.create_task(work())
    await until(lambda: pids)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pids[0])


def orphan(tmp_path, child, guarded):
    """The process of a server whose launcher has just been killed outright."""
    parent = PARENT.format(directory=str(tmp_path), child=child, guarded=guarded)
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        pid = int(process.stdout.readline())
        assert is_alive(pid)
        process.kill()
    return pid


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
async def test_a_launcher_that_is_killed_outright_takes_its_servers_with_it(tmp_path):
    pid = orphan(tmp_path, READY + FOREVER, guarded=False)
    await until(lambda: not is_alive(pid))


async def test_a_guarded_server_ends_with_its_launcher_even_where_it_ignores_the_request_to_end(tmp_path):
    pid = orphan(tmp_path, STUBBORN + READY + FOREVER, guarded=True)
    await until(lambda: not is_alive(pid))


def children():
    """Those that a launcher began: Python keeps one of its own for as long as it lives, once it has begun a process."""
    pythons = resource_tracker._resource_tracker._pid
    return [child for child in psutil.Process().children() if child.pid != pythons]


async def test_the_guard_of_a_server_that_was_stopped_in_order_is_gone_with_it(tmp_path):
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(READY + FOREVER, guarded=True))
        await server.ready()
        assert [process.pid == server.pid for process in children()] == [True, False]
    assert children() == []


async def test_a_guard_that_was_killed_does_not_keep_its_server_from_being_stopped(tmp_path):
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(READY + FOREVER, guarded=True))
        (guard,) = [process for process in children() if process.pid != server.pid]
        guard.kill()
    assert children() == []


async def test_a_guard_that_does_not_listen_is_killed_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "DISMISSAL_S", 0.1)
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(READY + FOREVER, guarded=True))
        (guard,) = [process for process in children() if process.pid != server.pid]
        guard.suspend()
    assert children() == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_ends_the_work_through_its_own_end(number):
    async def work():
        cancel_on_signals()
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    ended = []
    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task
    asyncio.get_running_loop().remove_signal_handler(number)
    assert ended == [number]


async def test_outside_of_a_task_there_is_nothing_that_a_signal_could_end():
    outcome = asyncio.get_running_loop().create_future()

    def call():
        with pytest.raises(RuntimeError, match="there is no task to cancel"):
            cancel_on_signals()
        outcome.set_result(None)

    asyncio.get_running_loop().call_soon(call)
    await outcome


def test_a_free_port_can_be_listened_on():
    with socket.create_server(("127.0.0.1", free_port())) as server:
        assert server.getsockname()[1] > 0


async def test_the_ready_line_gives_what_it_says(tmp_path):
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(READY + FOREVER))
        assert (await server.ready()).group(1) == "http://127.0.0.1:5"
        assert server.log_path == tmp_path / "server.log"
        assert launcher.servers == (server,)
    assert launcher.servers == ()


async def test_a_ready_line_just_before_the_end_is_seen(tmp_path):
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(READY))
        await until(lambda: server.exit_status is not None)
        assert (await server.ready()).group(1) == "http://127.0.0.1:5"


async def test_a_server_gets_the_environment_of_its_command_beside_ours(tmp_path):
    code = "import os; print('ready', os.environ['SUITE'], 'PATH' in os.environ, flush=True)"
    async with Launcher(tmp_path) as launcher:
        server = launcher.start(command(code, pattern=r"ready (.*)", environment={"SUITE": "yes"}))
        assert (await server.ready()).group(1) == "yes True"


async def test_some_servers_can_be_stopped_while_the_others_go_on(tmp_path):
    async with Launcher(tmp_path) as launcher:
        first, second = (launcher.start(command(READY + FOREVER, name=name)) for name in ("first", "second"))
        await asyncio.gather(first.ready(), second.ready())
        await launcher.stop([first])
        assert (is_alive(first.pid), is_alive(second.pid)) == (False, True)
        assert launcher.servers == (second,)


def test_the_tail_of_a_long_log_is_its_last_lines(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(10_000)))
    assert tail(log).splitlines() == [f"line {number}" for number in range(10_000 - TAIL_LINES, 10_000)]


@pytest.mark.parametrize(
    ("status", "expected"), [(0, "status 0"), (3, "status 3"), (-9, "signal SIGKILL"), (-50, "signal 50")]
)
def test_an_exit_status_is_put_into_words(status, expected):
    assert exit_words(status) == expected
