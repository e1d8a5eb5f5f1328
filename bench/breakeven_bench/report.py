"""A finished comparison as JSON and as a table for the terminal. `page` makes the same into HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from rich import box
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from breakeven_bench.arms import PLAIN_POOL, SPECULATIVE_POOL
from breakeven_bench.conclusions import RateRuns, conclusions
from breakeven_bench.engine.hardware import PROFILES
from breakeven_bench.stats import Estimate, quantile_n_min
from breakeven_bench.summary import Target
from breakeven_bench.verdict import Run, Verdict, Word, verdicts

REPORT_VERSION = 1
"""Of the JSON: raised when a key changes its meaning or goes."""

UNITS_NOTE = (
    "Latency counts from the scheduled send to the last token, in seconds of the engine. "
    "In brackets: the 95 % interval of a paired bootstrap, which draws pairs as if they were independent; latencies in "
    "a queue are not, so that a rerun would scatter more."
)

STYLES = {
    Word.REFERENCE: "bold",
    Word.FASTER: "green",
    Word.SLOWER: "yellow",
    Word.UNSTABLE: "red",
    Word.INVALID: "reverse red",
    Word.NO_DIFFERENCE: "",
    Word.UNKNOWN: "dim",
}


COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("req/s", "right"),
    ("arm", "left"),
    ("mean s", "right"),
    ("p95 s", "right"),
    ("ms/token", "right"),
    ("in target", "right"),
    ("plain:EAGLE-3", "right"),
)


@dataclass(frozen=True, slots=True)
class Setup:
    """What was run, so that it can be run again. `seconds` is the length of the arrivals, in seconds of the engine.

    `scope` says for which hardware the conclusions are.
    """

    title: str
    started_at: str
    version: str
    python: str
    machine: str
    seed: int
    seconds: float
    time_scale: float
    simulated: bool
    scope: str
    engines: Mapping[str, Any]
    target: Target


@dataclass(frozen=True, slots=True)
class RateReport:
    """All arms at one rate, each with its verdict against the best equal-hardware arm, by name of the arm."""

    rate_per_s: float
    runs: tuple[Run, ...]
    verdicts: Mapping[str, Verdict]


@dataclass(frozen=True, slots=True)
class Report:
    """The whole comparison with all that is concluded from it; `took_s` is wall-clock time."""

    setup: Setup
    rates: tuple[RateReport, ...]
    conclusions: tuple[str, ...]
    took_s: float


def judged(setup: Setup, rates: Sequence[RateRuns], took_s: float) -> Report:
    """The report on these runs. Resampling takes a second or two, and is done here once for all forms of the report."""
    made = tuple(RateReport(at.rate_per_s, at.runs, verdicts(at.runs, setup.seed)) for at in rates)
    return Report(setup, made, conclusions(rates, setup.seed), took_s)


def to_json(report: Report) -> bytes:
    """The report for a machine: every figure of the table with its interval and its n."""
    document = {
        "report_version": REPORT_VERSION,
        "setup": asdict(report.setup),
        "took_s": report.took_s,
        "rates": [_rate_json(at) for at in report.rates],
        "conclusions": report.conclusions,
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _rate_json(at: RateReport) -> dict[str, Any]:
    return {"rate_per_s": at.rate_per_s, "arms": [_run_json(run, at.verdicts[run.arm.name]) for run in at.runs]}


def _run_json(run: Run, verdict: Verdict) -> dict[str, Any]:
    summary = asdict(run.summary)
    del summary["latencies_s"]  # the raw records hold them, and more
    return {
        "arm": asdict(run.arm) | {"is_equal_hardware": run.arm.is_equal_hardware},
        "summary": summary | {"settled": run.summary.settled},
        "doubts": run.doubts,
        "steps": None if run.steps is None else asdict(run.steps) | {"late_share": run.steps.late_share},
        "verdict": asdict(verdict) | {"text": verdict.text},
    }


def table(report: Report) -> Table:
    """One table of all rates, each rate a section."""
    target = report.setup.target
    caption = f"{UNITS_NOTE}\nIn target: first token within {target.ttft_s:g} s, then {target.tpot_ms:g} ms per token."
    made = Table(box=box.SIMPLE_HEAD, collapse_padding=True, caption=caption, caption_justify="left", pad_edge=False)
    for heading, justify in COLUMNS:
        made.add_column(heading, justify=justify, no_wrap=True)
    made.add_column("against best equal hardware")
    for at in report.rates:
        made.add_section()
        for place, run in enumerate(at.runs):
            made.add_row(f"{at.rate_per_s:g}" if place == 0 else "", *_cells(run, at.verdicts[run.arm.name]))
    return made


def _cells(run: Run, verdict: Verdict) -> list[str | Text]:
    summary = run.summary
    return [
        run.arm.title,
        # The mean of an arm that falls behind is no property of the arm; the arrow says which way it goes.
        number(summary.latency_mean_s) + (" ↑" if summary.settled is False else ""),
        quantile_text(summary.latency_p95_s),
        number(summary.tpot_mean_ms, 1),
        f"{summary.within_target:.0%}",
        pool_shares(run),
        Text(verdict.text, style=STYLES[verdict.word]),
    ]


def number(value: float | None, digits: int = 2) -> str:
    """A figure, or a dash where it is not known."""
    return "-" if value is None else f"{value:.{digits}f}"


def quantile_text(estimate: Estimate | None) -> str:
    """A 95th percentile, or why there is none."""
    return f"n < {quantile_n_min(0.95)}" if estimate is None else f"{estimate.value:.1f}"


def pool_shares(run: Run) -> str:
    """Which share of the answers each pool gave, as the router's own headers say."""
    found = run.summary.pool_shares
    return f"{found.get(PLAIN_POOL, 0.0):.0%}:{found.get(SPECULATIVE_POOL, 0.0):.0%}" if found else "-"


def failures(rates: Sequence[RateReport]) -> list[str]:
    """The requests that failed, by arm, rate and class of error; what was given up at the end is no failure."""
    return [
        f"{run.arm.title} at {at.rate_per_s:g}/s: {number} x {error}"
        for at in rates
        for run in at.runs
        for error, number in sorted(run.summary.errors.items())
        if error != "unfinished"
    ]


def lasting(engine_s: float, time_scale: float) -> str:
    """A duration by both clocks."""
    if time_scale == 1.0:
        return f"{engine_s:g} s of the engine (real time)"
    pace = f"{time_scale:g} times faster" if time_scale > 1.0 else f"{1.0 / time_scale:g} times slower"
    return f"{engine_s:g} s of the engine, {engine_s / time_scale:.3g} s here ({pace})"


def scope(profile: str) -> str:
    """For which hardware the conclusions are, and what the model of the engine says of other profiles."""
    corners = {name: hardware.corner_tokens for name, hardware in PROFILES.items()}
    others = ", ".join(f"{name} {corner:.0f}" for name, corner in corners.items() if name != profile)
    return (
        f"All this is for {profile} only, modelled and not measured: there, drafts begin to cost their full price from "
        f"about {corners[profile]:.0f} tokens a step. The same corner of the model for other profiles: {others}; the "
        "higher it is, the larger the batch at which speculation still pays."
    )


def hardware_words(profile: str) -> str:
    """The profile with what it stands for."""
    return f"{profile} ({PROFILES[profile].summary}; modelled, not measured)"
