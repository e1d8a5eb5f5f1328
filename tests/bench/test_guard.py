"""The guard of a server: a word from the launcher sends it home, silence means that the launcher is gone."""

import io
import signal
import subprocess
import sys

import pytest

from breakeven_bench import guard
from breakeven_bench.guard import WORD, end_group, main, signalled

FOREVER = "print('up', flush=True)\nimport time\nwhile True: time.sleep(60)\n"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.fixture
def started():
    """Starts a leader of a group of its own that runs the code, and ends it after the test."""
    running = []

    def start(code):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)
        running.append(process)
        process.stdout.readline()
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_group_that_is_gone_is_no_error():
    with subprocess.Popen([sys.executable, "-c", ""], start_new_session=True) as process:
        process.wait()
    assert not signalled(process.pid, 0)
    end_group(process.pid, 10.0)


@pytest.mark.slow
def test_a_group_that_does_not_listen_is_killed_after_its_time(started):
    process = started(STUBBORN + FOREVER)
    end_group(process.pid, 0.2)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_the_end_of_the_pipe_without_a_word_ends_the_group(started):
    process = started(FOREVER)
    main([str(process.pid), "0.5"], io.BytesIO(b""))
    assert process.wait() == -signal.SIGTERM


@pytest.mark.slow
def test_after_a_word_nothing_happens_to_the_group(started):
    process = started(FOREVER)
    main([str(process.pid), "0.5"], io.BytesIO(WORD))
    assert process.poll() is None


@pytest.mark.slow
def test_as_a_process_it_waits_at_its_pipe_and_acts_when_that_ends(started):
    process = started(STUBBORN + FOREVER)
    argv = [sys.executable, guard.__file__, str(process.pid), "0.1"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as watching:
        assert process.poll() is None
        watching.stdin.close()
        assert process.wait() == -signal.SIGKILL
        assert watching.wait() == 0
