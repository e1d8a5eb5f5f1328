"""What came of a replay, as JSON and as Markdown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from breakeven_bench.replay.decisions import Contestant, Replay
from breakeven_bench.replay.tally import CLOSE, Forecast, Forecasts, Share, Tally
from breakeven_policies.agreement import Agreement

REPORT_VERSION = 1
"""Of the JSON: raised when a key changes its meaning or goes."""

ROWS_MAX = 20
"""Rows of a table that a person reads; the JSON has them all."""

LEARNED_NOTE = (
    "Policies that learn began with nothing{tables} and learned from this journal's own outcomes: less than a router "
    "learns, which also sees the events of streams and every scrape."
)


def agreement_share(tally: Tally, *, of_pools: bool) -> float | None:
    """Of all lines, those about which it had no decision included; None: there was no line."""
    lines = tally.total.requests + tally.failed
    agreed = tally.total.same_pool if of_pools else tally.total.same
    return agreed / lines if lines else None


def to_json(replay: Replay) -> bytes:
    """Everything, for a machine."""
    document = {
        "report_version": REPORT_VERSION,
        "lines": replay.entries,
        "unreadable": replay.unreadable,
        "first_error": replay.first_error or None,
        "from": replay.first_time or None,
        "to": replay.last_time or None,
        "written": _forecasts_json(replay.written),
        "policies": [_contestant_json(each) for each in replay.contestants],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _contestant_json(contestant: Contestant) -> dict[str, Any]:
    tally = contestant.tally
    return {
        "policy": contestant.name,
        "agreement": agreement_share(tally, of_pools=False),
        "agreement_of_pools": agreement_share(tally, of_pools=True),
        "results": {word.value: tally.results[word] for word in Agreement},
        "failed": tally.failed,
        "first_failure": tally.first_failure or None,
        "by_class": _shares_json(tally.by_class),
        "by_load": _shares_json(tally.by_load),
        "elsewhere": [{"from": way[0], "to": way[1], "requests": n} for way, n in tally.ways.most_common()],
        "reasons": dict(tally.reasons.most_common()),
        "regret": tally.regret if tally.regret_known else None,
        "regret_known": tally.regret_known,
        "forecasts": _forecasts_json(tally.forecasts),
    }


def _shares_json(shares: Mapping[str, Share]) -> dict[str, Any]:
    return {
        name: {"requests": share.requests, "same": share.same, "same_pool": share.same_pool}
        for name, share in sorted(shares.items())
    }


def _forecasts_json(forecasts: Forecasts) -> dict[str, Any]:
    return {"latency": _forecast_json(forecasts.latency), "token_time": _forecast_json(forecasts.token_time)}


def _forecast_json(forecast: Forecast) -> dict[str, Any]:
    within = {f"{share:g}": n for share, n in zip(CLOSE, forecast.within, strict=True)}
    return {"requests": forecast.requests, "bias": forecast.bias, "within": within}


def to_markdown(replay: Replay, *, tables: bool = False) -> str:
    """The same for a person: how far they agree, where they do not, what it would have gained."""
    parts = [f"# {replay.entries:,} decisions, decided again", _origin(replay, tables=tables)]
    parts.append(_table(("policy", "same engine", "same pool", "other pool", "other refusal", "failed", "regret"),
                        [_summary(each) for each in replay.contestants]))  # fmt: skip
    parts += [part for each in replay.contestants for part in _details(each)]
    forecasts = [("as written", replay.written), *((each.name, each.tally.forecasts) for each in replay.contestants)]
    rows = [row for name, forecast in forecasts for row in _forecast_rows(name, forecast)]
    if rows:
        parts.append("## Predicted against observed\n\nOnly requests that went where the prediction says.")
        heads = ("policy", "of", "requests", "bias", *(f"within {share:.0%}" for share in CLOSE))
        parts.append(_table(heads, rows))
    return "\n\n".join(parts) + "\n"


def _origin(replay: Replay, *, tables: bool) -> str:
    told = f"Lines from {replay.first_time} to {replay.last_time}." if replay.entries else "No line could be read."
    if replay.unreadable:
        told += f" {replay.unreadable:,} lines could not be read; the first: {replay.first_error}."
    if replay.learned:
        told += " " + LEARNED_NOTE.format(tables=" but the given tables" if tables else "")
    return told


def _summary(contestant: Contestant) -> tuple[str, ...]:
    tally = contestant.tally
    known = tally.regret_known
    return (
        contestant.name,
        _percent(agreement_share(tally, of_pools=False)),
        _percent(agreement_share(tally, of_pools=True)),
        f"{tally.results[Agreement.OTHER_POOL]:,}",
        f"{tally.results[Agreement.OTHER_REFUSAL]:,}",
        f"{tally.failed:,}",
        f"{tally.regret / known:.3g} each of {known:,}" if known else "not known",
    )


def _details(contestant: Contestant) -> list[str]:
    """Where a policy differs; nothing where it agrees with every line."""
    tally = contestant.tally
    parts = []
    if tally.first_failure:
        parts.append(f"`{contestant.name}` failed {tally.failed:,} times, first with: {tally.first_failure}")
    if tally.total.same_pool == tally.total.requests:
        return parts
    parts.append(f"## Where `{contestant.name}` differs")
    ways = [(first, last, f"{n:,}") for (first, last), n in tally.ways.most_common(ROWS_MAX)]
    parts.append(_table(("was sent to", "would go to", "requests"), ways))
    for heading, shares in (("class", tally.by_class), ("requests per engine", tally.by_load)):
        rows = [(name, f"{share.requests:,}", _percent(share.same_pool / share.requests))
                for name, share in _most(shares)]  # fmt: skip
        parts.append(_table((heading, "requests", "same pool"), rows))
    reasons = [(word, f"{n:,}") for word, n in tally.reasons.most_common(ROWS_MAX)]
    parts.append(_table(("its reason", "requests"), reasons))
    return parts


def _most(shares: Mapping[str, Share]) -> Sequence[tuple[str, Share]]:
    """Those in which most requests would go elsewhere."""
    return sorted(shares.items(), key=lambda each: (each[1].same_pool - each[1].requests, each[0]))[:ROWS_MAX]


def _forecast_rows(name: str, forecasts: Forecasts) -> Iterable[tuple[str, ...]]:
    for what, forecast in (("latency", forecasts.latency), ("time per token", forecasts.token_time)):
        if forecast.requests and forecast.bias is not None:
            close = (_percent(n / forecast.requests) for n in forecast.within)
            yield name, what, f"{forecast.requests:,}", f"{forecast.bias:+.1%}", *close


def _percent(share: float | None) -> str:
    """Rounded down, so that 100 % means all."""
    return "-" if share is None else f"{int(share * 1000) / 10:.1f} %"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
