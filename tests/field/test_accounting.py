"""B76: counts of requests in flight follow the requests, and always come back to zero."""

import asyncio
import zlib
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.field.client import Client, body, request
from tests.field.router import total, until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, answers, hangs, streams
from tests.field.stage import BASE, IN_FLIGHT, REQUESTS, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Two speculative engines, and a limit on the wait for a head."""
    spec = [Engine(f"{SPEC}-{number}") for number in range(2)]
    async with staged(tmp_path_factory.mktemp("router"), {"first_byte_timeout_s": 0.5}, spec=spec) as stage:
        yield stage


def serving(stage: Stage, pool: str) -> int:
    """How many requests the engines of the pool are serving, by their own count."""
    return sum(engine.in_flight for engine in stage.all_engines if engine.name.startswith(pool))


async def gauge(stage: Stage, pool: str) -> float:
    """In flight in that pool, by the router's count."""
    return total(await stage.router.samples(), IN_FLIGHT, pool=pool)


@pytest.mark.slow
async def test_b76_the_gauge_follows_the_engines_own_count(stage: Stage) -> None:
    """One more with each request that is begun, one less with each that ends, per pool."""

    async def held(link: Link) -> None:
        await link.head()
        await link.seen.go.wait()
        await link.end()

    stage.script(held)
    temperatures = [0.5, 1.5, 0.5, 1.5, 0.5]
    clients = [await stage.client() for _ in temperatures]
    for number, (client, temperature) in enumerate(zip(clients, temperatures, strict=True)):
        await client.send(request(body(temperature=temperature)), "POST")
        await client.head()
        assert len(stage.seen) == number + 1
        assert (await gauge(stage, SPEC), await gauge(stage, BASE)) == (serving(stage, SPEC), serving(stage, BASE))
    for client, seen in zip(clients, sorted(stage.seen, key=lambda seen: seen.arrived_s), strict=True):
        seen.go.set()
        assert (await client.end()).complete
        client.fin()
    await stage.idle()
    assert (serving(stage, SPEC), serving(stage, BASE)) == (0, 0)


async def broken_stream(link: Link) -> None:
    await link.head()
    await link.chunk(EVENT)
    link.reset()


async def reset(link: Link) -> None:
    link.reset()


FATES = [
    answers(),
    streams([EVENT, b'data: {"error":{"message":"x"}}\n\n', DONE]),
    answers(b"{}", 400),
    answers(b"{}", 429),
    answers(b"{}", 500),
    answers(b"{}", 503),
    broken_stream,
    reset,
    hangs,
    streams([EVENT, DONE]),
]


async def one_fate(stage: Stage, number: int) -> None:
    """A request that meets whatever fate its body draws; some clients leave at once, some after the head."""
    if number % 10 == 3:
        await stage.ask(b"{")
        return
    async with await Client.connect(stage.router.port) as client:
        await client.send(request(body(n=number, temperature=(number % 4) / 2)), "POST")
        if number % 4 == 1:
            client.reset() if number % 8 == 1 else client.fin()
            return
        if number % 5 == 2:
            await client.head()
            client.fin()
            return
        await client.end()


@pytest.mark.slow
async def test_b76_after_every_kind_of_end_nothing_is_in_flight(stage: Stage) -> None:
    async def fate(link: Link) -> None:
        await FATES[zlib.crc32(link.seen.body) % len(FATES)](link)

    stage.script(fate)
    before = total(await stage.router.samples(), REQUESTS)
    rounds, at_once = 8, 50
    for round_number in range(rounds):
        asks = [asyncio.create_task(one_fate(stage, round_number * at_once + number)) for number in range(at_once)]
        values = [v for (name, _), v in (await stage.router.samples()).items() if name == IN_FLIGHT]
        assert all(value >= 0 for value in values), values
        await asyncio.gather(*asks)
    await stage.idle()
    assert (serving(stage, SPEC), serving(stage, BASE)) == (0, 0)

    async def all_counted() -> bool:
        counted = total(await stage.router.samples(), REQUESTS) - before
        assert counted <= rounds * at_once
        return (
            counted >= rounds * at_once * 0.8
        )  # a client that leaves before its request was read leaves nothing to count

    await until(all_counted, "the requests are counted")


@pytest.mark.slow
async def test_b76_an_engine_that_comes_and_goes_leaves_no_count_behind(stage: Stage) -> None:
    for _ in range(2):
        stage.script(hangs)
        asks = [asyncio.create_task(stage.ask(body())) for _ in range(10)]
        await asyncio.gather(*(engine.request() for engine in stage.all_engines if engine.name.startswith(SPEC)))
        await stage.spec.refuse()
        await asyncio.gather(*asks)
        await stage.idle()
        await stage.spec.listen()
        await stage.prepare()
    assert (await stage.ask(body())).status == 200
