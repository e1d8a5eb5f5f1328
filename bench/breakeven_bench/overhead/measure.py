"""Runs the loads through all peers, round by round, and reads what each peer spent."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from breakeven_bench.launch import Launcher, LaunchError, free_port
from breakeven_bench.overhead.loads import Load
from breakeven_bench.overhead.peers import Peer, Place, canned_engine
from breakeven_bench.overhead.process_cpu import usage
from breakeven_bench.overhead.result import Sample, Visit

LOOK_AGAIN_S = 0.1

SETTLING_S = 3.0
"""Before the first round: routers probe their engines, and what a process does once it has then done."""


class MeasureError(Exception):
    """The clients of a load could not run."""


@dataclass(frozen=True, slots=True)
class Running:
    """A peer that listens."""

    name: str
    port: int
    pid: int


async def start_peers(launcher: Launcher, peers: Sequence[Peer], folder: Path) -> list[Running]:
    """Start two engines and all peers in front of them; each listens. Raises LaunchError."""
    engines = [launcher.start(canned_engine(name)) for name in ("engine", "second-engine")]
    ports = [_port((await engine.ready()).group(1)) for engine in engines]
    running = []
    for peer in peers:
        if peer.command is None:
            running.append(Running(peer.name, ports[0], engines[0].pid))
            continue
        own = folder / peer.name.replace(" ", "-")
        own.mkdir()
        place = Place(ports[0], ports[1], free_port(), own)
        server = launcher.start(peer.command(place))
        ready = await server.ready()
        port = _port(ready.group(1)) if peer.says_where else place.own
        await launcher.while_alive(until_accepts(peer.name, port, server.command.ready_timeout_s))
        running.append(Running(peer.name, port, server.pid))
    await launcher.while_alive(asyncio.sleep(SETTLING_S))
    return running


async def measure(
    running: Sequence[Running], loads: Sequence[Load], rounds: int, say: Callable[[str], None]
) -> list[Sample]:
    """Every load through every peer in each round, beginning with another peer each time. Raises MeasureError."""
    samples = []
    for number in range(rounds):
        first = number % len(running)
        for peer in (*running[first:], *running[:first]):
            samples += [await sample(peer, load, number) for load in loads]
        say(f"round {number + 1} of {rounds}")
    return samples


async def sample(peer: Running, load: Load, number: int) -> Sample:
    """One load through one peer."""
    before = usage(peer.pid)
    visit = await visited(peer.port, load)
    after = usage(peer.pid)
    spent_us = (after.cpu_s - before.cpu_s) / load.units * 1e6
    return Sample(peer.name, load.name, number, round(spent_us, 2), round(after.resident_bytes / 1e6, 1), visit)


async def visited(port: int, load: Load) -> Visit:
    """What the clients saw. MeasureError where they could not run."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "breakeven_bench.overhead.visitor", str(port), load.name,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, err = await process.communicate()
    except BaseException:  # an interruption is none of ours to keep, and the clients must not outlive it
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        message = f"the clients of {load.name} ended with status {process.returncode}:\n{err.decode(errors='replace')}"
        raise MeasureError(message)
    return msgspec.json.decode(out, type=Visit)


async def until_accepts(name: str, port: int, within_s: float) -> None:
    """Wait until somebody listens. LaunchError where nobody does in time."""
    try:
        async with asyncio.timeout(within_s):
            while not await _accepts(port):  # noqa: ASYNC110  # a port tells nobody that it was opened
                await asyncio.sleep(LOOK_AGAIN_S)
    except TimeoutError:
        message = f"{name} does not listen on port {port} after {within_s:g} s"
        raise LaunchError(message) from None


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _port(url: str) -> int:
    return int(url.rpartition(":")[2])
