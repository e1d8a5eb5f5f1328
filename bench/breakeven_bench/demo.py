"""`breakeven-bench demo`: what routing gains and where it loses, on simulated engines, for anybody without a GPU.

Six arms, each with two simulated engines and a router of its own, get the same mixed load at the same time, at a low, a
middle and a high rate. What it shows is computed from what came back; nothing about the outcome is known beforehand.

The time scale is chosen for two busy cores: a step of the simulated engine takes 25 ms and more, and the computer
must get from one to the next in that time divided by the scale, for twelve engines. It says where it did not.
"""

import argparse
import asyncio
import gc
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import aiohttp
import uvloop
from rich.console import Console

from breakeven_bench import arguments
from breakeven_bench.arms import ARMS, Arm
from breakeven_bench.arrivals import count_in
from breakeven_bench.contest import BLOCK, ContestSettings, EngineBusyError, RateResult, run_rate, warm_up
from breakeven_bench.engine.hardware import PROFILES
from breakeven_bench.fleets import EngineSettings, Fleet, start_fleets
from breakeven_bench.launch import Launcher, LaunchError, cancel_on_signals
from breakeven_bench.load import Tally, new_session
from breakeven_bench.page import page
from breakeven_bench.progress import with_progress
from breakeven_bench.record_file import write_records
from breakeven_bench.report import Report, Setup, failures, hardware_words, judged, lasting, scope, table, to_json
from breakeven_bench.summary import Target

RATES = (1.75, 3.0, 5.5)
"""Requests per second for each pair of engines: idle, busy, and more than one EAGLE-3 engine with k=5 can carry."""

SECONDS = 36.0
"""63 requests at the lowest rate: a 95th percentile needs 59."""

TIME_SCALE = 1.5
"""Three rates then take 100 s of wall-clock time, and a step at least 16 ms of it."""

PROFILE = "a100-tp2-fp8"
"""The user's 4x A100 as two engines of two GPUs each, FP8 weights: the hardware of design section 1."""

STREAM_INTERVAL = 8
"""Every event crosses three sockets, which costs this computer 0.2 ms, and an answer of a plain engine has one for each
of up to 800 tokens: alone they would keep two cores busy. vLLM has this field; latency and time per token do not
depend on it.
"""

MAX_NUM_SEQS = 128

FAILED_SHARE_MAX = 0.01
"""More failed requests than this and the demo itself has failed: nothing here injects faults."""

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

NARROWEST = 118
"""Columns of the table: what a pipe gets, since it has no width of its own."""

EPILOG = """\
examples:
  breakeven-bench demo
      the default: six arms at three rates, under two minutes on two cores
  breakeven-bench demo --rates 2,4,6 --seconds 120
      longer: narrower intervals, and what has not settled shows itself sooner
  breakeven-bench demo --arms threshold,two-speculative --k 3
      two arms only, three draft tokens: a pool that carries more
  breakeven-bench demo --time-scale 1
      in real time: two and a half minutes, and hardly a step is late on any computer
  breakeven-bench demo --profile a100-tp2-int8
      the same machine with INT8 weights: other hardware, other conclusions

how to read the table:
  Every arm has two engines on the same hardware. Four split it into one plain and one EAGLE-3 engine and differ in who
  goes where; two do not split it. A way of routing pays only if it beats the better of those two.
  "no difference" means that the interval includes zero. "unstable" means that requests in flight were still growing
  in the last third of the run: such a mean grows with the length of the run and is no property of the arm.
  "INVALID" means that this computer was too slow for the time scale: lower it, or close something.
"""


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The command line, read."""

    arms: tuple[Arm, ...]
    rates: tuple[float, ...]
    engines: EngineSettings
    contest: ContestSettings
    out: Path
    keep_logs: bool
    started_at: str


class DemoFailedError(Exception):
    """The demo ran and is not to be trusted; the message says why."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `demo`."""
    parser = subparsers.add_parser(
        "demo",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ",".join(arm.name for arm in ARMS)
    parser.add_argument(
        "--rates", type=arguments.rates, default=RATES, metavar="R,R,...", help="requests/s per pair (1.75,3,5.5)"
    )
    parser.add_argument(
        "--seconds",
        type=arguments.positive,
        default=SECONDS,
        metavar="S",
        help="length of the arrivals, seconds of the engine (%(default)g)",
    )
    parser.add_argument(
        "--time-scale",
        type=arguments.positive,
        default=TIME_SCALE,
        metavar="X",
        help="simulate X times faster than real time (%(default)g)",
    )
    parser.add_argument(
        "--stream-interval",
        type=arguments.count,
        default=STREAM_INTERVAL,
        metavar="N",
        help="tokens per event at least (%(default)s)",
    )
    parser.add_argument("--k", type=arguments.count, default=5, help="draft tokens of the EAGLE-3 engines (5)")
    parser.add_argument("--arms", type=arguments.arms, default=ARMS, metavar="A,A,...", help=f"which arms: {names}")
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        default=PROFILE,
        metavar="NAME",
        help=f"hardware, one of {', '.join(PROFILES)} (%(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1, help="same seed, same requests at the same times (1)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the report goes (results/demo-<time>)")
    parser.add_argument("--keep-logs", action="store_true", help="keep the logs of engines and routers in DIR/logs")


def run(args: argparse.Namespace) -> int:
    """Run the demo; 0 unless something failed. A figure that is invalid or an arm that loses is a result."""
    console = Console(width=None if sys.stdout.isatty() else NARROWEST, highlight=False)
    started = datetime.now().astimezone()
    settings = _settings(args, started)
    try:
        settings.out.mkdir(parents=True, exist_ok=True)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_demo(settings, console))
    except (DemoFailedError, LaunchError, EngineBusyError, aiohttp.ClientError, OSError) as error:
        print(f"breakeven-bench demo: failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("breakeven-bench demo: interrupted; everything is stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


async def _demo(settings: DemoSettings, console: Console) -> None:
    cancel_on_signals()
    began_s = perf_counter()
    with ExitStack() as stack:
        logs = settings.out / "logs"
        if not settings.keep_logs:
            logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="breakeven-demo-")))
        async with Launcher(logs) as launcher, new_session() as session:
            console.print(f"hardware: {hardware_words(settings.engines.profile)}", soft_wrap=True)
            console.print(f"starting {_processes(settings.arms)} processes for {len(settings.arms)} arms ...")
            fleets = await start_fleets(launcher, settings.arms, settings.engines)
            await launcher.while_alive(warm_up(session, fleets, settings.contest))
            # What lives now lives to the end; the collector need not look at it between two events.
            gc.freeze()
            results = [await _rate(launcher, session, fleets, rate, settings, console) for rate in settings.rates]
    report = judged(_setup(settings), [result.runs for result in results], perf_counter() - began_s)
    _publish(report, results, settings.out, console)


async def _rate(
    launcher: Launcher,
    session: aiohttp.ClientSession,
    fleets: Sequence[Fleet],
    rate_per_s: float,
    settings: DemoSettings,
    console: Console,
) -> RateResult:
    contest = settings.contest
    tallies = {arm.name: Tally() for arm in settings.arms}
    titles = {arm.title: tallies[arm.name] for arm in settings.arms}
    title = (
        f"{rate_per_s:g} requests/s for {lasting(contest.seconds, contest.time_scale)} and until the last answer ..."
    )
    work = launcher.while_alive(run_rate(session, fleets, rate_per_s, contest, tallies))
    return await with_progress(console, title, titles, count_in(contest.seconds, rate_per_s), work)


def _publish(report: Report, results: Sequence[RateResult], out: Path, console: Console) -> None:
    """Files first: what was measured is kept even where the verdict is that it failed."""
    (out / "records").mkdir(exist_ok=True)
    for result in results:
        for arm, records in result.records.items():
            write_records(out / "records" / f"{result.runs.rate_per_s:g}-per-s-{arm}.jsonl", records)
    (out / "report.json").write_bytes(to_json(report))
    (out / "report.html").write_text(page(report), encoding="utf-8")
    console.print()
    console.print(table(report))
    for line in report.conclusions:
        console.print(f"- {line}")
    console.print(f"- {report.setup.scope}")
    setup = report.setup
    console.print(
        f"\n{report.took_s:.0f} s here, of which each rate's arrivals took {lasting(setup.seconds, setup.time_scale)}; "
        f"the report is in {out}: report.html, report.json, records/",
        soft_wrap=True,
    )
    _check_failures(report)


def _check_failures(report: Report) -> None:
    """Raise DemoFailedError where an arm lost more requests than FAILED_SHARE_MAX."""
    for at in report.rates:
        for run_ in at.runs:
            lost = sum(number for error, number in run_.summary.errors.items() if error != "unfinished")
            if lost > FAILED_SHARE_MAX * run_.summary.sent:
                message = "requests failed where none should: " + "; ".join(failures(report.rates))
                raise DemoFailedError(message)


def _settings(args: argparse.Namespace, started: datetime) -> DemoSettings:
    stamp = started.strftime("%Y%m%d-%H%M%S")
    return DemoSettings(
        arms=args.arms,
        rates=args.rates,
        engines=EngineSettings(args.profile, args.k, MAX_NUM_SEQS, args.time_scale, args.seed),
        contest=ContestSettings(
            args.seconds, args.seed, args.time_scale, f"demo-{stamp}", Target(), args.stream_interval
        ),
        out=args.out or Path("results") / f"demo-{stamp}",
        keep_logs=args.keep_logs,
        started_at=started.isoformat(timespec="seconds"),
    )


def _setup(settings: DemoSettings) -> Setup:
    engines = settings.engines
    return Setup(
        title="Breakeven demo: one pair of engines, six ways to use it",
        started_at=settings.started_at,
        version=version("breakeven"),
        python=platform.python_version(),
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        seed=engines.seed,
        seconds=settings.contest.seconds,
        time_scale=engines.time_scale,
        simulated=True,
        scope=scope(engines.profile),
        engines={
            "hardware": hardware_words(engines.profile),
            "engines": f"simulated, {engines.max_num_seqs} slots",
            "speculation": f"EAGLE-3, k={engines.k}, greedy drafting; acceptance from the unverified prior table",
            "workload": "mixed: six categories, seven temperatures, 8 % of the requests above 1.0",
            "arrivals": f"Poisson within blocks of {BLOCK}",
            "streams": f"an event for at least {settings.contest.stream_interval} tokens (vLLM's stream_interval)",
        },
        target=settings.contest.target,
    )


def _processes(arms: Sequence[Arm]) -> int:
    """Engines and routers."""
    return sum(arm.plain + arm.speculative + 1 for arm in arms)
