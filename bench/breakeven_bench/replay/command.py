"""`breakeven-bench replay`: what another policy would have decided, from journals of the router."""

import argparse
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from breakeven_bench.replay.decisions import WRITTEN, Contestant, Replay, Writers
from breakeven_bench.replay.journal_files import Lines, journal_files
from breakeven_bench.replay.report import agreement_share, to_json, to_markdown
from breakeven_policies.measured import Table, parse_table
from breakeven_policies.policy import Policy
from breakeven_policies.registry import build_policy, policy_names

EXIT_DISAGREES = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

SHOW_EVERY = 500
"""Lines between two movements of the bar: some 50 ms."""

_NAME = "breakeven-bench replay"

_EPILOG = """\
A journal (breakeven serve --journal FILE) is read with the files that it was turned over to (FILE.1, FILE.2.gz), oldest
first; a folder stands for journal.jsonl in it. Policies that learn begin with nothing, or with --table, and learn from
the journal's own outcomes. Only lines of policies that do not learn can be expected to agree in full. Lines that
cannot be read are passed over and counted. Exit status: 0, 1 where less agreement was found than expected or no line
could be read, 2 for what cannot be used.

examples:
  breakeven-bench replay journal.jsonl --policy least_loaded --policy breakeven
      what either would have done
  breakeven-bench replay /var/log/breakeven --expect-agreement 1
      does every line decide again what was decided? a check of an upgrade
  breakeven-bench replay a.jsonl b.jsonl --policy threshold:0.8 --pools --expect-agreement 0.99 --json replay.json
      a gate for continuous integration
"""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """Add the parser."""
    parser = subparsers.add_parser(
        "replay",
        help="decide the lines of a journal again under other policies",
        description="Decide the lines of a journal again under other policies, and say where they differ.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("journals", metavar="JOURNAL", nargs="+", type=Path, help="file, or folder with journal.jsonl")
    parser.add_argument(
        "--policy",
        dest="policies",
        action="append",
        metavar="POLICY",
        help=f"{', '.join(policy_names())}, each with its argument; repeat it (default: whichever wrote each line)",
    )
    parser.add_argument(
        "--threshold", type=float, default=1.0, help="temperature of `threshold` without an argument (default 1.0)"
    )
    parser.add_argument(
        "--table", dest="tables", action="append", type=Path, default=[], metavar="FILE",
        help="measured table that pools of its kind, method and number of drafts begin with; repeat it",
    )  # fmt: skip
    parser.add_argument(
        "--expect-agreement", type=share, metavar="SHARE", help="fail below this share of lines, for every policy"
    )
    parser.add_argument("--pools", action="store_true", help="expect the same pool only, not the same engine")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there as JSON, too")


def share(text: str) -> float:
    """A number from 0 to 1."""
    value = float(text)
    if not 0.0 <= value <= 1.0:
        message = f"a share between 0 and 1 is expected, got {text}"
        raise argparse.ArgumentTypeError(message)
    return value


def run(args: argparse.Namespace) -> int:
    """Replay and print; the exit status."""
    try:
        lines = Lines([file for journal in args.journals for file in journal_files(journal)])
        tables = tuple(map(_table, args.tables))
        replay = Replay(tuple(Contestant(policy) for policy in _policies(args.policies, args.threshold)), tables)
        _work(replay, lines)
        if args.json is not None:
            args.json.write_bytes(to_json(replay))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        print(f"{_NAME}: error: {_told(error)}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        print(f"{_NAME}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(to_markdown(replay, tables=bool(tables)), end="")
    return _verdict(replay, args.expect_agreement, of_pools=args.pools)


def _policies(specs: list[str] | None, threshold: float) -> Iterator[Policy | Writers]:
    for spec in dict.fromkeys(specs or [WRITTEN]):
        yield Writers(threshold) if spec == WRITTEN else build_policy(spec, threshold)


def _table(path: Path) -> Table:
    try:
        return parse_table(path.read_bytes())
    except ValueError as error:
        message = f"{path}: {error}"
        raise ValueError(message) from None


def _work(replay: Replay, lines: Lines) -> None:
    """Decide all, with a bar on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.fields[decided]:,} decisions"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=lines.total_bytes, decided=0)
        for decided in replay.run(lines):
            if decided % SHOW_EVERY == 0:
                progress.update(bar, completed=lines.read_bytes, decided=decided)


def _verdict(replay: Replay, expected: float | None, *, of_pools: bool) -> int:
    """The exit status; a gate that has seen nothing does not open."""
    if replay.entries == 0:
        print(f"{_NAME}: failed: no line could be read", file=sys.stderr)
        return EXIT_DISAGREES
    code = 0
    for contestant in replay.contestants:
        found = agreement_share(contestant.tally, of_pools=of_pools) or 0.0
        if expected is not None and found < expected:
            told = f"{contestant.name} agrees with {found:.2%} of the lines, {expected:.2%} are expected"
            print(f"{_NAME}: failed: {told}", file=sys.stderr)
            code = EXIT_DISAGREES
    return code


def _told(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
