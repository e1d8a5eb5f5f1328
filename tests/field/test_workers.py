"""B71, and what else several worker processes must not change: one router, whoever of them serves."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
import pytest_asyncio

from tests.field.client import CHAT, Client, body, request
from tests.field.router import total, until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, answers, hangs
from tests.field.stage import IN_FLIGHT, REQUESTS, SPEC, Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

COLD = body(temperature=0.2)
STREAM = body(temperature=0.2, stream=True)
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
RESTARTS = "breakeven_worker_restarts_total"
CLIENTS = "breakeven_client_connections"
WORKERS = 4
FAILURES_MAX = 4
SETTINGS = {"workers": WORKERS, "engine_failures_max": FAILURES_MAX, "first_byte_timeout_s": 1.0, "drain_timeout_s": 5}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Four workers, two speculative engines."""
    spec = [Engine(f"{SPEC}-{number}") for number in range(2)]
    async with staged(tmp_path_factory.mktemp("router"), SETTINGS, spec=spec) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def stage(site: Stage) -> AsyncIterator[Stage]:
    await site.prepare()
    await all_serve(site)
    yield site
    site.check()


def workers(stage: Stage) -> list[psutil.Process]:
    return psutil.Process(stage.router.pid).children()


def servers(stage: Stage) -> dict[int, psutil.Process]:
    """The worker that holds the other end of a connection, by the port of this end."""
    found = {worker: worker.net_connections("tcp") for worker in workers(stage)}
    return {each.raddr.port: worker for worker, held in found.items() for each in held if each.raddr}


def port_of(client: Client) -> int:
    port: int = client.writer.get_extra_info("sockname")[1]
    return port


async def count(stage: Stage, name: str) -> float:
    return total(await stage.router.samples(name), name)


async def counts(stage: Stage, name: str, number: float) -> None:
    async def is_so() -> bool:
        return await count(stage, name) == number

    await until(is_so, f"{name} is {number}")


async def all_serve(stage: Stage) -> None:
    """Wait until each worker has accepted somebody: one that starts holds no listening socket yet."""

    async def is_so() -> bool:
        found = [worker.net_connections("tcp") for worker in workers(stage)]
        return len(found) == WORKERS and all(any(c.status == psutil.CONN_LISTEN for c in each) for each in found)

    await until(is_so, "all workers serve", 60)


async def on_each_worker(stage: Stage) -> dict[int, Client]:
    """A connection to every worker, by its pid."""
    clients: dict[int, Client] = {}
    while len(clients) < WORKERS:
        batch = await asyncio.gather(*(stage.client() for _ in range(4 * WORKERS)))
        assert {reply.status for reply in await asyncio.gather(*(client.ask(COLD) for client in batch))} == {200}
        held_by = servers(stage)
        for client in batch:
            if clients.setdefault(held_by[port_of(client)].pid, client) is not client:
                client.fin()
    return clients


async def nobody_accepts(stage: Stage) -> bool:
    try:
        (await stage.client()).fin()
    except ConnectionRefusedError:
        return True
    return False


class Streaming:
    """A stream that goes on until it may end."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def script(self, link: Link) -> None:
        await link.head()
        await link.chunk(EVENT)
        await self.gate.wait()
        await link.chunk(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        await link.end()


async def some_requests(stage: Stage, number: int) -> None:
    async with await stage.client() as client:
        for _ in range(number):
            reply = await client.ask(COLD)
            assert reply.status == 200, reply.raw


async def test_b71_a_thousand_requests_are_a_thousand_at_each_scrape_also_after_a_kill(stage: Stage) -> None:
    before = await count(stage, REQUESTS)
    replaced = await count(stage, RESTARTS)
    seen = []
    for part in range(2):
        asking = [asyncio.create_task(some_requests(stage, 25)) for _ in range(20)]
        seen += [await count(stage, REQUESTS) - before for _ in range(10)]
        await asyncio.gather(*asking)
        await counts(stage, REQUESTS, before + 500 * (part + 1))
        if not part:
            workers(stage)[0].kill()
    assert seen == sorted(seen)
    for _ in range(20):
        page = (await stage.router.get("/metrics", admin=True)).body.decode()
        types = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
        assert len(types) == len(set(types))
        assert await count(stage, REQUESTS) - before == 1000
    await counts(stage, RESTARTS, replaced + 1)
    await counts(stage, IN_FLIGHT, 0)
    await all_serve(stage)
    await some_requests(stage, 10)
    await counts(stage, REQUESTS, before + 1010)


async def test_b71_a_killed_worker_breaks_its_own_streams_only_and_nothing_stays_in_flight(stage: Stage) -> None:
    streaming = Streaming()
    stage.script(answers())
    clients = await on_each_worker(stage)
    stage.script(streaming.script)
    for client in clients.values():
        await client.send(request(STREAM), "POST")
    for client in clients.values():
        await client.has(EVENT)
    await counts(stage, IN_FLIGHT, WORKERS)
    victim, *others = clients
    os.kill(victim, signal.SIGKILL)
    reply = await clients[victim].end()
    assert (reply.complete, reply.closed) == (False, True)
    clients[victim].fin()
    await counts(stage, IN_FLIGHT, WORKERS - 1)
    assert (await stage.ask(body(temperature=2.0), path="/v1/models", method="GET")).status == 200
    streaming.gate.set()
    for pid in others:
        reply = await clients[pid].end()
        assert (reply.status, reply.complete) == (200, True)
        assert reply.body.endswith(b"data: [DONE]\n\n")
        clients[pid].fin()
    await counts(stage, IN_FLIGHT, 0)
    await counts(stage, CLIENTS, 0)


async def test_b71_all_workers_decide_on_what_all_of_them_have_in_flight(stage: Stage) -> None:
    """Least loaded: two held requests go to the two engines, whichever workers took them."""
    clients = list((await on_each_worker(stage)).values())
    stage.clear()
    stage.script(hangs)
    for number, client in enumerate(clients, 1):
        await client.send(request(COLD), "POST")
        await counts(stage, IN_FLIGHT, number)
    held = [len(engine.requests) for engine in stage.all_engines if engine.name.startswith(SPEC)]
    assert held == [WORKERS / 2, WORKERS / 2]
    for client in clients:
        client.fin()
    await counts(stage, IN_FLIGHT, 0)


async def test_b53_failures_on_different_workers_add_up_and_all_of_them_leave_the_engine_out(stage: Stage) -> None:
    clients = list((await on_each_worker(stage)).values())
    stage.clear()
    frozen, well = stage.spec, stage.all_engines[2]
    await well.refuse()
    await stage.router.lost(well.name)
    frozen.script = hangs
    statuses = [reply.status for reply in await asyncio.gather(*(client.ask(COLD) for client in clients))]
    assert statuses == [504] * FAILURES_MAX
    assert (await stage.router.health_of())[frozen.name] == "ejected"
    await well.listen()
    await stage.router.settled(well.name)
    for client in clients:
        assert (await client.ask(COLD)).status == 200
        client.fin()
    assert len([seen for seen in frozen.requests if seen.target == CHAT]) == FAILURES_MAX
    frozen.script = answers()
    await stage.router.settled()


async def test_a_port_that_refuses_one_worker_is_out_for_all(stage: Stage) -> None:
    clients = list((await on_each_worker(stage)).values())
    gone = stage.spec
    await gone.refuse()
    for client in clients:
        assert (await client.ask(COLD)).status == 200
        client.fin()
    await stage.router.lost(gone.name)  # by a health check where chance sent nobody there
    assert (await stage.router.health_of())[gone.name] == "down"
    await gone.listen()
    await stage.router.settled()


async def test_b46_a_worker_learns_of_an_engines_health_before_it_relays_a_500(stage: Stage) -> None:
    sick, well = stage.spec, stage.all_engines[2]
    sick.script = answers(b"{}", 500)
    well.script = answers(b"{}", 500)
    assert (await stage.ask(COLD)).status == 500  # a healthy engine's 500 is its answer
    well.script = answers()
    sick.probes["/health"] = answers(b"", 503)
    for _ in range(3):
        assert (await stage.ask(COLD)).status == 200


async def test_a_worker_that_is_told_to_end_finishes_its_stream_and_somebody_else_is_there_at_once(
    stage: Stage,
) -> None:
    streaming = Streaming()
    stage.script(streaming.script)
    replaced = await count(stage, RESTARTS)
    async with await stage.client() as client:
        await client.send(request(STREAM), "POST")
        await client.has(EVENT)
        leaving = servers(stage)[port_of(client)]
        leaving.terminate()
        await counts(stage, RESTARTS, replaced + 1)
        assert leaving.is_running()
        streaming.gate.set()
        assert (await client.end()).body.endswith(b"data: [DONE]\n\n")
    await asyncio.to_thread(leaving.wait, 20)


async def test_all_workers_list_models_and_are_ready(stage: Stage) -> None:
    for client in (await on_each_worker(stage)).values():
        models = await client.ask(None, method="GET", path="/v1/models")
        assert [card["id"] for card in models.json()["data"]] == ["m"]
        for path in ("/ready", "/health"):
            assert (await client.ask(None, method="GET", path=path)).status == 200
        client.fin()


async def test_workers_whose_supervisor_is_killed_finish_their_streams_and_end(stage: Stage, tmp_path: Path) -> None:
    streaming = Streaming()
    async with staged(tmp_path, SETTINGS | {"workers": 2}) as other:
        other.script(streaming.script)
        async with await other.client() as client:
            await client.send(request(STREAM), "POST")
            await client.has(EVENT)
            orphans = workers(other)
            await other.router.kill_only_the_first()
            await until(lambda: nobody_accepts(other), "nobody accepts clients")
            streaming.gate.set()
            assert (await client.end()).body.endswith(b"data: [DONE]\n\n")
        gone, alive = await asyncio.to_thread(psutil.wait_procs, orphans, 20)
        assert (len(gone), alive) == (2, [])


class Regular:
    """A client that asks again and again on one connection, and on another one where that ended."""

    def __init__(self, stage: Stage, client: Client) -> None:
        self.stage = stage
        self.client = client
        self.served = 0
        self.broken = 0

    async def ask_until(self, over: asyncio.Event) -> None:
        while not over.is_set():
            try:
                reply = await self.client.ask(COLD)
            except OSError:
                reply = self.client.reply
            if reply.complete:
                assert reply.status == 200, reply.raw
                self.served += 1
            else:
                self.broken += 1
                self.client.fin()
                self.client = await self.stage.client()


async def test_a_worker_killed_under_load_costs_its_own_clients_one_request_and_nobody_else_any(stage: Stage) -> None:
    held = await on_each_worker(stage)
    regulars = {pid: Regular(stage, client) for pid, client in held.items()}
    over = asyncio.Event()
    asking = [asyncio.create_task(regular.ask_until(over)) for regular in regulars.values()]

    async def served(times: int) -> None:
        async def is_so() -> bool:
            return all(regular.served >= times for regular in regulars.values())

        await until(is_so, f"{times} requests of each client are served", 30)

    await served(10)
    victim = next(iter(regulars))
    os.kill(victim, signal.SIGKILL)
    await served(max(regular.served for regular in regulars.values()) + 10)
    over.set()
    await asyncio.gather(*asking)
    broken = {pid: regular.broken for pid, regular in regulars.items()}
    assert broken.pop(victim) <= 1
    assert set(broken.values()) == {0}
    for regular in regulars.values():
        regular.client.fin()
