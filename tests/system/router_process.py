"""The router as a process of its own: started as a person would, stopped with a signal, its words on stderr kept."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread

from tests.system.bond import dies_with_us

READY = re.compile(r"breakeven ready on http://127\.0\.0\.1:(\d+), admin on http://127\.0\.0\.1:(\d+)")
STOP_TIMEOUT_S = 20.0


@dataclass
class RouterProcess:
    """A running `breakeven serve`. `lines` is what it has written to stderr so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    port: int = 0
    admin_port: int = 0
    reader: Thread | None = None

    async def all_read(self) -> None:
        """Wait for the last line of a process that has ended."""
        if self.reader is not None:
            await asyncio.to_thread(self.reader.join, STOP_TIMEOUT_S)

    @property
    def url(self) -> str:
        """Where the OpenAI API is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_url(self) -> str:
        """Where metrics and explanations are."""
        return f"http://127.0.0.1:{self.admin_port}"

    def send(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.send(number)
        return self.process.wait(STOP_TIMEOUT_S)


@contextmanager
def router_process(*flags: str, **environment: str) -> Iterator[RouterProcess]:
    """`breakeven serve FLAGS` on free ports of 127.0.0.1, from its ready line until the end of the block."""
    command = [sys.executable, "-m", "breakeven", "serve", "--host", "127.0.0.1", "--port", "0", "--admin-port", "0"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BREAKEVEN_")}
    process = subprocess.Popen(
        [*command, *flags],
        stderr=subprocess.PIPE,
        text=True,
        env={**inherited, **environment},
        preexec_fn=dies_with_us(),  # noqa: PLW1509  # one system call between fork and exec
    )
    router = RouterProcess(process)
    try:
        _await_ready(router)
        router.reader = Thread(target=_keep_reading, args=(router,), daemon=True)
        router.reader.start()
        yield router
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _await_ready(router: RouterProcess) -> None:
    assert router.process.stderr is not None
    for line in router.process.stderr:
        router.lines.append(line)
        found = READY.search(line)
        if found:
            router.port, router.admin_port = int(found[1]), int(found[2])
            return
    message = f"the router ended before it was ready: {''.join(router.lines)}"
    raise AssertionError(message)


def _keep_reading(router: RouterProcess) -> None:
    """Drain the pipe, so that the router never waits for us."""
    assert router.process.stderr is not None
    try:
        for line in router.process.stderr:
            router.lines.append(line)
    except ValueError:
        pass  # Closed at the end of the test.
