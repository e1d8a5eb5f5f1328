"""Asks the engines: acceptance by their counters, times by this client's clock, greedy answers token by token.

What was counted and what was received must agree, or somebody else used the engine and the figure is nobody's.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import aiohttp

from breakeven_bench.load import CHAT_PATH, Destination, closed_loop
from breakeven_bench.planned import PlannedRequest
from breakeven_bench.real_curve.counters import Counters, read_counters
from breakeven_bench.real_curve.extent import Extent, plan
from breakeven_bench.real_curve.fleet import Engine
from breakeven_bench.real_curve.greedy import Divergence, Token, divergence, tokens_of
from breakeven_bench.real_curve.result import (
    BASELINE,
    DIRECT,
    GREEDY,
    PROBABILISTIC,
    ROUTER,
    Acceptance,
    Comparison,
    Sample,
)
from breakeven_bench.real_curve.timing import Place
from breakeven_bench.record import RequestRecord, figures
from breakeven_bench.vllm import host

SETTLE_TIMEOUT_S = 30.0
"""For the counters to hold an answer that has come: they move within a step, and a step on busy cores takes tenths."""

LOOK_AGAIN_S = 0.1

WARM_UP_TOKENS = 8
"""Enough to run every kernel of a step once, prefill, drafts and verification."""

Say = Callable[[str], None]
Engines = Mapping[str, Engine]


class MeasureError(Exception):
    """The engines did not serve what was asked, or served somebody else as well."""


async def warm_up(session: aiohttp.ClientSession, engines: Sequence[Engine], extent: Extent, seed: int) -> None:
    """Some answers of every engine at every temperature and at the highest concurrency, which are forgotten."""
    streams = max(extent.concurrencies)
    for temperature in extent.timing_temperatures:
        requests = plan(streams, WARM_UP_TOKENS, temperature, seed)
        for engine in engines:
            await _answers(session, engine, ROUTER, requests, streams, f"warm-up-{temperature:g}")


async def acceptance(
    session: aiohttp.ClientSession, engine: Engine, temperature: float, extent: Extent, seed: int
) -> Acceptance:
    """One point of the curve. Raises MeasureError."""
    requests = plan(extent.acceptance_prompts, extent.acceptance_tokens, temperature, seed)
    before = await _idle(session, engine)
    records = await _answers(
        session, engine, ROUTER, requests, extent.acceptance_streams, f"acceptance-{temperature:g}"
    )
    received = sum(record.completion_tokens or 0 for record in records)
    moved = (await _idle(session, engine, before.generated_tokens + received)).since(before)
    if moved.generated_tokens != received:
        message = f"{engine.name} generated {moved.generated_tokens} tokens where {received} came: it served others"
        raise MeasureError(message)
    return Acceptance(
        engine=engine.name,
        temperature=temperature,
        generated_tokens=moved.generated_tokens,
        drafts=moved.drafts,
        draft_tokens=moved.draft_tokens,
        accepted_tokens=moved.accepted_tokens,
        accepted_per_position=moved.accepted_per_position,
        lengths=tuple(record.acceptance_length for record in records if record.acceptance_length is not None),
    )


async def curve(
    session: aiohttp.ClientSession, engines: Engines, extent: Extent, seed: int, say: Say
) -> tuple[Acceptance, ...]:
    """Every point, the two drafting modes side by side: what is counted does not depend on who else computes."""
    points: list[Acceptance] = []
    for temperature in extent.temperatures:
        both = (acceptance(session, engines[name], temperature, extent, seed) for name in (GREEDY, PROBABILISTIC))
        points += await asyncio.gather(*both)
        said = ", ".join(f"{point.length:.2f} ({point.engine})" for point in points[-2:])
        say(f"T = {temperature:g}: tokens per verification {said}")
    return tuple(points)


async def compare(session: aiohttp.ClientSession, engines: Engines, extent: Extent, seed: int, say: Say) -> Comparison:
    """Greedy answers of the baseline and of EAGLE-3 to the same prompts, through the router."""
    parted: list[Divergence] = []
    tokens = 0
    requests = plan(extent.greedy_prompts, extent.greedy_tokens, 0.0, seed)
    sides = await asyncio.gather(
        *(_greedy_answers(session, engines[name], requests, extent.greedy_streams) for name in (BASELINE, GREEDY))
    )
    for request, plain, speculative in zip(requests, *sides, strict=True):
        tokens += len(plain)
        if (found := divergence(request.prompt_id, plain, speculative)) is not None:
            parted.append(found)
            say(f"{request.prompt_id}: the greedy answers part after {found.position} tokens")
    say(f"greedy answers: {len(parted)} of {extent.greedy_prompts} differ")
    return Comparison(extent.greedy_prompts, tokens, tuple(parted))


async def times(
    session: aiohttp.ClientSession,
    engines: Engines,
    extent: Extent,
    seed: int,
    say: Say,
    since_start_s: Callable[[], float],
) -> tuple[Sample, ...]:
    """Round by round, until there are enough or the next would end too late; one round there is in any case."""
    samples: list[Sample] = []
    longest_s = 0.0
    for number in range(extent.rounds):
        began_s = since_start_s()
        if samples and began_s + longest_s > extent.limit_s:
            say(f"round {number + 1} would end after the limit of {extent.limit_s / 60:.0f} min: left out")
            break
        samples += await _round(session, engines, extent, seed, number)
        longest_s = max(longest_s, since_start_s() - began_s)
        say(f"round {number + 1} of {extent.rounds} took {since_start_s() - began_s:.0f} s")
    return tuple(samples)


def arms(place: Place, number: int) -> list[tuple[str, str]]:
    """Engines and paths of one place, in the order of round `number`: each comes first once before any comes twice.

    Probabilistic drafting is left out at temperature 0, where it is greedy.
    """
    names = (BASELINE, GREEDY) if place.temperature == 0.0 else (BASELINE, GREEDY, PROBABILISTIC)
    order = [(name, path) for path in (ROUTER, DIRECT) for name in names]
    turn = number % len(order)
    return order[turn:] + order[:turn]


async def _round(
    session: aiohttp.ClientSession, engines: Engines, extent: Extent, seed: int, number: int
) -> list[Sample]:
    samples = []
    for temperature in extent.timing_temperatures:
        for streams, count in zip(extent.concurrencies, extent.timing_requests, strict=True):
            requests = plan(count, extent.timing_tokens, temperature, seed, first=number * count)
            for name, path in arms(Place(temperature, streams), number):
                label = f"round-{number}-{temperature:g}-{streams}-{path}"
                records = await _answers(session, engines[name], path, requests, streams, label)
                # An answer that came in one piece has no gap to measure, or one of no length.
                found = tuple(figure.tpot_ms for figure in map(figures, records) if figure and figure.tpot_ms)
                samples.append(Sample(name, path, temperature, streams, number, found))
    return samples


async def _answers(
    session: aiohttp.ClientSession,
    engine: Engine,
    path: str,
    requests: Sequence[PlannedRequest],
    streams: int,
    label: str,
) -> list[RequestRecord]:
    """Complete answers to all of them, `streams` at a time. Raises MeasureError where one failed."""
    url = engine.router_url if path == ROUTER else engine.url
    to = Destination(url, host.SERVED_MODEL, arm=engine.name, run_id=f"real-curve-{label}")
    records = await closed_loop(session, to, requests, streams)
    for record in records:
        if record.error is not None:
            message = f"{engine.name}: {record.prompt_id} failed ({record.error}): {record.error_detail}"
            raise MeasureError(message)
        if path == ROUTER and record.pool != engine.name:
            message = f"{record.prompt_id} was meant for {engine.name} and answered by {record.pool}"
            raise MeasureError(message)
    return records


async def _greedy_answers(
    session: aiohttp.ClientSession, engine: Engine, requests: Sequence[PlannedRequest], streams: int
) -> list[tuple[Token, ...]]:
    """The tokens of every answer, in order of the requests."""
    free = asyncio.Semaphore(streams)

    async def one(request: PlannedRequest) -> tuple[Token, ...]:
        async with free:
            return await _greedy(session, engine, request)

    return list(await asyncio.gather(*map(one, requests)))


async def _greedy(session: aiohttp.ClientSession, engine: Engine, request: PlannedRequest) -> tuple[Token, ...]:
    body = {
        "model": host.SERVED_MODEL,
        "messages": [{"role": "user", "content": request.prompt}],
        "temperature": 0,
        "max_tokens": request.max_tokens,
        "logprobs": True,
        "top_logprobs": 2,
        "cache_salt": f"real-curve-greedy-{engine.name}-{request.index}",
    }
    async with session.post(engine.router_url + CHAT_PATH, json=body) as answer:
        if answer.status != 200:
            message = f"{engine.name} answers {answer.status} to {request.prompt_id}: {(await answer.text())[:200]}"
            raise MeasureError(message)
        return tokens_of(await answer.json())


async def _idle(session: aiohttp.ClientSession, engine: Engine, tokens: int = 0) -> Counters:
    """The engine's counters once it does nothing and has counted so many tokens at least. Raises MeasureError."""
    deadline_s = perf_counter() + SETTLE_TIMEOUT_S
    while True:
        async with session.get(f"{engine.url}/metrics") as page:
            counters = read_counters(await page.text())
        if counters.requests == 0 and counters.generated_tokens >= tokens:
            return counters
        if perf_counter() > deadline_s:
            message = f"{engine.name} is not idle, or has not counted its tokens, after {SETTLE_TIMEOUT_S:g} s"
            raise MeasureError(message)
        await asyncio.sleep(LOOK_AGAIN_S)
