"""`breakeven-bench overhead`: what a proxy costs, ours beside those that are installed."""

import argparse
import asyncio
import os
import platform
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import uvloop

from breakeven_bench.arguments import count
from breakeven_bench.launch import Launcher, LaunchError, cancel_on_signals
from breakeven_bench.machine import cpu_name, read_cpuinfo
from breakeven_bench.overhead.loads import LOADS, Load
from breakeven_bench.overhead.measure import MeasureError, measure, start_peers
from breakeven_bench.overhead.peers import Peer, custom_peer, known_peers
from breakeven_bench.overhead.result import OURS, SCHEMA_VERSION, Provenance, Result, decode, encode
from breakeven_bench.overhead.table import sentences, table

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

OUT = Path("results") / "overhead.json"

REFERENCE = "vllm-router"

VERSION_S = 30.0
"""How long a program may take to say its version."""

DESCRIPTORS = 20_000
"""Wanted for each process: 500 streams take a proxy a thousand."""

_NAME = "breakeven-bench overhead"

_EPILOG = """\
Everything runs on this machine: an engine that answers from canned bytes, the clients, and one proxy after the other
between them. What is compared is the CPU that the proxy spends, which says more on a busy machine than time does; leave
the machine alone all the same. HAProxy and vllm-router take part where they are installed
(apt-get install haproxy; pip install vllm-router, into an environment of its own). "direct" is the engine without a
proxy, whose CPU is its own; "bare relay" passes bytes on unread, the least that a proxy in Python can do.

loads: "documents", 64 clients and 6,000 requests with one JSON document each; "streams", 500 streams at once of 50
events, 20 ms apart, more than one core carries; "paced", 200 of 100 events, about half a core. A sentence says less or
more only where every one of at least three rounds does.

examples:
  breakeven-bench overhead
      three rounds, two minutes
  breakeven-bench overhead --rounds 9 --vllm-router ~/venvs/vllm-router/bin/vllm-router
      for a figure to be published
  breakeven-bench overhead --peer 'mine=my-proxy --listen {port} --to http://127.0.0.1:{engine}' --reference mine
      against a proxy of your own
  breakeven-bench overhead --from results/overhead.json
      the table again, without measuring
"""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """The parser of `overhead`."""
    parser = subparsers.add_parser(
        "overhead",
        description="Measure the CPU that a proxy spends per request and per relayed event, and how late events come.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ",".join(load.name for load in LOADS)
    parser.add_argument("--rounds", type=count, default=3, metavar="N", help="through all peers (%(default)s)")
    parser.add_argument("--loads", type=_loads, default=LOADS, metavar="NAMES", help=f"some of {names} (all)")
    parser.add_argument("--haproxy", default=shutil.which("haproxy"), metavar="PATH", help="HAProxy (from PATH)")
    parser.add_argument(
        "--vllm-router", default=shutil.which("vllm-router"), metavar="PATH", help="vllm-router (from PATH)"
    )
    parser.add_argument(
        "--peer",
        type=_peer,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="a further proxy; {port} and {engine} stand for the ports",
    )
    parser.add_argument(
        "--reference", default=REFERENCE, metavar="NAME", help="the peer that ours is compared with (%(default)s)"
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="the result as JSON (%(default)s)")
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="source", help="a result to take; nothing is measured"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, or read what was measured, and show it; 0 whoever is cheaper."""
    try:
        result = _measured(args) if args.source is None else _read(args.source)
    except (LaunchError, MeasureError, OSError, ValueError) as error:
        print(f"{_NAME}: failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"{_NAME}: interrupted; everything is stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    if args.reference not in result.peers():
        print(f"no peer named {args.reference!r} took part, so ours is compared with none")
    print("\n".join(("", table(result), "", *sentences(result, args.reference))))
    return 0


def _read(source: Path) -> Result:
    try:
        return decode(source.read_bytes())
    except (OSError, ValueError) as error:
        message = f"cannot read {source}: {getattr(error, 'strerror', None) or error}"
        raise ValueError(message) from error


def _measured(args: argparse.Namespace) -> Result:
    args.out.parent.mkdir(parents=True, exist_ok=True)
    if args.out.is_dir():
        message = f"{args.out} is a folder"
        raise ValueError(message)
    names = [peer.name for peer in args.peer]
    if len(set(names)) < len(names):
        message = f"two peers have one name: {', '.join(names)}"
        raise ValueError(message)
    peers = known_peers(args.haproxy, args.vllm_router, args.peer)
    for name, path in (("haproxy", args.haproxy), ("vllm-router", args.vllm_router)):
        if path is None:
            print(f"{name} is not installed and takes no part")
    raise_descriptors()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(_measure(peers, args.loads, args.rounds, command_words(args)))
    args.out.write_bytes(encode(result))
    print(f"the result is in {args.out}")
    return result


async def _measure(peers: Sequence[Peer], loads: Sequence[Load], rounds: int, command: str) -> Result:
    cancel_on_signals()
    started, began_s, load_before = datetime.now().astimezone(), perf_counter(), os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="breakeven-overhead-") as folder:
        async with Launcher(Path(folder) / "logs") as launcher:
            running = await start_peers(launcher, peers, Path(folder))
            samples = await launcher.while_alive(measure(running, loads, rounds, _clocked(began_s)))
    provenance = Provenance(
        started_at=started.isoformat(timespec="seconds"),
        took_s=round(perf_counter() - began_s, 1),
        command=command,
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        cpu=cpu_name(read_cpuinfo()),
        versions=_versions(peers),
        load_before=load_before,
    )
    return Result(SCHEMA_VERSION, provenance, tuple(samples))


def raise_descriptors(wanted: int = DESCRIPTORS) -> None:
    """Let this process and its children open more files, as far as the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def command_words(args: argparse.Namespace) -> str:
    """The command line as a person would repeat it: what differs from the defaults, without paths of this machine."""
    words = ["breakeven-bench", "overhead"]
    words += ["--rounds", str(args.rounds)] if args.rounds != 3 else []
    words += ["--loads", ",".join(load.name for load in args.loads)] if args.loads != LOADS else []
    for peer in args.peer:
        words += ["--peer", f"{peer.name}=..."]
    words += ["--reference", args.reference] if args.reference != REFERENCE else []
    return shlex.join(words)


def _versions(peers: Sequence[Peer]) -> dict[str, str]:
    """Ours, Python's and uvloop's, and what the others say of themselves."""
    found = {OURS: version("breakeven"), "Python": platform.python_version(), "uvloop": version("uvloop")}
    for peer in peers:
        if peer.version:
            found[peer.name] = _said(peer.version)
    return found


def _said(command: Sequence[str]) -> str:
    """The first line in which a program tells its version, without addresses."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=VERSION_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    line = said.stdout.strip().partition("\n")[0] if said.returncode == 0 else ""
    return re.sub(r"[ -]*https?://\S+", "", line) or "unknown"


def _loads(text: str) -> tuple[Load, ...]:
    known = {load.name: load for load in LOADS}
    names = text.split(",")
    if unknown := [name for name in names if name not in known]:
        message = f"there is no load {unknown[0]!r}; there are: {', '.join(known)}"
        raise argparse.ArgumentTypeError(message)
    return tuple(known[name] for name in known if name in names)


def _peer(text: str) -> Peer:
    try:
        return custom_peer(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _clocked(began_s: float) -> Callable[[str], None]:
    def say(line: str) -> None:
        print(f"{perf_counter() - began_s:6.0f} s  {line}", flush=True)

    return say
