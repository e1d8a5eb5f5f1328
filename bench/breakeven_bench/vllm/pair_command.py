"""`breakeven-bench real-pair`: a real plain and a real EAGLE-3 engine behind the router, on this machine's CPU."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import uvloop

from breakeven_bench import arguments
from breakeven_bench.launch import Launcher, LaunchError, cancel_on_signals
from breakeven_bench.vllm.host import Environment, missing
from breakeven_bench.vllm.pair import TEMPERATURES, Pair, Ports, curl_line, start_pair

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

LOGS = Path("results") / "real-pair"

_NAME = "breakeven-bench real-pair"

_EPILOG = """\
The model has 135 million parameters and the head is a small one of our own: real acceptance that falls with the
temperature, not good answers. Each engine computes with one thread; together they take about 6 GB of memory.

examples:
  breakeven-bench real-pair
      router on 8080 (admin on 8081), engines on 8101 and 8102; Ctrl-C stops everything
  breakeven-bench real-pair --port 0 --admin-port 0 --baseline-port 0 --eagle3-port 0 --seconds 60
      free ports, and the end after a minute: for a script
"""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """The parser of `real-pair`."""
    parser = subparsers.add_parser(
        "real-pair",
        description="Start a real plain and a real EAGLE-3 vLLM engine (SmolLM2-135M) and the router in front.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    default = Ports()
    for flag, port, what in (
        ("--port", default.router, "the router"),
        ("--admin-port", default.admin, "the router's admin page"),
        ("--baseline-port", default.baseline, "the plain engine"),
        ("--eagle3-port", default.eagle3, "the EAGLE-3 engine"),
    ):
        parser.add_argument(flag, type=arguments.port, default=port, help=f"of {what} (%(default)s; 0: any free one)")
    parser.add_argument("--seconds", type=arguments.positive, metavar="S", help="stop by itself after this time")
    parser.add_argument("--logs", type=Path, default=LOGS, metavar="DIR", help="where the logs go (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Run the pair until it is interrupted or its time is over; 0 after its time, 130 after an interrupt."""
    environment = Environment.of(os.environ)
    if problem := missing(environment):
        print(f"{_NAME}: {problem}", file=sys.stderr)
        return EXIT_FAILED
    ports = Ports(args.port, args.admin_port, args.baseline_port, args.eagle3_port)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(environment, ports, args.logs, args.seconds))
    except (LaunchError, OSError) as error:
        print(f"{_NAME}: failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"{_NAME}: interrupted; everything is stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


async def _serve(environment: Environment, ports: Ports, logs: Path, seconds: float | None) -> None:
    cancel_on_signals()
    async with Launcher(logs) as launcher:
        pair = await start_pair(launcher, environment, ports, _say)
        _say("\n".join(introduction(pair, logs)))
        forever = asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await launcher.while_alive(forever.wait())
        except TimeoutError:
            _say(f"{seconds:g} s are over; stopping")


def introduction(pair: Pair, logs: Path) -> list[str]:
    """What there is and how to try it, one line each."""
    return [
        "",
        f"router   {pair.router_url}   (admin {pair.admin_url})",
        f"baseline {pair.baseline_url}",
        f"eagle3   {pair.eagle3_url}",
        f"logs     {logs}",
        "",
        "Up to temperature 1.0 pool speculative (eagle3) serves, above it pool baseline; x-breakeven-pool says which:",
        *(f"  {curl_line(pair.router_url, temperature)}" for temperature in TEMPERATURES),
        "",
        "Ctrl-C stops everything.",
    ]


def _say(line: str) -> None:
    print(line, flush=True)
