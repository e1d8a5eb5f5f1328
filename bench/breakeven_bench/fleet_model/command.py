"""`breakeven-bench simulate`: what each way of routing makes of a fleet, without engines, in minutes not days."""

import argparse
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from datetime import date
from importlib.metadata import version
from itertools import chain
from multiprocessing import active_children, get_context
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn, TypeVar

from breakeven_bench.arguments import count, rates
from breakeven_bench.fleet_model.arms import Arm, arms_of, scenarios_of
from breakeven_bench.fleet_model.outcome import Outcome
from breakeven_bench.fleet_model.page import page, replaced
from breakeven_bench.fleet_model.pairs import PAIRS, Pair
from breakeven_bench.fleet_model.result import (
    SCHEMA_VERSION,
    Capacity,
    Provenance,
    Study,
    decode,
    encode,
    row_of,
    together,
)
from breakeven_bench.fleet_model.study import CapacityCell, Cell, Extent, capacity, run_cell
from breakeven_bench.fleet_model.trace import read_trace
from breakeven_bench.fleet_model.traffic import Asked
from breakeven_bench.fleet_model.worlds import WORLDS

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

ALL = "all"

SAY_EVERY_S = 10.0

TRACE_RATES = (0.5, 1.5, 3.0)
"""Requests per second for two engines: idle, busy, and nearly all that the best fleet carries of such long prompts."""

SCENARIO_WORLD = "falls"
"""The world of traces and of worse conditions: the user's."""

TRACE_REQUESTS_MAX = 20_000
"""More than the hour of the published trace holds."""

_NAME = "breakeven-bench simulate"

_EPILOG = """\
An arm is a fleet and a way of routing on it; every arm of a cell gets the same requests. A mean is shown only where it
does not grow with the length of the run. "told" arms know the true step times, acceptances and answer lengths, which no
router does; "all plain", "all k=3" and "all dynamic" are the same number of engines without a split.

pairs:  plain-k5, plain-k3, plain-dynamic, two-k3, four-pools
worlds: falls (acceptance falls with temperature), flat, domain (by kind of text), drifts, long (a quarter of prompts of
        3,000 tokens)

examples:
  breakeven-bench simulate
      plain + k=5 where acceptance falls with temperature, at eight rates
  breakeven-bench simulate --pair all --world falls,flat --rates 4,8
      more fleets, fewer rates
  breakeven-bench simulate --pair plain-k3 --arms threshold,least-loaded --capacity
      and the highest rate that each carries: 95 % within 2 s to the first token and 50 ms per token
  breakeven-bench simulate --trace trace.csv --world falls
      the requests of a production trace (TIMESTAMP,ContextTokens,GeneratedTokens), stretched to each rate
  breakeven-bench simulate --from docs/data/policies/*.json
      the tables of results, without simulating
"""

Answer = TypeVar("Answer")


class SimulateError(Exception):
    """Told in one line."""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """The parser of `simulate`."""
    parser = subparsers.add_parser(
        "simulate",
        description="Simulate fleets under load and compare ways of routing on them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--pair", type=_pairs, default="plain-k5", metavar="NAMES", help="fleets, or all (%(default)s)")
    parser.add_argument("--world", type=_worlds, default="falls", metavar="NAMES", help="worlds, or all (%(default)s)")
    parser.add_argument("--rates", type=rates, metavar="R,R,...", help="requests/s per two engines (eight, 0.5 to 12)")
    parser.add_argument("--arms", type=_names, metavar="NAMES", help="some of the arms (all)")
    parser.add_argument(
        "--requests", type=count, default=1000, metavar="N", help="three times so many are judged (%(default)s)"
    )
    parser.add_argument("--warm-up", type=count, default=1000, metavar="N", help="after so many others (%(default)s)")
    parser.add_argument("--seed", type=count, default=1, metavar="N", help="of everything drawn (%(default)s)")
    parser.add_argument("--capacity", action="store_true", help="also seek the highest rate that each arm carries")
    parser.add_argument(
        "--scenarios",
        action="store_true",
        help="also breakeven without a table, with a wrong one, and in four replicas (in the world falls)",
    )
    parser.add_argument("--trace", type=Path, metavar="FILE", help="also simulate the requests of this trace")
    parser.add_argument("--jobs", type=count, default=2, metavar="N", help="processes (%(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the result as JSON")
    parser.add_argument("--page", type=Path, metavar="FILE", help="renew the tables between the markers of this page")
    parser.add_argument(
        "--from", type=Path, nargs="+", metavar="FILE", dest="source", help="show these results; simulate nothing"
    )


def run(args: argparse.Namespace) -> int:
    """Simulate, or read what was, and show it; 0 whoever is faster."""
    before = signal.signal(signal.SIGTERM, _interrupt)  # else the workers would be left behind
    try:
        study = together(decode(source.read_bytes()) for source in args.source) if args.source else _simulated(args)
        text = page(study)
        if args.page is not None:
            args.page.write_text(replaced(args.page.read_text(encoding="utf-8"), text), encoding="utf-8")
    except (SimulateError, OSError, ValueError) as error:
        print(f"{_NAME}: failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print(f"{_NAME}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    print(text)
    return 0


def _interrupt(number: int, frame: object) -> NoReturn:  # noqa: ARG001  # the signature of a handler
    raise KeyboardInterrupt


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _simulated(args: argparse.Namespace) -> Study:
    extent = Extent(args.requests, args.warm_up, args.seed)
    arms = {pair.name: _arms(pair, args.arms) for pair in args.pair}
    if not any(arms.values()):
        known = dict.fromkeys(arm.name for pair in args.pair for arm in arms_of(pair))
        message = f"no arm of that name; there are: {', '.join(known)}"
        raise SimulateError(message)
    trace = None if args.trace is None else _trace(args.trace)
    places = list(_places(args, arms))
    cells = list(dict.fromkeys(cell for _, _, cell in places))
    asked = _capacities(args, arms) if args.capacity else []
    sought = list(dict.fromkeys(cell for _, cell in asked))
    with ProcessPoolExecutor(args.jobs, get_context("spawn"), _leave_interrupts_to_the_parent) as workers:
        try:
            outcomes, capacities = _work(workers, cells, sought, extent, trace)
        except BaseException:  # an interruption too: a cell may take minutes, and nobody waits for it any more
            for worker in active_children():
                worker.terminate()
            workers.shutdown(cancel_futures=True)
            raise
    rows = [row_of(place, rate, cell.arm.name, outcomes[cell]) for place, rate, cell in places]
    carried = [Capacity(pair, cell.world, cell.arm.name, round(capacities[cell], 3)) for pair, cell in asked]
    titles = {pair.name: pair.title for pair in args.pair}
    titles |= {arm.name: arm.title for each in arms.values() for arm in each}
    titles |= {arm.name: arm.title for pair in args.pair for arm in scenarios_of(pair)} if args.scenarios else {}
    study = Study(SCHEMA_VERSION, (_provenance(args),), titles, tuple(rows), tuple(carried))
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_bytes(encode(study))
        print(f"the result is in {args.out}", file=sys.stderr)
    return study


def _places(
    args: argparse.Namespace, arms: dict[str, tuple[Arm, ...]]
) -> Iterator[tuple[tuple[str, str, str], float, Cell]]:
    """Every row of the result with its cell; several rows may show one cell."""
    for pair in args.pair:
        scale = pair.engines / 2
        mixed = pair.rates if args.rates is None else tuple(rate * scale for rate in args.rates)
        traced = tuple(rate * scale for rate in (TRACE_RATES if args.rates is None else args.rates))
        for world in args.world:
            worse = scenarios_of(pair) if args.scenarios and world == SCENARIO_WORLD else ()
            for rate in mixed:
                for arm in (*arms[pair.name], *worse):
                    yield (pair.name, world, "mixed"), rate, Cell(arm, world, rate)
        if args.trace is not None and SCENARIO_WORLD in args.world:
            for rate in traced:
                for arm in arms[pair.name]:
                    yield (pair.name, SCENARIO_WORLD, "trace"), rate, Cell(arm, SCENARIO_WORLD, rate, trace=True)


def _capacities(args: argparse.Namespace, arms: dict[str, tuple[Arm, ...]]) -> list[tuple[str, CapacityCell]]:
    return [
        (pair.name, CapacityCell(arm, world)) for pair in args.pair for world in args.world for arm in arms[pair.name]
    ]


def _work(
    workers: ProcessPoolExecutor,
    cells: Sequence[Cell],
    sought: Sequence[CapacityCell],
    extent: Extent,
    trace: list[Asked] | None,
) -> tuple[dict[Cell, Outcome], dict[CapacityCell, float]]:
    # What takes longest first, so that no process is left alone with it at the end.
    seeking = {workers.submit(capacity, cell, extent): cell for cell in sought}
    running = {workers.submit(run_cell, cell, extent, trace if cell.trace else None): cell for cell in cells}
    _wait([*seeking, *running])
    return (
        {cell: future.result() for future, cell in running.items()},
        {cell: future.result() for future, cell in seeking.items()},
    )


def _wait(futures: "Sequence[Future[Any]]") -> None:
    """Until all are done, with a word about it now and then; the first failure is raised at once."""
    began_s = said_s = perf_counter()
    for done, future in enumerate(as_completed(futures), start=1):
        future.result()
        now_s = perf_counter()
        if now_s - said_s >= SAY_EVERY_S:
            said_s = now_s
            left_s = (now_s - began_s) / done * (len(futures) - done)
            print(f"{done} of {len(futures)} simulated, about {left_s:.0f} s to go", file=sys.stderr, flush=True)


def _trace(path: Path) -> list[Asked]:
    with path.open(encoding="utf-8") as lines:
        return read_trace(lines, TRACE_REQUESTS_MAX)


def _provenance(args: argparse.Namespace) -> Provenance:
    words = ["breakeven-bench", "simulate", "--pair", ",".join(pair.name for pair in args.pair)]
    words += ["--world", ",".join(args.world)]
    words += ["--rates", ",".join(f"{rate:g}" for rate in args.rates)] if args.rates else []
    words += ["--arms", ",".join(args.arms)] if args.arms else []
    words += ["--requests", str(args.requests), "--warm-up", str(args.warm_up), "--seed", str(args.seed)]
    words += ["--scenarios"] * args.scenarios
    words += ["--capacity"] * args.capacity
    trace = args.trace.name if args.trace is not None and SCENARIO_WORLD in args.world else None
    words += ["--trace", trace] if trace else []
    today = date.today().isoformat()  # noqa: DTZ011  # a day on a page
    return Provenance(shlex.join(words), version("breakeven"), today, args.requests, args.warm_up, args.seed, trace)


def _arms(pair: Pair, wanted: tuple[str, ...] | None) -> tuple[Arm, ...]:
    return tuple(arm for arm in arms_of(pair) if wanted is None or arm.name in wanted)


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _pairs(text: str) -> tuple[Pair, ...]:
    return tuple(PAIRS[name] for name in _known(text, PAIRS, "pair"))


def _worlds(text: str) -> tuple[str, ...]:
    return _known(text, WORLDS, "world")


def _known(text: str, table: dict[str, Any], what: str) -> tuple[str, ...]:
    names = tuple(table) if text == ALL else _names(text)
    for name in names:
        if name not in table:
            message = f"there is no {what} {name!r}; there are: {', '.join(chain(table, (ALL,)))}"
            raise argparse.ArgumentTypeError(message)
    return names
