"""`breakeven.clients`: everybody is counted, and at the end nobody is cut off who could still be answered."""

import asyncio

from breakeven.clients import Clients


class Metrics:
    client_connections = 0


class Client:
    """Leaves as soon as it is told to drain, unless it is busy."""

    def __init__(self, clients, *, busy=False):
        self._clients, self._busy = clients, busy
        self.told, self.drained = [], asyncio.Event()

    def part(self):
        self.told.append("part")

    def drain(self):
        self.told.append("drain")
        self.drained.set()
        if not self._busy:
            self._clients.discard(self)

    def expire(self):
        self.told.append("expire")
        self._clients.discard(self)

    def leave_if_idle(self, since_s):
        self.told.append(since_s)


def with_client(*, busy=False):
    clients = Clients(Metrics())
    client = Client(clients, busy=busy)
    clients.add(client)
    return clients, client


async def test_who_is_not_done_in_time_is_thrown_out():
    clients, client = with_client(busy=True)
    assert not await clients.leave(0.01)
    assert client.told == ["part", "drain", "expire"]
    assert clients._metrics.client_connections == 0


async def test_who_is_still_there_when_nobody_waits_any_more_is_thrown_out():
    clients, client = with_client(busy=True)
    leaving = asyncio.create_task(clients.leave(60))
    await client.drained.wait()
    leaving.cancel()
    await asyncio.wait([leaving])
    assert client.told == ["part", "drain", "expire"]


async def test_who_comes_in_the_moment_of_the_end_may_ask_once_and_who_comes_later_goes_at_once():
    clients, busy = with_client(busy=True)
    leaving = asyncio.create_task(clients.leave(60))
    await asyncio.sleep(0)
    last, late = Client(clients, busy=True), Client(clients)
    clients.add(last)
    assert (busy.told, last.told) == (["part"], ["part"])
    await busy.drained.wait()
    clients.add(late)
    assert late.told == ["drain"]
    for client in (busy, last):
        clients.discard(client)
    assert await leaving
    assert busy.told == last.told == ["part", "drain"]


async def test_where_there_is_time_an_idle_client_is_only_told_and_leaves_with_its_next_answer(monkeypatch):
    monkeypatch.setattr("breakeven.clients.LAST_CALL_S", 0.0)
    clients, client = with_client(busy=True)
    leaving = asyncio.create_task(clients.leave(60, idle_s=60))
    for _ in range(10):  # turns of the loop, of which its last call takes one
        await asyncio.sleep(0)
    clients.discard(client)
    async with asyncio.timeout(10):
        assert await leaving
    assert client.told == ["part"]


async def test_who_asks_nothing_for_that_long_is_sent_away():
    clients, client = with_client()
    assert await clients.leave(60, idle_s=0.01)
    assert client.told == ["part", "drain"]


async def test_who_has_been_idle_for_too_long_is_asked_to_go_and_everybody_is_counted():
    clients, client = with_client()
    clients.dismiss(7.0)
    assert client.told == [7.0]
    assert clients._metrics.client_connections == 1
