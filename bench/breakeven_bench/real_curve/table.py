"""What was measured on real engines as a measured table, which a router can be given.

Acceptance was counted with all prompts under way, times in rounds at several concurrencies; both become cells of one
setup, at the temperature and number of running requests at which they were taken. Where there are times of engines met
directly, those count: a table is about engines, not about the router.
"""

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from statistics import mean, stdev

from breakeven_bench.real_curve.result import BASELINE, DIRECT, GREEDY, PROBABILISTIC, ROUTER, Acceptance, Result
from breakeven_bench.real_curve.timing import Place, Spread, places, tpot_ms
from breakeven_policies.measured import (
    ANY_WORKLOAD,
    FORMAT,
    Cell,
    Drafting,
    Estimate,
    Provenance,
    Setup,
    Table,
    TableKind,
)
from breakeven_policies.snapshot import PoolKind

DRAFTING = {GREEDY: Drafting.GREEDY, PROBABILISTIC: Drafting.PROBABILISTIC}

COUNTS_FOR = timedelta(days=180)
"""A version of vLLM is superseded within weeks, which ends a table by itself; what else drifts, nobody has measured."""

STANDARD_ERRORS = 2.0
"""Of a 95 % interval for some thirty answers (t with 31 degrees of freedom: 2.04)."""

NOTE = (
    "Real engines on a processor, measured by make real-curve: shows how a table comes about. Times have the smallest "
    "and the largest of the rounds as their interval, which hold the median of five in 94 of 100 cases."
)


def table_of(result: Result, name: str, commit: str, model: str, head: str) -> Table:
    """The table of a result; `commit` is that of the suite, `model` and `head` are as engines call them."""
    lengths = {(point.engine, point.temperature): point for point in result.acceptance}
    engines = [BASELINE, *(engine for engine in DRAFTING if any(engine == known for known, _ in lengths))]
    return Table(
        format=FORMAT,
        name=name,
        kind=TableKind.MEASURED,
        provenance=_provenance(result, commit, model),
        setups=tuple(_setup(result, engine, head) for engine in engines),
        cells=tuple(cell for engine in engines for cell in _cells(result, engine)),
    )


def _provenance(result: Result, commit: str, model: str) -> Provenance:
    source = result.provenance
    day = date.fromisoformat(source.started_at[:10])
    return Provenance(
        model=model,
        engine="vllm",
        engine_version=next(version for name, version in source.versions.items() if name.startswith("vLLM")),
        gpu=f"none: {source.cpu}",
        parallelism="none",
        data_set=f"prompts of the suite, sha256 {source.prompts_sha256[:12]}",
        measured_on=day,
        repeats=result.extent.rounds,
        expires_on=day + COUNTS_FOR,
        flags=tuple(words for engine, words in source.engines.items() if engine == "all engines"),
        commit=commit,
        note=NOTE,
    )


def _setup(result: Result, engine: str, head: str) -> Setup:
    if engine == BASELINE:
        return Setup(BASELINE, PoolKind.PLAIN)
    tokens = max(len(point.accepted_per_position) for point in result.acceptance if point.engine == engine)
    return Setup(engine, PoolKind.SPECULATIVE, "eagle3", tokens, head, DRAFTING[engine])


def _cells(result: Result, engine: str) -> Iterator[Cell]:
    """One for each temperature and number of running requests, by both."""
    points = {point.temperature: point for point in result.acceptance if point.engine == engine}
    times = {place: _time(result, engine, place) for place in places(result.samples)}
    together = result.extent.acceptance_streams
    where = {Place(temperature, together) for temperature in points}
    where |= {place for place, time in times.items() if time is not None}
    for place in sorted(where, key=lambda each: (each.temperature, each.concurrency)):
        point = points.get(place.temperature) if place.concurrency == together else None
        time = times.get(place)
        yield Cell(
            setup=engine,
            workload=ANY_WORKLOAD,
            running=float(place.concurrency),
            temperature=place.temperature,
            time_per_output_token_ms=None if time is None else _estimate(time),
            acceptance_length=None if point is None else length_of(point),
            accepted_per_position=() if point is None else tuple(round(share, 4) for share in point.per_position),
        )


def _time(result: Result, engine: str, place: Place) -> Spread | None:
    return tpot_ms(result.samples, engine, DIRECT, place) or tpot_ms(result.samples, engine, ROUTER, place)


def _estimate(spread: Spread) -> Estimate:
    low, middle, high = (round(value, 2) for value in (spread.low, spread.median, spread.high))
    return Estimate(middle, low, high, spread.n)


def length_of(point: Acceptance) -> Estimate:
    """Tokens per verification with an interval from how much the answers differ; `n` counts verifications.

    Answers are of nearly one length, so the whole is the harmonic mean of theirs: steps per token are averaged.
    """
    whole = round(point.length, 4)
    interval = _interval([1.0 / length for length in point.lengths])
    if interval is None:
        return Estimate(whole, n=point.drafts)
    low, high = (round(1.0 / bound, 4) for bound in reversed(interval))
    return Estimate(whole, min(low, whole), max(high, whole), point.drafts)


def _interval(steps_per_token: Sequence[float]) -> tuple[float, float] | None:
    """About the mean of them; None where there are too few, or they differ too much, to say."""
    if len(steps_per_token) < 2:
        return None
    middle = mean(steps_per_token)
    half = STANDARD_ERRORS * stdev(steps_per_token) / len(steps_per_token) ** 0.5
    return (middle - half, middle + half) if half < middle else None
