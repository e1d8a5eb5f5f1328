"""What can stand between the clients and the engine: nothing, the least, ourselves, and whom we are compared with."""

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakeven_bench.fleets import READY_TIMEOUT_S, READY_URL
from breakeven_bench.launch import Command
from breakeven_bench.overhead.loads import CLIENT_KEY
from breakeven_bench.overhead.result import DIRECT, OURS

KNOWN = (DIRECT, "bare relay", OURS, "haproxy", "vllm-router")

_is_name = re.compile(r"\w[\w .()-]*").fullmatch

_AT_ONCE = re.compile("")
"""Programs that do not say when they are ready are asked by connecting."""

_HAPROXY = """\
global
  nbthread 1
  maxconn 5000
defaults
  mode http
  timeout connect 5s
  timeout client 120s
  timeout server 120s
frontend clients
  bind 127.0.0.1:{own}
  default_backend engine
backend engine
  http-reuse always
  server first 127.0.0.1:{engine}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer finds its engines, where it is to listen, and a folder of its own."""

    engine: int
    second_engine: int
    own: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Peer:
    """A proxy. `command` says how to start it, None: not at all; `says_where`: it chooses its port and tells it."""

    name: str
    command: Callable[[Place], Command] | None
    says_where: bool = False
    version: Sequence[str] = ()


def known_peers(haproxy: str | None, vllm_router: str | None, others: Sequence[Peer] = ()) -> tuple[Peer, ...]:
    """Everything that is to be compared, with the programs that are installed; paths of None are left out."""
    peers = [Peer(DIRECT, None), Peer("bare relay", _bare, says_where=True), Peer(OURS, _ours, says_where=True)]
    if haproxy is not None:
        peers.append(Peer("haproxy", lambda place: _haproxy(haproxy, place), version=(haproxy, "-v")))
    if vllm_router is not None:
        peers.append(
            Peer("vllm-router", lambda place: _vllm_router(vllm_router, place), version=(vllm_router, "--version"))
        )
    return (*peers, *others)


def custom_peer(text: str) -> Peer:
    """A peer out of `NAME=COMMAND`, in which {engine} and {port} stand for ports. ValueError where it is none."""
    name, equals, line = text.partition("=")
    if not (equals and "{engine}" in line and "{port}" in line):
        message = f"expected NAME=COMMAND with {{engine}} and {{port}} in it, got {text!r}"
        raise ValueError(message)
    if not _is_name(name) or name in KNOWN:
        message = (
            f"a name of letters, digits, dots, dashes, blanks and brackets is expected that is not taken, got {name!r}"
        )
        raise ValueError(message)

    def command(place: Place) -> Command:
        words = shlex.split(line.replace("{engine}", str(place.engine)).replace("{port}", str(place.own)))
        return Command(name, words, _AT_ONCE, READY_TIMEOUT_S)

    return Peer(name, command)


def canned_engine(name: str) -> Command:
    """An engine of `canned`."""
    return _module(name, "breakeven_bench.overhead.canned")


def _bare(place: Place) -> Command:
    return _module("bare", "breakeven_bench.overhead.bare", str(place.engine))


def _ours(place: Place) -> Command:
    """With an access log, a journal and a key; the load's temperature sends everything to the first engine."""
    argv = ["serve", "--host", "127.0.0.1", "--port", "0", "--admin-port", "0"]
    argv += ["--speculative", f"http://127.0.0.1:{place.engine}"]
    argv += ["--baseline", f"http://127.0.0.1:{place.second_engine}"]
    argv += ["--access-log", str(place.folder / "access.jsonl"), "--journal", str(place.folder / "journal.jsonl")]
    argv += ["--api-keys", f"load={CLIENT_KEY}"]
    return _module("breakeven", "breakeven", *argv)


def _haproxy(program: str, place: Place) -> Command:
    config = place.folder / "haproxy.cfg"
    config.write_text(_HAPROXY.format(own=place.own, engine=place.engine))
    return Command("haproxy", [program, "-db", "-f", str(config)], _AT_ONCE, READY_TIMEOUT_S)


def _vllm_router(program: str, place: Place) -> Command:
    argv = [program, "--worker-urls", f"http://127.0.0.1:{place.engine}", "--policy", "round_robin"]
    argv += ["--host", "127.0.0.1", "--port", str(place.own)]
    return Command("vllm-router", argv, _AT_ONCE, READY_TIMEOUT_S)


def _module(name: str, module: str, *arguments: str) -> Command:
    return Command(name, [sys.executable, "-m", module, *arguments], READY_URL, READY_TIMEOUT_S)
