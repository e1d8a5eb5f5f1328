"""The fleets of a comparison: for each arm two simulated engines and a router of its own, all at once.

Every arm has machines of its own, so that all arms meet the same requests at the same moment: what disturbs this
computer disturbs all of them alike ("duet" benchmarking: Bulej et al., arXiv 2001.05811), and no arm inherits a warm
or a full engine from another. The price is processes; on two cores they need a time scale that leaves them time (see
`demo`).
"""

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from breakeven_bench.arms import Arm
from breakeven_bench.launch import Command, Launcher, LaunchError

READY_TIMEOUT_S = 60.0
"""A Python server is up in a second; eighteen of them on two busy cores need tens."""

READY_URL = re.compile(r"ready on (http://[\w.\[\]:]+:\d+)(?:, admin on (http://[\w.\[\]:]+:\d+))?")
"""What both the simulated engine and the router print once they accept connections; a router names two addresses."""

LOOK_AGAIN_S = 0.1
"""How soon the router is asked again; it probes at once when it starts."""

LOOK_INTERVAL_S = 5.0
"""Probes and scrapes of the routers. Every second, as by default, six routers would take a third of a core for them; a
single router knows its own load exactly, and these engines do not fail.
"""

MODEL = "llama-70b"


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What the simulated engines of all arms have in common; `k` is the number of draft tokens."""

    profile: str
    k: int
    max_num_seqs: int
    time_scale: float
    seed: int


@dataclass(frozen=True, slots=True)
class Fleet:
    """A running arm: where its router listens, and where its engines do."""

    arm: Arm
    router_url: str
    engine_urls: tuple[str, ...]


def engine_command(name: str, settings: EngineSettings, *, speculative: bool) -> Command:
    """The command line of one simulated engine on a free port."""
    argv = [sys.executable, "-m", "breakeven_bench", "engine", "--port", "0", "--model", MODEL]
    argv += ["--profile", settings.profile, "--time-scale", f"{settings.time_scale:g}", "--seed", str(settings.seed)]
    argv += ["--max-num-seqs", str(settings.max_num_seqs)]
    if speculative:
        argv += ["--method", "eagle3", "--k", str(settings.k)]
    return Command(name, argv, READY_URL, READY_TIMEOUT_S)


def router_command(arm: Arm, plain: Sequence[str], speculative: Sequence[str]) -> Command:
    """The command line of the arm's router on free ports. It is started as any user would start it."""
    argv = [sys.executable, "-m", "breakeven", "serve", "--host", "127.0.0.1", "--port", "0", "--admin-port", "0"]
    for url in plain:
        argv += ["--baseline", url]
    for url in speculative:
        argv += ["--speculative", url]
    argv += ["--probe-interval-s", f"{LOOK_INTERVAL_S:g}", "--scrape-interval-s", f"{LOOK_INTERVAL_S:g}"]
    return Command(f"{arm.name}-router", [*argv, "--policy", arm.policy], READY_URL, READY_TIMEOUT_S)


async def start_fleets(launcher: Launcher, arms: Sequence[Arm], settings: EngineSettings) -> tuple[Fleet, ...]:
    """Start the fleets of all arms side by side and wait until they are ready. Raises LaunchError."""
    return tuple(await asyncio.gather(*(_start_fleet(launcher, arm, settings) for arm in arms)))


async def _start_fleet(launcher: Launcher, arm: Arm, settings: EngineSettings) -> Fleet:
    names = [f"{arm.name}-plain-{index}" for index in range(arm.plain)]
    plain = [launcher.start(engine_command(name, settings, speculative=False)) for name in names]
    names = [f"{arm.name}-eagle3-{index}" for index in range(arm.speculative)]
    speculative = [launcher.start(engine_command(name, settings, speculative=True)) for name in names]
    urls = [(await server.ready()).group(1) for server in (*plain, *speculative)]
    router = launcher.start(router_command(arm, urls[: arm.plain], urls[arm.plain :]))
    url, admin_url = (await router.ready()).groups()
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            await launcher.while_alive(until_all_serve(admin_url))
    except TimeoutError:
        message = f"{arm.name}: the router does not find its engines ready within {READY_TIMEOUT_S:g} s"
        raise LaunchError(message) from None
    return Fleet(arm, url, tuple(urls))


async def until_all_serve(admin_url: str) -> None:
    """Ask the router until it holds every engine for ready: one that is not would bend the first seconds of an arm."""
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"{admin_url}/fleet") as answer:
                fleet = await answer.json()
            if all(backend["health"] == "ready" for pool in fleet["pools"] for backend in pool["backends"]):
                return
            await asyncio.sleep(LOOK_AGAIN_S)
