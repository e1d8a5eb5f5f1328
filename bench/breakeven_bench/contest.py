"""One rate, all arms: the same requests at the same times to every fleet, and what came of it."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import aiohttp

from breakeven_bench.arrivals import count_in, poisson
from breakeven_bench.conclusions import RateRuns
from breakeven_bench.engine_page import EnginePage, StepCounts, read_engine_page
from breakeven_bench.fleets import MODEL, Fleet
from breakeven_bench.lag import with_lag
from breakeven_bench.load import Destination, Tally, closed_loop, open_loop
from breakeven_bench.planned import PlannedRequest
from breakeven_bench.record import RequestRecord
from breakeven_bench.summary import Target, doubts, summarise
from breakeven_bench.verdict import Run
from breakeven_bench.workloads.mixed import mixed

BLOCK = 20
"""Arrivals are Poisson within blocks of this many; see `arrivals.poisson`. Long enough to bunch, a few seconds at
most.
"""

DRAIN_S = 120.0
"""Seconds of the engine that answers may take after the last arrival; an arm that needs more is far from settled."""

IDLE_TIMEOUT_S = 10.0
"""Wall-clock time for engines to notice that given-up requests are gone."""

IDLE_POLL_S = 0.05

WARM_UP_REQUESTS = 4
"""For each arm, two at a time: opens the connections of router and client to both engines."""

WARM_UP_TOKENS = 8
"""Short: nothing in a simulated engine gets warm by generating."""


@dataclass(frozen=True, slots=True)
class ContestSettings:
    """`seconds`: length of the arrivals, in seconds of the engine."""

    seconds: float
    seed: int
    time_scale: float
    run_id: str
    target: Target
    stream_interval: int = 1


@dataclass(frozen=True, slots=True)
class RateResult:
    """All arms at one rate, with the raw records by name of the arm."""

    runs: RateRuns
    records: Mapping[str, Sequence[RequestRecord]]


class EngineBusyError(Exception):
    """An engine still works on requests that nobody waits for."""


async def warm_up(session: aiohttp.ClientSession, fleets: Sequence[Fleet], settings: ContestSettings) -> None:
    """A few requests to each arm, which are forgotten."""
    plan = [replace(planned, max_tokens=WARM_UP_TOKENS) for planned in mixed(WARM_UP_REQUESTS, settings.seed)]
    await asyncio.gather(*(closed_loop(session, _to(fleet, settings, "warm-up"), plan, 2) for fleet in fleets))


async def run_rate(
    session: aiohttp.ClientSession,
    fleets: Sequence[Fleet],
    rate_per_s: float,
    settings: ContestSettings,
    tallies: Mapping[str, Tally],
) -> RateResult:
    """Send the rate's requests to every fleet at once; returns when the last answer has come or was given up.

    `tallies`, by name of the arm, are counted up meanwhile. Raises aiohttp's errors and EngineBusyError where an engine
    cannot be read.
    """
    count = count_in(settings.seconds, rate_per_s)
    plan = mixed(count, settings.seed)
    schedule_s = poisson(count, rate_per_s, settings.seed, BLOCK)
    before = await asyncio.gather(*(_idle_counts(session, fleet) for fleet in fleets))
    lanes = [
        _lane(session, fleet, plan, schedule_s, settings, tallies[fleet.arm.name], _start_s(place, fleets, rate_per_s))
        for place, fleet in enumerate(fleets)
    ]
    records, lag_s = await with_lag(asyncio.gather(*lanes))
    after = await asyncio.gather(*(_counts(session, fleet) for fleet in fleets))
    lag_s = None if lag_s is None else lag_s * settings.time_scale
    runs = []
    for fleet, sent, started, ended in zip(fleets, records, before, after, strict=True):
        summary = summarise(fleet.arm.name, rate_per_s, sent, settings.target)
        steps = None if started is None or ended is None else ended - started
        runs.append(Run(fleet.arm, summary, doubts(summary, steps, lag_s), steps))
    by_arm = {fleet.arm.name: sent for fleet, sent in zip(fleets, records, strict=True)}
    return RateResult(RateRuns(rate_per_s, tuple(runs)), by_arm)


def _start_s(place: int, fleets: Sequence[Fleet], rate_per_s: float) -> float:
    """How much later this lane starts, in seconds of the engine: the lanes' sends interleave instead of coinciding."""
    return place / len(fleets) / rate_per_s


def _to(fleet: Fleet, settings: ContestSettings, label: str) -> Destination:
    return Destination(
        fleet.router_url,
        MODEL,
        arm=fleet.arm.name,
        run_id=f"{settings.run_id}-{label}",
        time_scale=settings.time_scale,
        stream_interval=settings.stream_interval,
    )


async def _lane(
    session: aiohttp.ClientSession,
    fleet: Fleet,
    plan: Sequence[PlannedRequest],
    schedule_s: Sequence[float],
    settings: ContestSettings,
    tally: Tally,
    start_s: float,
) -> list[RequestRecord]:
    await asyncio.sleep(start_s / settings.time_scale)
    to = _to(fleet, settings, f"{len(plan)}")
    return await open_loop(session, to, plan, schedule_s, drain_s=DRAIN_S, tally=tally)


async def _idle_counts(session: aiohttp.ClientSession, fleet: Fleet) -> StepCounts | None:
    """The fleet's step counts once none of its engines has anything to do."""
    deadline_s = perf_counter() + IDLE_TIMEOUT_S
    while True:
        pages = await _pages(session, fleet)
        busy = sum(page.requests for page in pages)
        if not busy:
            return _summed(pages)
        if perf_counter() > deadline_s:
            message = f"{fleet.arm.title}: {busy} requests still run {IDLE_TIMEOUT_S:g} s after the last was given up"
            raise EngineBusyError(message)
        await asyncio.sleep(IDLE_POLL_S)


async def _counts(session: aiohttp.ClientSession, fleet: Fleet) -> StepCounts | None:
    return _summed(await _pages(session, fleet))


async def _pages(session: aiohttp.ClientSession, fleet: Fleet) -> list[EnginePage]:
    return list(await asyncio.gather(*(_page(session, url) for url in fleet.engine_urls)))


async def _page(session: aiohttp.ClientSession, url: str) -> EnginePage:
    async with session.get(f"{url}/metrics") as response:
        response.raise_for_status()
        return read_engine_page(await response.text())


def _summed(pages: Sequence[EnginePage]) -> StepCounts | None:
    """The steps of all engines together; None unless every one counts its own."""
    counts = [page.counts for page in pages if page.counts is not None]
    return sum(counts, StepCounts(0, 0)) if len(counts) == len(pages) else None
