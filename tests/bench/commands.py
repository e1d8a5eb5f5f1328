"""A command of the suite in a process of its own, with the servers that it starts, their murder, and what is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import psutil


@contextmanager
def started(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """`breakeven-bench` with these arguments, and these variables beside ours; killed where the test leaves it."""
    with subprocess.Popen(
        [sys.executable, "-m", "breakeven_bench", *argv],
        env=os.environ | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until_it_says(process: subprocess.Popen[str], mark: str) -> tuple[str, list[int]]:
    """What the command said up to the line with the mark, and its children then. AssertionError with what ended it."""
    assert process.stdout is not None
    assert process.stderr is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if mark in line:
            return "".join(said), [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    raise AssertionError(process.stderr.read())


def kill_an_engine(children: Iterable[int]) -> None:
    """SIGKILL to the first simulated engine among them."""
    engine = next(pid for pid in children if "engine" in psutil.Process(pid).cmdline())
    os.kill(engine, signal.SIGKILL)


def alive(pids: Iterable[int]) -> list[int]:
    """Those that still run."""
    return [pid for pid in pids if is_alive(pid)]


def until_gone(pids: Sequence[int], patience_s: float = 20.0) -> bool:
    """Wait until none of them runs; False where some still do. Nothing tells of the end of what is not one's child."""
    deadline_s = time.monotonic() + patience_s
    while alive(pids):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not waited for does not."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False
