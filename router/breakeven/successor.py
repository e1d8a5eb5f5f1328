"""A process that is started to take the place of this one, at the same listening sockets.

It runs the same command, so that it is whatever is installed now, with whatever configuration there is now. It is
no child process of asyncio's: those are killed where the loop that started them ends, and this one is to stay.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

READY_WITHIN_S = 60.0
"""A start takes a second of a core, the engines up to ten; a machine that is busy takes several times as long."""

SETTLED_S = 1.0
"""What dies of its first requests does so within that, and until then nothing has been given up."""

END_WITHIN_S = 5.0
"""Between SIGTERM and SIGKILL for one that is not wanted any more: it has hardly begun to serve."""

SAID_BYTES_MAX = 64
"""More than it has to say."""

STARTER = (sys.executable, "-P", "-m", "breakeven.exec_with_sockets")
"""-P: the folder in which the router happens to be started is no place to import from."""


class NoSuccessorError(Exception):
    """Nobody takes over; the message is one line."""


class Successor:
    """The process, and our end of the pair on which it says that it is ready."""

    def __init__(self, process: subprocess.Popen[bytes], hearing: socket.socket) -> None:
        self._process = process
        self._hearing = hearing
        self.pid = process.pid

    async def ready(self, within_s: float = READY_WITHIN_S) -> None:
        """Wait until it serves, and has for a moment; NoSuccessorError where it does not."""
        try:
            said = await self._heard(within_s)
        except TimeoutError:
            message = f"process {self.pid} was not ready within {within_s:g} s"
            raise NoSuccessorError(message) from None
        when = "before it served"
        if said:
            when = "when it had just begun to serve"
            try:
                await self._heard(SETTLED_S)  # it has no more to say: this is its end
            except TimeoutError:
                return
        code = await self._code()
        how = "does not serve" if code is None else f"ended with {code} {when}"
        message = f"process {self.pid} {how}, see above"
        raise NoSuccessorError(message)

    async def _heard(self, within_s: float) -> bytes:
        async with asyncio.timeout(within_s):
            return await asyncio.get_running_loop().sock_recv(self._hearing, SAID_BYTES_MAX)

    async def end(self) -> None:
        """It is not wanted any more."""
        self._process.terminate()
        if await self._code() is None:
            self._process.kill()
            await self._code()

    def close(self) -> None:
        """Nothing more is heard of it."""
        self._hearing.close()

    async def _code(self) -> int | None:
        """Its exit code; None where it goes on."""
        with suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(self._process.wait, END_WITHIN_S)
        return None


def start_successor(
    command: Sequence[str], sockets: Sequence[tuple[str, socket.socket]], environment: Mapping[str, str]
) -> Successor:
    """Run the command with these sockets, each with its name. OSError where no process can be had."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    descriptors = [each.fileno() for _, each in sockets] + [theirs.fileno()]
    names = ":".join(name for name, _ in sockets)
    try:
        with theirs:
            process = subprocess.Popen(  # noqa: S603  # the command by which the router was started
                [*STARTER, names, ",".join(map(str, descriptors)), *command],
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
                env=environment,
            )
    except OSError:
        ours.close()
        raise
    return Successor(process, ours)


def this_command(arguments: Sequence[str] = tuple(sys.orig_argv), executable: str = sys.executable) -> list[str]:
    """How this process was started. A script is run by its own first line: an upgrade may have exchanged its Python."""
    rest = list(arguments[1:])
    is_script = bool(rest) and not rest[0].startswith("-") and os.access(rest[0], os.X_OK) and Path(rest[0]).is_file()
    return [str(Path(rest[0]).absolute()), *rest[1:]] if is_script else [executable, *rest]
