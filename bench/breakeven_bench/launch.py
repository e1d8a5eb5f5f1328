"""Starts servers as child processes, waits until they are ready, watches them, and leaves none behind.

Each child leads its own process group (engines start workers of their own) and writes to its own log file: a file,
unlike a pipe, never fills up and outlives a crash. Readiness is a line in that log, by a deadline; an exit before it,
or later while work is going on, is an error that shows the end of the log. Children are stopped in reverse order of
their start: SIGTERM to every group, and SIGKILL to what is still there after a grace period. On Linux the kernel also
ends a child whose parent was killed outright; elsewhere such a child would stay, and so would one that SIGTERM does
not end: such servers get a `guard`.

The wait is a poll of file and exit status: it needs no child watcher, no signal handler and no thread, and so works
in any event loop.
"""

import asyncio
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from re import Match, Pattern
from time import monotonic, sleep
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

from breakeven_bench import guard

Result = TypeVar("Result")

POLL_S = 0.05
"""How often a log and an exit status are looked at: short against the second that a Python server takes to start."""

GRACE_S = 10.0
"""How long a server may take to end after SIGTERM: vLLM drains its workers in a few seconds."""

BURIAL_S = 0.5
"""How long the workers of a killed server are waited for: dying takes milliseconds, and what init does not reap never
goes.
"""

BURIAL_POLL_S = 0.005

DISMISSAL_S = 2.0
"""How long a guard may take to end after its word: milliseconds, and a second where it has hardly been started on a
busy machine. Nothing else runs in the loop meanwhile.
"""

TAIL_LINES = 20
"""How much of a log an error shows: a Python traceback with its cause."""

TAIL_BYTES = 16 * 1024
"""The part of the log that is read for it."""

_PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""


class LaunchError(Exception):
    """A server did not become ready, or ended while it was needed. The message holds the end of its log."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start. `ready` is searched in the log; its match is what `Server.ready` returns (a port, say).

    `guarded` is for servers that do not end with their parent by SIGTERM alone.
    """

    name: str
    argv: Sequence[str]
    ready: Pattern[str]
    ready_timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    guarded: bool = False


class Server:
    """A running child. Made by `Launcher.start`."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes], log_path: Path, started_s: float) -> None:
        self.command = command
        self.log_path = log_path
        self._process = process
        self._deadline_s = started_s + command.ready_timeout_s
        self._is_gone = False
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.poll()

    async def ready(self) -> Match[str]:
        """Wait for the ready line; LaunchError where the server ends or the deadline passes first."""
        while True:
            ended = self.exit_status is not None
            # Read after the exit status, so that a line written just before the end is not missed.
            match = self.command.ready.search(self.log_path.read_text(errors="replace"))
            if match:
                return match
            if ended:
                raise self._error(f"ended with {exit_words(self.exit_status)} before it was ready")
            if monotonic() > self._deadline_s:
                raise self._error(f"was not ready within {self.command.ready_timeout_s:g} s")
            await asyncio.sleep(POLL_S)

    def check(self) -> None:
        """LaunchError if the server has ended."""
        if self.exit_status is not None:
            raise self._error(f"ended with {exit_words(self.exit_status)} while it was in use")

    def terminate(self) -> None:
        """Ask the server to end its workers and itself; without a server, ask the workers that it left."""
        if self._process.poll() is None:
            self._process.terminate()
        else:
            self._signal_group(signal.SIGTERM)

    def kill(self) -> None:
        """End what is left of the group; does nothing once the group is gone, whoever has its number by then."""
        self._signal_group(signal.SIGKILL)
        self._process.wait()
        deadline_s = monotonic() + BURIAL_S
        while not self.reap() and monotonic() < deadline_s:
            sleep(BURIAL_POLL_S)

    def set_guard(self, grace_s: float) -> None:
        """Start a process that ends this group, within the grace period, should this process be killed outright."""
        argv = [sys.executable, guard.__file__, str(self.pid), str(grace_s)]
        quiet = subprocess.DEVNULL
        self._guard = subprocess.Popen(  # noqa: S603  # our own script
            argv, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, start_new_session=True
        )

    def dismiss(self) -> None:
        """Tell the guard that the group was ended in order, and wait for its end; nothing where there is none.

        A guard that does not listen is killed: its group is gone, so that it has nothing left to do.
        """
        if self._guard is None:
            return
        try:
            self._guard.communicate(guard.WORD, timeout=DISMISSAL_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.communicate()
        self._guard = None

    def reap(self) -> bool:
        """Whether the whole group is gone; takes the exit status of the server itself."""
        if self._process.poll() is not None and not self._is_gone:
            self._signal_group(None)
        return self._is_gone

    def _signal_group(self, number: signal.Signals | None) -> None:
        """Signal every member of the group, None: only look whether there is one."""
        if self._is_gone:
            return
        try:
            os.killpg(self.pid, number or 0)
        except (ProcessLookupError, PermissionError):  # macOS says EPERM for a group of zombies
            self._is_gone = self._process.poll() is not None

    def _error(self, what: str) -> LaunchError:
        return LaunchError(f"{self.command.name} {what}; the end of {self.log_path}:\n{tail(self.log_path)}")


class Launcher:
    """Owns servers for the time of an `async with` block, however that block ends.

    `grace_s` is the time that all servers together have to end by themselves.
    """

    def __init__(self, log_directory: Path, grace_s: float = GRACE_S) -> None:
        self._log_directory = log_directory
        self._grace_s = grace_s
        self._servers: list[Server] = []

    @property
    def servers(self) -> Sequence[Server]:
        """Those started and not yet stopped, in order of their start."""
        return tuple(self._servers)

    async def __aenter__(self) -> Self:
        self._log_directory.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(self._servers)

    def start(self, command: Command) -> Server:
        """Start a server; it is not ready yet. LaunchError where the program cannot be run at all."""
        log_path = self._log_directory / f"{command.name}.log"
        try:
            with log_path.open("wb") as log:
                process = subprocess.Popen(  # noqa: S603  # the suite's own command lines, no shell
                    list(command.argv),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | dict(command.environment),
                    start_new_session=True,
                    preexec_fn=_parental_bond(),  # noqa: PLW1509  # one prctl call; takes no lock a thread could hold
                )
        except OSError as error:
            message = f"{command.name} cannot be started: {error}"
            raise LaunchError(message) from error
        server = Server(command, process, log_path, monotonic())
        self._servers.append(server)
        if command.guarded:
            server.set_guard(self._grace_s)
        return server

    def check(self) -> None:
        """LaunchError if any server has ended."""
        for server in self._servers:
            server.check()

    async def while_alive(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of the work; LaunchError, and the work is cancelled, as soon as any server ends.

        A server that ends is also the better explanation where the work fails for want of it.
        """
        task, watch = asyncio.create_task(work), asyncio.create_task(self._watch())
        try:
            await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not task.cancelled() and task.exception() is not None:
                await asyncio.sleep(POLL_S)  # a connection breaks a moment before its process has ended
                self.check()
            return await (task if task.done() else watch)
        finally:
            for started in (task, watch):
                started.cancel()
            await asyncio.gather(task, watch, return_exceptions=True)

    async def _watch(self) -> NoReturn:
        """Never returns; LaunchError as soon as any server ends."""
        while True:
            self.check()
            await asyncio.sleep(POLL_S)

    async def stop(self, servers: Sequence[Server]) -> None:
        """End these servers and everything they started; returns when they are gone."""
        ending = list(reversed(servers))
        try:
            for server in ending:
                server.terminate()
            await _gone(ending, self._grace_s)
        finally:
            # Also where a second Ctrl-C cuts the grace period short: nothing is awaited from here on.
            for server in ending:
                server.kill()
                server.dismiss()
            self._servers = [server for server in self._servers if server not in ending]


async def _gone(servers: Sequence[Server], within_s: float) -> None:
    """Return when all groups are gone, or after the time that they have for it."""
    deadline_s = monotonic() + within_s
    while True:
        left = [server for server in servers if not server.reap()]
        if not left or monotonic() > deadline_s:
            return
        await asyncio.sleep(POLL_S)


def cancel_on_signals() -> None:
    """From now on SIGTERM and SIGHUP end the current task as Ctrl-C does: through the end of every `async with`."""
    task = asyncio.current_task()
    if task is None:
        message = "there is no task to cancel: call this from a coroutine"
        raise RuntimeError(message)
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which nobody listens now, for a server that cannot choose one itself.

    Nothing keeps it: until the server listens another process may be given the same one. The kernel draws from some
    28,000 ports (Linux), so the case is rare; a server that shares its port would not even fail (`vllm.host`).
    """
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def tail(log_path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, or a word that there are none."""
    with log_path.open("rb") as log:
        log.seek(0, os.SEEK_END)
        log.seek(max(0, log.tell() - TAIL_BYTES))
        text = log.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


def exit_words(status: int | None) -> str:
    """An exit status in words: `status 1`, `signal SIGKILL`."""
    if status is None or status >= 0:
        return f"status {status}"
    names = {number.value: number.name for number in signal.Signals}
    return f"signal {names.get(-status, -status)}"


def _parental_bond() -> Callable[[], None] | None:
    """What makes a child end with its parent where the parent has no chance to end it: kill -9, a crash.

    The kernel counts the thread that started the child as its parent: start servers from a thread that lasts.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
