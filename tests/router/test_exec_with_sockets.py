"""`breakeven.exec_with_sockets`: the command finds its sockets where the protocol says, whatever numbers they had."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack

import pytest

from breakeven.exec_with_sockets import place

SHOW = """
import json, os, socket
names = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "READY_FD")
ports = [socket.socket(fileno=number).getsockname()[1] for number in (3, 4)]
os.write(int(os.environ["READY_FD"]), b"READY=1")
print(json.dumps([os.getpid(), ports, {name: os.environ[name] for name in names}]))
"""


def started(descriptors, *command):
    starter = [sys.executable, "-P", "-m", "breakeven.exec_with_sockets", "api:admin"]
    done = subprocess.Popen(
        [*starter, ",".join(map(str, descriptors)), *command],
        pass_fds=descriptors,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = done.communicate(timeout=30)
    return done, out, err


@pytest.fixture
def handed():
    """Two listening sockets and a pair of which the second end is handed over."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        yield sockets, ours, theirs


@pytest.mark.slow
def test_a_command_that_cannot_be_run_is_one_line(handed):
    sockets, _, theirs = handed
    descriptors = [each.fileno() for each in (*sockets, theirs)]
    done, _, err = started(descriptors, "/nonexistent/breakeven", "serve")
    assert (done.returncode, err) == (1, "breakeven: cannot run /nonexistent/breakeven: no such file or directory\n")


@pytest.mark.slow
def test_the_command_is_this_very_process_and_finds_sockets_by_name_from_3_on(handed):
    sockets, ours, theirs = handed
    done, out, err = started([each.fileno() for each in (*sockets, theirs)], sys.executable, "-c", SHOW)
    assert err == ""
    pid, ports, variables = json.loads(out)
    assert pid == done.pid
    assert ports == [each.getsockname()[1] for each in sockets]
    expected = {"LISTEN_PID": str(pid), "LISTEN_FDS": "2", "LISTEN_FDNAMES": "api:admin", "READY_FD": "5"}
    assert variables == expected
    assert ours.recv(100) == b"READY=1"


@pytest.mark.parametrize("numbers", [(250, 251, 252), (202, 201, 200), (201, 200, 300), (200, 250, 201)])
def test_no_descriptor_is_overwritten_before_it_has_been_moved(numbers):
    with ExitStack() as stack:
        pipes = [os.pipe() for _ in numbers]
        for index, (reading, writing) in enumerate(pipes):
            os.write(writing, b"%d" % index)
            os.close(writing)
            os.dup2(reading, numbers[index])
            os.close(reading)
        place(numbers, 200)
        stack.callback(os.closerange, 200, 203)
        assert [os.read(200 + index, 10) for index in range(3)] == [b"0", b"1", b"2"]
        assert all(os.get_inheritable(200 + index) for index in range(3))
        for number in set(numbers) - {200, 201, 202}:
            with pytest.raises(OSError, match="Bad file"):
                os.fstat(number)
