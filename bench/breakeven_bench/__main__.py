"""The command line `breakeven-bench`: a table of subcommands, each in a module of its own.

A module is imported only when its subcommand is called, so that `--help` needs none of them. It has two functions,
`add_parser(subparsers)`, which adds the parser of the same name, and `run(args) -> int`, which returns the exit status.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn, Protocol, cast

EXIT_USAGE = 2

_DESCRIPTION = "Engines without a GPU, load, and what they show together. Each command has a --help of its own."


@dataclass(frozen=True, slots=True)
class Subcommand:
    """One line of `breakeven-bench --help`, and where its code is."""

    module: str
    summary: str


SUBCOMMANDS: dict[str, Subcommand] = {
    "engine": Subcommand("breakeven_bench.engine_command", "run a simulated vLLM engine over real HTTP"),
    "load": Subcommand("breakeven_bench.load_command", "send a workload to a server and record every request"),
    "launch-files": Subcommand(
        "breakeven_bench.vllm.launch_files_command", "write or check the launch files of the real fleet"
    ),
    "demo": Subcommand("breakeven_bench.demo", "simulated engines, the router and a mixed load: what routing gains"),
    "overhead": Subcommand("breakeven_bench.overhead.command", "what a proxy costs: ours beside those installed"),
    "simulate": Subcommand("breakeven_bench.fleet_model.command", "policies on simulated fleets, at many rates"),
    "replay": Subcommand("breakeven_bench.replay.command", "decide the lines of a journal again under other policies"),
    "install-vllm": Subcommand("breakeven_bench.vllm.install_command", "install real vLLM on this CPU, apart from all"),
    "real-pair": Subcommand("breakeven_bench.vllm.pair_command", "a real plain and a real EAGLE-3 engine, the router"),
    "real-curve": Subcommand("breakeven_bench.real_curve.command", "measure where speculation pays on real engines"),
}


class SubcommandModule(Protocol):
    """What a module of the table offers."""

    def add_parser(self, subparsers: "argparse._SubParsersAction[Any]") -> None:
        """Add the parser."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; returns the exit status."""


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line, without repeating the usage."""

    def error(self, message: str) -> NoReturn:
        """Exit with status 2."""
        self.exit(EXIT_USAGE, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = OneLineParser(prog="breakeven-bench", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"breakeven-bench {version('breakeven')}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    called = arguments[0] if arguments and arguments[0] in SUBCOMMANDS else None
    if called is None:
        for name, subcommand in SUBCOMMANDS.items():
            subparsers.add_parser(name, help=subcommand.summary)
        parser.parse_args(arguments)
        parser.error("the command must come first")
    try:
        module = cast("SubcommandModule", import_module(SUBCOMMANDS[called].module))
    except ModuleNotFoundError as error:
        return _missing(called, error)
    module.add_parser(subparsers)
    return module.run(parser.parse_args(arguments))


def _missing(called: str, error: ModuleNotFoundError) -> int:
    """Tell which package a subcommand lacks; a module of our own that is missing is a fault of this installation."""
    missing = error.name or ""
    if missing.partition(".")[0] == __package__:
        raise error
    hint = "pip install 'breakeven[bench]'"
    print(f"breakeven-bench {called}: error: it needs the package {missing!r}: {hint}", file=sys.stderr)
    return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
