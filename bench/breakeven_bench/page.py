"""The report as one HTML file that needs nothing else: no script, no font, no address outside."""

from collections.abc import Mapping
from html import escape
from typing import Any

from breakeven_bench.chart import Bar, Interval, Line, Point, difference_chart, latency_chart
from breakeven_bench.report import UNITS_NOTE, RateReport, Report, number, pool_shares, quantile_text
from breakeven_bench.stats import Estimate, quantile_n_min
from breakeven_bench.verdict import Run, Verdict

STYLE = """ :root { color-scheme: light dark; --page: #fff; --line: #ccc; --soft: #666 } @media (prefers-color-scheme:
dark) { :root { --page: #16181c; --line: #3a3f47; --soft: #a0a6b0 } } body { font: 15px/1.5 system-ui, sans-serif;
background: var(--page); max-width: 68rem; margin: 2rem auto; padding: 0 1rem } h1 { font-size: 1.5rem } h2 {
font-size: 1.15rem; margin-top: 2.2rem } table { border-collapse: collapse; width: 100%; font-variant-numeric:
tabular-nums } th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align:
top } th:first-child, td:first-child, th:last-child, td:last-child { text-align: left } svg { width: 100%; max-width:
760px; font-size: 12px } svg .grid { stroke: var(--line) } svg polyline { stroke-width: 2 } svg g line { stroke-width:
3; stroke: currentColor } svg g circle { fill: currentColor } .slower { color: #d55e00 } .faster { color: #009e73 }
.same { color: var(--soft) } .note { color: var(--soft) } .interval { white-space: nowrap } svg .over {
paint-order: stroke; stroke: var(--page); stroke-width: 5px } .scroll { overflow-x: auto }
"""

UPPER_BOUND_N_MIN = quantile_n_min(0.95, 0.975)
"""An interval of 95 % leaves 2.5 % above it."""

QUANTILE_NOTE = (
    f"p95: in brackets its 95 % interval; a question mark is a bound that fewer than {UPPER_BOUND_N_MIN} answers do "
    "not give. Gap: between two events of a stream."
)

UNBROKEN_CHARS_MAX = 20
"""As long as a quantile with its interval; a verdict is longer and may break, so that the table fits the page."""

HEADS = (
    "arm",
    "mean s",
    "p95 s",
    "first token s",
    "ms/token",
    "tokens/event",
    "gap p95 ms",
    "in target",
    "plain:EAGLE-3",
    "late steps",
    "verdict",
)


def page(report: Report) -> str:
    """The whole document."""
    setup = report.setup
    conclusions = "".join(f"<li>{escape(line)}</li>" for line in report.conclusions)
    sections = "".join(_section(at) for at in report.rates)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(setup.title)}</title><style>{STYLE}</style></head><body>\n"
        f"<h1>{escape(setup.title)}</h1>\n<p>{escape(_what_this_is(report))}</p>\n"
        f"<h2>What was found</h2><ul>{conclusions}</ul>\n<p>{escape(setup.scope)}</p>\n"
        f"<h2>Mean latency over load</h2>{_latencies(report)}"
        f'<p class="note">Hollow: the arm did not settle, its mean grows with the length of the run.</p>\n'
        f"{sections}\n<h2>How it was run</h2>{_setup_table(report)}\n</body></html>\n"
    )


def _what_this_is(report: Report) -> str:
    setup = report.setup
    engines = "Simulated engines over real HTTP, no GPU" if setup.simulated else "Real engines"
    return (
        f"{engines}; {setup.seconds:g} s of arrivals for each rate, the same requests at the same times for every arm. "
        f"{UNITS_NOTE} Each arm ran once: the intervals speak about these requests, not about other runs."
    )


def _section(at: RateReport) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in HEADS)
    rows = "".join(_row(run, at.verdicts[run.arm.name]) for run in at.runs)
    bars = [_bar(run, at.verdicts[run.arm.name]) for run in at.runs]
    chart = difference_chart(bars, "mean latency against the best equal-hardware arm, 95 % interval")
    return (
        f"<h2>{at.rate_per_s:g} requests/s</h2>\n"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n'
        f'<p class="note">{escape(QUANTILE_NOTE)}</p>\n{chart}\n'
    )


def _row(run: Run, verdict: Verdict) -> str:
    summary = run.summary
    cells = (
        run.arm.title,
        number(summary.latency_mean_s) + (" ↑" if summary.settled is False else ""),
        _with_interval(summary.latency_p95_s),
        number(summary.ttft_mean_s),
        number(summary.tpot_mean_ms, 1),
        number(summary.tokens_per_event),
        number(summary.gap_p95_ms, 0),
        f"{summary.within_target:.0%}",
        pool_shares(run),
        "-" if run.steps is None else f"{run.steps.late_share:.1%}",
        verdict.text,
    )
    return "<tr>" + "".join(_cell(cell) for cell in cells) + "</tr>"


def _cell(text: str) -> str:
    """A table cell; what is short and holds an interval stays on one line."""
    kind = ' class="interval"' if "[" in text and len(text) <= UNBROKEN_CHARS_MAX else ""
    return f"<td{kind}>{escape(text)}</td>"


def _with_interval(estimate: Estimate | None) -> str:
    """A quantile with its interval; an end that the sample does not reach is a question mark."""
    if estimate is None:
        return quantile_text(estimate)
    low = "?" if estimate.low is None else f"{estimate.low:.1f}"
    high = "?" if estimate.high is None else f"{estimate.high:.1f}"
    return f"{quantile_text(estimate)} [{low}, {high}]"


def _latencies(report: Report) -> str:
    names = list(dict.fromkeys(run.arm.title for at in report.rates for run in at.runs))
    lines = [Line(name, tuple(_points(report, name))) for name in names]
    return latency_chart(lines, "requests per second", "mean latency, s")


def _points(report: Report, title: str) -> list[Point]:
    return [
        Point(at.rate_per_s, run.summary.latency_mean_s, run.is_sound)
        for at in report.rates
        for run in at.runs
        if run.arm.title == title and run.summary.latency_mean_s is not None
    ]


def _bar(run: Run, verdict: Verdict) -> Bar:
    if verdict.difference is None:
        return Bar(run.arm.title, verdict.text)
    low, high = verdict.bounds
    if low is None or high is None:
        return Bar(run.arm.title, verdict.text)
    return Bar(run.arm.title, verdict.text, Interval(100.0 * low, 100.0 * verdict.difference.value, 100.0 * high))


def _setup_table(report: Report) -> str:
    setup = report.setup
    rows: Mapping[str, Any] = {
        "started": setup.started_at,
        "took": f"{report.took_s:.0f} s of wall-clock time",
        "breakeven": setup.version,
        "Python": setup.python,
        "machine": setup.machine,
        "seed": setup.seed,
        "time scale": f"{setup.time_scale:g} seconds of the engine per second of the wall clock",
        "target": f"first token within {setup.target.ttft_s:g} s, then {setup.target.tpot_ms:g} ms per token",
        **setup.engines,
    }
    cells = "".join(f"<tr><td>{escape(name)}</td><td>{escape(str(value))}</td></tr>" for name, value in rows.items())
    return f'<div class="scroll"><table>{cells}</table></div>'
