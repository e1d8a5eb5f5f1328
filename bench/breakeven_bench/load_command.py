"""`breakeven-bench load`: send a workload to a server, record every request, and say what it was like."""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import uvloop
from rich.console import Console

from breakeven_bench.arguments import base_url, count, positive
from breakeven_bench.arrivals import Arrivals, count_in, schedule
from breakeven_bench.endpoint import NoModelError, chosen_model, engine_time_scale, served_models
from breakeven_bench.lag import with_lag
from breakeven_bench.load import (
    REQUEST_TIMEOUT_S,
    Destination,
    Tally,
    closed_loop,
    new_session,
    open_loop,
)
from breakeven_bench.planned import PlannedRequest
from breakeven_bench.progress import with_progress
from breakeven_bench.record import RequestRecord
from breakeven_bench.record_file import write_records
from breakeven_bench.summary import Summary, Target, doubts, summarise
from breakeven_bench.workloads.mixed import mixed

FAILED_SHARE_MAX = 0.01
"""More failed requests than this, and the exit status says so: the figures describe what was left."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

CLOSED_REQUESTS = 60
"""As many as the 95th percentile needs, and one more."""

API_KEY_VARIABLE = "OPENAI_API_KEY"

EPILOG = f"""\
examples:
  breakeven-bench load --url http://127.0.0.1:8080 --rate 2 --seconds 120 --out run.jsonl
      open loop: two requests a second at random times, whether or not the server keeps up
  breakeven-bench load --url http://127.0.0.1:8000 --concurrency 1 --requests 60 --temperature 0 --out t0.jsonl
      closed loop: one at a time, all greedy; what a single stream gets

The workload is mixed: six categories of original prompts, temperatures from 0 to 1.5. Every request states all of its
sampling parameters and carries a cache_salt of its own, so that no prefix cache answers it. Nothing is sent twice.
With simulated engines, give --time-scale the value that they run at: an engine says when it differs, a router cannot.
Latency counts from the time at which a request was due. FILE gets one line of JSON for each request, raw.
The key of the server, if it wants one, is taken from {API_KEY_VARIABLE}.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `load`."""
    parser = subparsers.add_parser(
        "load",
        description=__doc__.partition(": ")[2],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--url", type=base_url, required=True, help="where the OpenAI API is, with or without /v1")
    parser.add_argument("--model", help="model to ask for (the first that the server lists)")
    load = parser.add_mutually_exclusive_group()
    load.add_argument("--rate", type=positive, default=1.0, metavar="R", help="open loop: requests per second (1)")
    load.add_argument("--concurrency", type=count, metavar="N", help="closed loop: N requests always in flight")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=positive, default=60.0, metavar="S", help="length of the arrivals (60)")
    length.add_argument("--requests", type=count, metavar="N", help="number of requests instead (closed: 60)")
    kinds = ", ".join(Arrivals)
    parser.add_argument("--arrivals", type=Arrivals, choices=list(Arrivals), default=Arrivals.POISSON, help=kinds)
    parser.add_argument(
        "--shape", type=positive, default=1.0, help="of gamma arrivals; below 1 they come in bursts (1)"
    )
    parser.add_argument("--temperature", type=float, metavar="T", help="of all requests (those of the mixed workload)")
    parser.add_argument("--seed", type=int, default=1, help="same seed, same requests at the same times (1)")
    parser.add_argument("--time-scale", type=positive, default=1.0, metavar="X", help="of a simulated engine (1)")
    parser.add_argument("--timeout", type=positive, default=REQUEST_TIMEOUT_S, metavar="S", help="of one request (600)")
    parser.add_argument("--drain", type=positive, default=120.0, metavar="S", help="wait for the last answers (120)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the records go, as JSON lines")
    parser.add_argument("--force", action="store_true", help="overwrite FILE if it exists")


def run(args: argparse.Namespace) -> int:
    """Send the load; 1 where the server cannot be asked or more than 1 % of the requests failed."""
    obstacle = _obstacle(args.out, force=args.force)
    if obstacle is not None:
        print(f"breakeven-bench load: error: --out: {obstacle}", file=sys.stderr)
        return EXIT_USAGE
    console = Console(highlight=False)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            records, lag_s = runner.run(_load(args, console))
        write_records(args.out, records)
    except (aiohttp.ClientError, NoModelError, OSError) as error:
        print(f"breakeven-bench load: failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("breakeven-bench load: interrupted; nothing was written", file=sys.stderr)
        return EXIT_INTERRUPTED
    return _tell(console, args.out, records, lag_s)


def _obstacle(out: Path, *, force: bool) -> str | None:
    """Why no records can be written there; asked before anything is sent, since a run cannot be had again."""
    if out.is_dir():
        return f"{out} is a directory"
    if not out.parent.is_dir():
        return f"the directory {out.parent} does not exist"
    if out.exists() and not force:
        return f"{out} exists; --force overwrites it"
    return None


async def _load(args: argparse.Namespace, console: Console) -> tuple[list[RequestRecord], float | None]:
    """The records, and how far the client's loop lagged behind in seconds of the engine."""
    url, api_key = args.url, os.environ.get(API_KEY_VARIABLE)
    plan = _plan(args)
    async with new_session() as session:
        model = chosen_model(url, await served_models(session, url, api_key), args.model)
        warning = time_warning(await engine_time_scale(session, url), args.time_scale)
        if warning is not None:
            print(f"breakeven-bench load: warning: {warning}", file=sys.stderr)
        to = Destination(
            url,
            model,
            run_id=f"load-{os.getpid()}",
            time_scale=args.time_scale,
            api_key=api_key,
            timeout_s=args.timeout,
        )
        tally = Tally()
        work = with_lag(_send(session, to, plan, args, tally))
        title = f"{len(plan)} requests to {model}"
        records, lag_s = await with_progress(console, title, {"sent": tally}, len(plan), work)
    return records, None if lag_s is None else lag_s * args.time_scale


def time_warning(engines: float | None, ours: float) -> str | None:
    """What is wrong where a simulated engine and its load disagree about time; None: nothing, or it is not known."""
    if engines is None or engines == ours:
        return None
    return (
        f"the engine runs at --time-scale {engines:g} and the load at {ours:g}: rate and latencies are then not in "
        f"seconds of the engine; add --time-scale {engines:g}"
    )


async def _send(
    session: aiohttp.ClientSession,
    to: Destination,
    plan: Sequence[PlannedRequest],
    args: argparse.Namespace,
    tally: Tally,
) -> list[RequestRecord]:
    if args.concurrency is not None:
        return await closed_loop(session, to, plan, args.concurrency, tally=tally)
    due_s = schedule(args.arrivals, len(plan), args.rate, args.seed, shape=args.shape)
    return await open_loop(session, to, plan, due_s, drain_s=args.drain, tally=tally)


def _plan(args: argparse.Namespace) -> Sequence[PlannedRequest]:
    """The requests. A closed loop has no rate, and so its number does not follow from the seconds."""
    by_rate = CLOSED_REQUESTS if args.concurrency is not None else count_in(args.seconds, args.rate)
    return mixed(args.requests or by_rate, args.seed, args.temperature)


def _tell(console: Console, out: Path, records: Sequence[RequestRecord], lag_s: float | None) -> int:
    """Print the figures; the exit status."""
    summary = summarise("load", None, records, Target())
    for line in lines(summary):
        console.print(line)
    for doubt in doubts(summary, None, lag_s):
        console.print(f"not to be believed: {doubt}")
    console.print(f"records: {out}", soft_wrap=True)
    failed = summary.sent - len(summary.latencies_s)
    if failed > FAILED_SHARE_MAX * summary.sent:
        told = ", ".join(f"{number} x {error}" for error, number in sorted(summary.errors.items()))
        print(f"breakeven-bench load: failed: {failed} of {summary.sent} requests: {told}", file=sys.stderr)
        for line in first_details(records):
            print(f"  {line}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def first_details(records: Sequence[RequestRecord]) -> list[str]:
    """For each class of error, what the first request of that class was told; a record bounds its length."""
    first: dict[str, str] = {}
    for record in records:
        if record.error is not None and record.error_detail:
            first.setdefault(str(record.error), " ".join(record.error_detail.split()))
    return [f"first {error}: {detail}" for error, detail in sorted(first.items())]


def lines(summary: Summary) -> list[str]:
    """The summary for a person; a figure that is not known is left out."""
    p95_s = None if summary.latency_p95_s is None else summary.latency_p95_s.value
    figures = {
        "latency, mean": _with_unit(summary.latency_mean_s, 3, " s"),
        "latency, p95": _with_unit(p95_s, 3, " s"),
        "first token, mean": _with_unit(summary.ttft_mean_s, 3, " s"),
        "time per output token": _with_unit(summary.tpot_mean_ms, 2, " ms"),
        "tokens per event": _with_unit(summary.tokens_per_event, 2, ""),
    }
    told = [f"answered: {len(summary.latencies_s)} of {summary.sent}"]
    told += [f"{name}: {text}" for name, text in figures.items() if text is not None]
    return told + [f"to {pool}: {share:.0%}" for pool, share in summary.pool_shares.items()]


def _with_unit(value: float | None, digits: int, unit: str) -> str | None:
    return None if value is None else f"{value:.{digits}f}{unit}"
