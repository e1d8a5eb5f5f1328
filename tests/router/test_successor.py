"""`breakeven.successor`: a process is started at the same sockets, waited for, and ended where it does not serve."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from breakeven import successor as successor_module
from breakeven.successor import NoSuccessorError, start_successor, this_command

SAYS_READY = """
import os, sys, time
os.write(int(os.environ["READY_FD"]), b"READY=1\\n")
sys.stdin.read()
time.sleep(600)
"""
DIES_OF_SERVING = """
import os, sys
os.write(int(os.environ["READY_FD"]), b"READY=1\\n")
sys.exit(4)
"""
DIES = "import sys; sys.exit(3)"
HANGS = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
CLOSES = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.close(int(os.environ["READY_FD"]))
time.sleep(600)
"""


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held


@pytest.fixture
def start(listening):
    """Starts a process that runs this program; whatever becomes of it, nothing stays behind."""
    started = []

    def start(program):
        command = [sys.executable, "-c", program]
        started.append(start_successor(command, [("api", listening)], os.environ))
        return started[-1]

    yield start
    for each in started:
        each.close()
        if each._process.poll() is None:
            each._process.kill()
        each._process.wait()


@pytest.mark.slow
async def test_one_that_ends_before_it_serves_is_told_with_its_code(start):
    successor = start(DIES)
    with pytest.raises(NoSuccessorError) as caught:
        await successor.ready()
    assert str(caught.value) == f"process {successor.pid} ended with 3 before it served, see above"


@pytest.mark.slow
async def test_one_that_dies_of_its_first_requests_has_taken_nothing_over(start):
    successor = start(DIES_OF_SERVING)
    with pytest.raises(NoSuccessorError) as caught:
        await successor.ready()
    assert str(caught.value) == f"process {successor.pid} ended with 4 when it had just begun to serve, see above"


@pytest.mark.slow
async def test_one_that_hangs_is_waited_for_no_longer_than_allowed_and_then_ended_by_force(start, monkeypatch):
    monkeypatch.setattr(successor_module, "END_WITHIN_S", 0.05)
    successor = start(HANGS)
    with pytest.raises(NoSuccessorError) as caught:
        await successor.ready(0.05)
    assert str(caught.value) == f"process {successor.pid} was not ready within 0.05 s"
    monkeypatch.setattr(successor_module, "END_WITHIN_S", 10.0)
    await successor.end()
    assert successor._process.returncode in {-9, -15}  # the latter where it had not come to ignore it


@pytest.mark.slow
async def test_one_that_closes_its_end_and_goes_on_does_not_serve(start, monkeypatch):
    monkeypatch.setattr(successor_module, "END_WITHIN_S", 0.05)
    successor = start(CLOSES)
    with pytest.raises(NoSuccessorError, match=r"process \d+ does not serve, see above"):
        await successor.ready()
    await asyncio.to_thread(successor._process.kill)


@pytest.mark.slow
async def test_one_that_serves_says_so_and_stays(start, monkeypatch):
    monkeypatch.setattr(successor_module, "SETTLED_S", 0.1)
    successor = start(SAYS_READY)
    await successor.ready()
    assert successor._process.poll() is None
    await successor.end()
    assert successor._process.returncode == -15


async def test_where_no_process_can_be_had_nothing_stays_open(listening, monkeypatch):
    opened = []
    pair = socket.socketpair

    def remembered():
        opened.extend(pair())
        return tuple(opened)

    def cannot(*_, **__):
        raise BlockingIOError(11, "no process")

    monkeypatch.setattr(socket, "socketpair", remembered)
    monkeypatch.setattr("subprocess.Popen", cannot)
    with pytest.raises(BlockingIOError):
        start_successor(["x"], [("api", listening)], os.environ)
    assert [end.fileno() for end in opened] == [-1, -1]


def test_a_script_is_run_by_its_own_first_line_and_a_module_by_the_same_python(tmp_path, monkeypatch):
    script, text = tmp_path / "breakeven", tmp_path / "text"
    for path, mode in ((script, 0o755), (text, 0o644)):
        path.write_text("")
        path.chmod(mode)
    monkeypatch.chdir(tmp_path)
    assert this_command(["/old/python", str(script), "serve", "--port", "80"]) == [str(script), "serve", "--port", "80"]
    assert this_command(["python3", "breakeven", "serve"]) == [str(script), "serve"]
    assert this_command(["python3", "text", "serve"], "/bin/python3") == ["/bin/python3", "text", "serve"]
    assert this_command(["python3", "-m", "breakeven", "serve"], "/bin/python3") == [
        "/bin/python3", "-m", "breakeven", "serve",
    ]  # fmt: skip
    assert this_command(["python3"], "/bin/python3") == ["/bin/python3"]
    assert Path(this_command()[0]).is_absolute()
