"""B51, B35 and B44: a configured limit queues what is above it, in the open, and who leaves the queue is forgotten."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.field.client import Client, body, refused, request
from tests.field.router import total, until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, answers
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLACES = 2
QUEUE = 3
QUEUED = "breakeven_queued_requests"
WAITS = "breakeven_queue_wait_seconds_count"
PLAIN_ONLY = body(temperature=0.2, min_p=0.1)
"""What only the baseline engine would serve, so that the other one is no way out."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """One engine of each kind, which may have two requests each; three more may wait."""
    limits = {"max_in_flight": PLACES, "queue_max": QUEUE, "queue_timeout_s": 20}
    base, spec = [Engine(f"{BASE}-0")], [Engine(f"{SPEC}-0")]
    async with staged(tmp_path_factory.mktemp("router"), limits, base=base, spec=spec) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def stage(site: Stage) -> AsyncIterator[Stage]:
    await site.prepare()
    yield site
    site.check()


async def held(link: Link) -> None:
    await link.seen.go.wait()
    await answers()(link)


async def queued(stage: Stage, count: int) -> None:
    """Wait until so many requests wait in the router."""

    async def is_so() -> bool:
        return total(await stage.router.samples(QUEUED), QUEUED) == count

    await until(is_so, f"{count} requests queued")


async def asking(stage: Stage, content: bytes = PLAIN_ONLY) -> Client:
    """A client that has asked and waits."""
    client = await stage.client()
    await client.send(request(content), "POST")
    return client


async def test_b51_what_is_above_the_limit_waits_in_order_and_the_engine_never_has_more(stage: Stage) -> None:
    stage.script(held)
    clients = []
    for number in range(PLACES + QUEUE):
        clients.append(await asking(stage, body(temperature=0.2, min_p=0.1, user=f"u{number}")))
        await (stage.base.busy(number + 1) if number < PLACES else queued(stage, number + 1 - PLACES))
    assert (await stage.router.get("/health")).status == 200
    for number in range(PLACES + QUEUE):
        seen = await stage.base.request(number + 1)
        assert f'"u{number}"'.encode() in seen.body
        assert stage.base.in_flight <= PLACES
        seen.go.set()
        assert (await clients[number].end()).status == 200
        clients[number].writer.close()
    await queued(stage, 0)
    assert stage.spec.requests == []


async def test_b51_the_other_pool_takes_what_the_full_one_cannot_and_the_reason_says_so(stage: Stage) -> None:
    stage.spec.script = held
    clients = [await asking(stage, body(temperature=0.2)) for _ in range(PLACES)]
    await stage.spec.busy(PLACES)
    pool, _, reply = await stage.routed(body(temperature=0.2))
    assert (pool, reply["x-breakeven-reason"]) == (BASE, "capacity")
    for seen, client in zip(stage.spec.requests, clients, strict=True):
        seen.go.set()
        await client.end()
        client.writer.close()


async def test_b44_a_full_queue_is_a_503_of_its_own_and_says_when_to_come_again(stage: Stage) -> None:
    stage.script(held)
    clients = [await asking(stage) for _ in range(PLACES + QUEUE)]
    await queued(stage, QUEUE)
    async with stage.counting("refused", reason="queue_full"):
        reply = await stage.ask(PLAIN_ONLY)
    error = refused(reply, 503)
    assert (error["type"], error["code"]) == ("service_unavailable", "queue_full")
    assert int(reply["Retry-After"]) >= 1
    for client in clients:
        client.writer.close()
    await queued(stage, 0)
    await stage.idle()


async def test_b35_a_client_that_leaves_the_queue_is_heard_of_by_no_engine(stage: Stage) -> None:
    stage.script(held)
    running = [await asking(stage) for _ in range(PLACES)]
    await stage.base.busy(PLACES)
    first, second, third = [await asking(stage) for _ in range(3)]
    await queued(stage, 3)
    async with stage.counting("client_closed", times=2, pool="none"):
        first.fin()
        third.reset()
        await queued(stage, 1)
    for seen in stage.base.requests[:PLACES]:
        seen.go.set()
    for client in running:
        await client.end()
        client.writer.close()
    (await stage.base.request(PLACES + 1)).go.set()
    assert (await second.end()).status == 200
    second.writer.close()
    assert len(stage.base.requests) == PLACES + 1


@pytest.mark.slow
async def test_b51_who_has_waited_too_long_hears_503(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    limits = {"max_in_flight": 1, "queue_timeout_s": 0.3, "drain_timeout_s": 0.2}
    async with staged(tmp_path_factory.mktemp("short"), limits) as stage:
        stage.script(held)
        running = await asking(stage)
        await stage.base.busy(1)
        async with stage.counting("refused", reason="queue_timeout"):
            error = refused(await stage.ask(PLAIN_ONLY), 503)
        assert error["code"] == "queue_timeout"
        assert total(await stage.router.samples(WAITS), WAITS, result="expired") == 1
        assert len(stage.base.requests) == 1
        running.writer.close()


@pytest.mark.slow
async def test_b51_the_limit_holds_over_failover_too(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Engines break now and then, and further attempts wait for places like first ones; all end."""
    most: dict[str, int] = {}
    spec = [Engine(f"{SPEC}-{number}") for number in range(3)]
    async with staged(tmp_path_factory.mktemp("random"), {"max_in_flight": PLACES}, base=[], spec=spec) as stage:

        async def script(link: Link) -> None:
            engine = next(each for each in spec if link.seen in each.requests)
            most[engine.name] = max(most.get(engine.name, 0), engine.in_flight)
            await asyncio.sleep(0.005)  # the case: requests overlap
            number = len(engine.requests)
            if number % 5 == 0:
                link.reset()
            elif number % 7 == 0:
                await answers(b"{}", 503)(link)
            else:
                await answers()(link)

        stage.script(script)
        replies = await asyncio.gather(*(stage.ask(body(temperature=0.2)) for _ in range(150)))
        statuses = [reply.status for reply in replies]
        assert set(statuses) <= {200, 502, 503}
        assert statuses.count(200) > 100
        assert max(most.values()) <= PLACES
        await stage.idle()
        await queued(stage, 0)
