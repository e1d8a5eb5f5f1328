"""The router as a subprocess: started from a settings dictionary, read through its log, its metrics and its fleet."""

import asyncio
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.field.client import PATIENCE_S, Client, Reply
from tests.system.bond import dies_with_us

START_S = 90.0
STOP_S = 10.0
POLL_S = 0.02
QUICK = {
    "host": "127.0.0.1",
    "admin_host": "127.0.0.1",
    "probe_interval_s": 0.2,
    "scrape_interval_s": 0.5,
    "models_interval_s": 0.5,
    "drain_timeout_s": 0.5,
    "access_log": "stderr",
    "engine_failures_max": 0,
}
"""Settings of a test router: probes quick, so that a backend that a test shot is back soon after; and no backend is
ejected for what one test after the other does to it.
"""

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def unused_ports(count: int) -> list[int]:
    """Loopback ports that were free a moment ago."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


async def until(condition: Callable[[], Awaitable[Any]], what: str, deadline_s: float = PATIENCE_S) -> Any:
    """Ask another process again and again until it says yes: the one case with no event to wait for."""
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + deadline_s
    while not (found := await condition()):
        assert loop.time() < give_up_s, f"not within {deadline_s:g} s: {what}"
        await asyncio.sleep(POLL_S)
    return found


def total(samples: Samples, name: str, **labels: str) -> float:
    """Sum of the samples of that name that carry these labels."""
    wanted = set(labels.items())
    return sum(value for (each, have), value in samples.items() if each == name and wanted <= have)


class Router:
    """One `breakeven serve`."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self.port, self.admin_port = unused_ports(2)
        self.folder = folder
        self.settings = {**QUICK, "port": self.port, "admin_port": self.admin_port, **settings}
        self.run_by: tuple[str, ...] = ()
        """What runs its command; must become the router in the end."""
        self.pass_fds: tuple[int, ...] = ()
        """Descriptors that it inherits."""
        self.log: list[str] = []
        self._process: asyncio.subprocess.Process | None = None
        self._pumps: list[asyncio.Task[None]] = []
        self._listening = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start and wait until it listens."""
        config = self.write()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BREAKEVEN_")}
        command = [*self.run_by, sys.executable, "-m", "breakeven", "serve", "--config", str(config)]
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *command, stdout=pipe, stderr=pipe, env=environment, preexec_fn=dies_with_us(), pass_fds=self.pass_fds
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._pumps = [asyncio.create_task(self._pump(out)) for out in (self._process.stdout, self._process.stderr)]
        await self._wait_listening()

    def write(self) -> Path:
        """Write the settings into the file that the router reads."""
        config = self.folder / f"router-{self.port}.yaml"
        config.write_text(json.dumps(self.settings))  # JSON is YAML
        return config

    def hang_up(self) -> None:
        """Have it read that file again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    async def _wait_listening(self) -> None:
        assert self._process is not None
        listening = asyncio.create_task(self._listening.wait())
        ended = asyncio.create_task(self._process.wait())
        await asyncio.wait({listening, ended}, timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
        ok = listening.done()
        for task in (listening, ended):
            task.cancel()
        assert ok, "the router did not start:\n" + "\n".join(self.log)

    async def _pump(self, out: asyncio.StreamReader) -> None:
        while line := await out.readline():
            self.log.append(line.decode("utf-8", "replace").rstrip())
            if "ready on" in self.log[-1]:
                self._listening.set()

    async def stop(self) -> None:
        """Stop, by force if need be; a traceback in the log is a failure of the module."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_S)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        await asyncio.gather(*self._pumps)
        text = "\n".join(self.log)
        assert "Traceback" not in text, text[-4000:]

    async def kill_only_the_first(self) -> None:
        """Kill the process that was started, and none that it has started itself: those keep our pipes open."""
        assert self._process is not None
        self._process.kill()
        await self._process.wait()

    async def kill(self) -> None:
        """Make sure that nothing is left, whatever happened."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        await asyncio.gather(*self._pumps)

    async def get(self, path: str, *, admin: bool = False, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
        """GET a path of either plane."""
        async with await Client.connect(self.admin_port if admin else self.port) as client:
            return await client.ask(None, method="GET", path=path, headers=(*headers, ("Connection", "close")))

    async def ready(self) -> bool:
        """Whether /ready says yes."""
        return (await self.get("/ready")).status == 200

    async def samples(self, of: str = "") -> Samples:
        """The samples of /metrics by name and labels, which must parse; with `of`, of that one metric only."""
        lines = (await self.get("/metrics", admin=True)).body.decode().splitlines(keepends=True)
        families = text_string_to_metric_families("".join(line for line in lines if of in line))
        return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}

    async def backends(self) -> dict[str, dict[str, Any]]:
        """Every backend by name, as /fleet shows it."""
        fleet = (await self.get("/fleet", admin=True)).json()
        return {backend["name"]: backend for pool in fleet["pools"] for backend in pool["backends"]}

    async def health_of(self) -> dict[str, str]:
        """The health of every backend, by name."""
        return {name: backend["health"] for name, backend in (await self.backends()).items()}

    async def settled(self, *names: str, listed: bool = True) -> None:
        """Wait until these backends (all, if none is named) are ready and, with `listed`, their models known."""

        async def all_ready() -> bool:
            backends = await self.backends()
            chosen = [backends[name] for name in names or backends]
            return all(each["health"] == "ready" and (each["models"] is not None or not listed) for each in chosen)

        await until(all_ready, f"backends ready: {names or 'all'}")

    async def lost(self, name: str) -> None:
        """Wait until that backend is known not to be ready."""

        async def out() -> bool:
            return (await self.health_of())[name] != "ready"

        await until(out, f"backend {name} out")

    async def logged(self, pattern: str) -> str:
        """Wait for a log line that matches; lines of earlier tests count too."""

        async def line() -> str | None:
            return next((line for line in self.log if re.search(pattern, line)), None)

        found: str = await until(line, f"log line {pattern!r}")
        return found
