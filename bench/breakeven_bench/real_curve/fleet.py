"""Three real engines, and in front of them a router for each: same pools, pinned to one of them.

A router chooses by policy, and no request can name a pool. So that the same request reaches every engine the way a user
would send it, there are as many routers as engines, each of which knows all pools and is pinned to its own.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakeven_bench.fleets import READY_TIMEOUT_S, READY_URL
from breakeven_bench.launch import Command, Launcher, free_port
from breakeven_bench.real_curve.result import BASELINE, GREEDY, PROBABILISTIC
from breakeven_bench.vllm import host
from breakeven_bench.vllm.pair import all_answer, all_found

SPECULATION: Mapping[str, Mapping[str, object] | None] = {
    BASELINE: None,
    GREEDY: host.EAGLE3,
    PROBABILISTIC: {**host.EAGLE3, "draft_sample_method": "probabilistic"},
}
"""The engines by name, with their `--speculative-config`."""

LOOK_INTERVAL_S = 5.0
"""Probes and scrapes: three routers that look at three engines every second would disturb what is timed, and nothing
here fails over."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine: where it listens itself, and where the router that is pinned to it does."""

    name: str
    url: str
    router_url: str


async def start_fleet(
    launcher: Launcher,
    environment: host.Environment,
    folder: Path,
    say: Callable[[str], None],
    arguments: Sequence[str] = (),
) -> tuple[Engine, ...]:
    """Start everything and wait until it serves; `folder` gets the routers' configuration. Raises LaunchError.

    `arguments` go to every engine.
    """
    servers = [
        launcher.start(
            host.engine_command(environment, name, free_port(), speculative=speculation, arguments=arguments)
        )
        for name, speculation in SPECULATION.items()
    ]
    say(f"{len(servers)} engines are loading; this takes a minute, or three on busy cores ...")
    urls = await launcher.while_alive(all_answer(servers, say))
    configuration = folder / "pools.json"
    configuration.write_text(pools(dict(zip(SPECULATION, urls, strict=True))), encoding="utf-8")
    routers = [launcher.start(router_command(name, configuration)) for name in SPECULATION]
    found = [(await all_found(launcher, router))[0] for router in routers]
    return tuple(Engine(*each) for each in zip(SPECULATION, urls, found, strict=True))


def pools(urls: Mapping[str, str]) -> str:
    """The routers' configuration: a pool for each engine, of its name. JSON is YAML."""
    tokens = host.EAGLE3["num_speculative_tokens"]
    speculative = {"kind": "speculative", "method": "eagle3", "speculative_tokens": tokens}
    return json.dumps(
        {
            "pools": [
                {"name": name, "backends": [url], **({"kind": "plain"} if SPECULATION[name] is None else speculative)}
                for name, url in urls.items()
            ]
        },
        indent=1,
    )


def router_command(name: str, configuration: Path) -> Command:
    """The router that sends everything to the pool of that name."""
    argv = [sys.executable, "-m", "breakeven", "serve", "--config", str(configuration), "--policy", f"pinned:{name}"]
    argv += ["--host", host.HOST, "--port", "0", "--admin-port", "0"]
    argv += ["--probe-interval-s", f"{LOOK_INTERVAL_S:g}", "--scrape-interval-s", f"{LOOK_INTERVAL_S:g}"]
    return Command(f"router-{name}", argv, READY_URL, READY_TIMEOUT_S)
