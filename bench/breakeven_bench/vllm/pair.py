"""A real plain engine, a real EAGLE-3 engine and the router in front, on this machine.

Started as users start them and met over HTTP. A pair is handed out only when both engines have answered a completion
(vLLM listens before it can) and the router holds both for ready.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp

from breakeven_bench.fleets import READY_TIMEOUT_S, READY_URL, until_all_serve
from breakeven_bench.launch import Command, Launcher, LaunchError, Server, free_port
from breakeven_bench.vllm import host

ANSWER_TIMEOUT_S = 120.0
"""For the first completion, which finds nothing warm: seconds on idle cores, tens beside another engine's loading."""

LOOK_AGAIN_S = 0.2
"""Between two tries to connect; vLLM listens a moment after its ready line."""

FOUND_TIMEOUT_S = 60.0
"""For the router to find engines that serve already: its first probe does, at once."""

TEMPERATURES = (0.7, 1.2)
"""One on either side of the router's default threshold."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everything listens on loopback; 0: any free one."""

    router: int = 8080
    admin: int = 8081
    baseline: int = 8101
    eagle3: int = 8102


@dataclass(frozen=True, slots=True)
class Pair:
    """What runs: the engines by address, `baseline` first, and the router's two addresses."""

    baseline_url: str
    eagle3_url: str
    router_url: str
    admin_url: str


async def start_pair(
    launcher: Launcher, environment: host.Environment, ports: Ports, say: Callable[[str], None]
) -> Pair:
    """Start everything and wait until it serves; `say` gets a line at each stage. Raises LaunchError."""
    numbers = [port_or_refusal(port) for port in (ports.baseline, ports.eagle3)]
    commands = [
        host.engine_command(environment, "baseline", numbers[0]),
        host.engine_command(environment, "eagle3", numbers[1], speculative=host.EAGLE3),
    ]
    engines = [launcher.start(command) for command in commands]
    say("the engines are loading; this takes half a minute, or two on busy cores ...")
    baseline_url, eagle3_url = await launcher.while_alive(all_answer(engines, say))
    router = launcher.start(router_command(ports, baseline_url, eagle3_url))
    return Pair(baseline_url, eagle3_url, *await all_found(launcher, router))


def router_command(ports: Ports, baseline_url: str, eagle3_url: str) -> Command:
    """The command line of the router, as a user would write it."""
    argv = [sys.executable, "-m", "breakeven", "serve", "--host", host.HOST, "--port", str(ports.router)]
    argv += ["--admin-port", str(ports.admin), "--baseline", baseline_url, "--speculative", eagle3_url]
    return Command("router", argv, READY_URL, READY_TIMEOUT_S)


def curl_line(url: str, temperature: float) -> str:
    """A command that asks a server for a short answer and shows the head, which names the pool."""
    body = json.dumps(
        {
            "model": host.SERVED_MODEL,
            "temperature": temperature,
            "max_tokens": 48,
            "messages": [{"role": "user", "content": "Why is the sky blue?"}],
        }
    )
    return f"curl -i {url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"


def port_or_refusal(port: int) -> int:
    """The port, or a free one for 0; LaunchError where somebody listens there.

    vLLM would not fail: it shares the port (SO_REUSEPORT), and each connection goes to one of the two.
    """
    if port == 0:
        return free_port()
    with socket.socket() as probe:
        if probe.connect_ex((host.HOST, port)) == 0:
            message = f"port {port} is taken, by an engine of another run perhaps: end it, or name another port"
            raise LaunchError(message)
    return port


async def all_answer(engines: Sequence[Server], say: Callable[[str], None]) -> list[str]:
    """The engines' addresses, in their order, once each has answered a completion; LaunchError where one does not."""
    async with aiohttp.ClientSession() as session:
        return list(await asyncio.gather(*(_answers(session, engine, say) for engine in engines)))


async def all_found(launcher: Launcher, router: Server) -> tuple[str, str]:
    """The router's address and its admin port's, once it holds all engines for ready; LaunchError where it does not."""
    url, admin_url = (await router.ready()).groups()
    try:
        async with asyncio.timeout(FOUND_TIMEOUT_S):
            await launcher.while_alive(until_all_serve(admin_url))
    except TimeoutError:
        message = f"{router.command.name} does not find its engines ready within {FOUND_TIMEOUT_S:g} s"
        raise LaunchError(message) from None
    return url, admin_url


async def _answers(session: aiohttp.ClientSession, engine: Server, say: Callable[[str], None]) -> str:
    """The engine's address, once it has answered a completion."""
    url = str((await engine.ready()).group(1))
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await complete(session, url)
    except TimeoutError:
        message = f"{engine.command.name} listens on {url} and answers no completion within {ANSWER_TIMEOUT_S:g} s"
        raise LaunchError(message) from None
    say(f"{engine.command.name} answers on {url}")
    return url


async def complete(session: aiohttp.ClientSession, url: str) -> None:
    """Ask until one token comes back; an answer that is no completion is a LaunchError."""
    body = {"model": host.SERVED_MODEL, "prompt": "The", "max_tokens": 1, "temperature": 0}
    while True:
        try:
            async with session.post(f"{url}/v1/completions", json=body) as answer:
                if answer.status == 200:
                    return
                message = f"{url} answers a completion with {answer.status}: {(await answer.text())[:200]}"
                raise LaunchError(message)
        except aiohttp.ClientConnectionError:
            await asyncio.sleep(LOOK_AGAIN_S)
