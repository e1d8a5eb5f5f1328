"""Every client that waits is accepted at once, and none after the end; on the loop that the router runs on."""

import asyncio
import errno
import socket
from contextlib import ExitStack

import pytest
import uvloop

from breakeven.addresses import bound_sockets
from breakeven.listener import TAKEN_MAX, Listener
from tests.router.descriptors import descriptors_left

TURNS_MAX = 5
"""Turns of the loop in which a burst is accepted: to hear of it, to take it, to make the transports."""


class Echo(asyncio.Protocol):
    """Sends back what comes, and counts itself in."""

    def __init__(self, made):
        self._made = made

    def connection_made(self, transport):
        self._transport = transport
        self._made.append(self)

    def data_received(self, data):
        self._transport.write(data)


class House:
    """A listener, the protocols that it made, and clients that connect without giving way to the loop."""

    def __init__(self, host="127.0.0.1"):
        self.made = []
        self.shortages = []
        self._host = host
        self.listener = Listener(lambda: Echo(self.made), self.shortages.append)
        self._clients = ExitStack()

    async def __aenter__(self):
        self.port = await self.listener.open(await bound_sockets(self._host, 0))
        return self

    async def __aexit__(self, *_):
        self._clients.close()
        self.listener.close()
        for protocol in self.made:
            protocol._transport.abort()
        await asyncio.sleep(0)

    def come(self, count):
        return [
            self._clients.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=10))
            for _ in range(count)
        ]

    async def turns(self, count):
        for _ in range(count):
            await asyncio.sleep(0)

    async def until_made(self, count):
        async with asyncio.timeout(10):
            while len(self.made) < count:  # noqa: ASYNC110  # nothing tells that a transport was made
                await asyncio.sleep(0)


@pytest.fixture
def on_uvloop():
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner.run


def test_all_clients_that_wait_are_accepted_in_one_turn_of_the_loop(on_uvloop):
    async def case():
        async with House() as house:
            house.come(TAKEN_MAX)
            await house.turns(TURNS_MAX)
            return len(house.made)

    assert on_uvloop(case()) == TAKEN_MAX


def test_a_crowd_is_taken_in_parts_so_that_others_get_their_turn(on_uvloop):
    async def case():
        async with House() as house:
            house.come(4 * TAKEN_MAX)
            made = []
            while len(house.made) < 4 * TAKEN_MAX:
                before = len(house.made)
                await asyncio.sleep(0)
                made.append(len(house.made) - before)
            return max(made)

    assert 1 < on_uvloop(case()) <= TAKEN_MAX + 1


def test_however_a_client_was_accepted_it_is_served(on_uvloop):
    async def case():
        async with House() as house:
            clients = house.come(3)
            await house.until_made(3)
            loop = asyncio.get_running_loop()
            answers = []
            for number, client in enumerate(clients):
                client.setblocking(False)
                await loop.sock_sendall(client, b"%d" % number)
                answers.append(await loop.sock_recv(client, 10))
            return answers

    assert on_uvloop(case()) == [b"0", b"1", b"2"]


def test_once_closed_it_listens_nowhere_and_whom_it_accepted_stays(on_uvloop):
    async def case():
        async with House() as house:
            (client,) = house.come(1)
            await house.until_made(1)
            house.listener.close()
            await house.turns(TURNS_MAX)
            with pytest.raises(ConnectionRefusedError):
                house.come(1)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, b"still here")
            return await loop.sock_recv(client, 10)

    assert on_uvloop(case()) == b"still here"


def test_who_waits_when_it_closes_is_taken_and_not_reset(on_uvloop):
    async def case():
        async with House() as house:
            (client,) = house.come(1)
            house.listener.close()
            await house.until_made(1)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, b"in time")
            return await loop.sock_recv(client, 10)

    assert on_uvloop(case()) == b"in time"


def test_where_no_more_files_may_be_open_it_says_so_and_serves_again_later(on_uvloop):
    async def case():
        async with House() as house:
            house.come(8)
            with descriptors_left(1):  # which the loop takes
                await house.turns(2 * TURNS_MAX)
            house.come(2)
            await house.until_made(3)
            return {error.errno for error in house.shortages}

    assert on_uvloop(case()) == {errno.EMFILE}


def test_what_cannot_be_listened_on_although_it_was_bound_leaves_nothing_behind(on_uvloop):
    async def case():
        # Two sockets may be bound to one port as long as neither listens.
        first, second = (socket.socket() for _ in range(2))
        for each in (first, second):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        first.bind(("127.0.0.1", 0))
        second.bind(first.getsockname())
        first.listen()

        listener = Listener(asyncio.Protocol, print)
        with pytest.raises(OSError, match="in use"):
            await listener.open([second])
        first.close()
        return second.fileno(), listener._sockets

    assert on_uvloop(case()) == (-1, {})


@pytest.mark.skipif(not socket.has_ipv6, reason="Python was built without IPv6")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_two_colons_stand_for_both_families(on_uvloop, host):
    async def case():
        async with House("::") as house:
            with socket.create_connection((host, house.port), timeout=10):
                await house.until_made(1)

    on_uvloop(case())


def test_closing_twice_or_before_it_is_open_does_nothing():
    listener = Listener(asyncio.Protocol, print)
    listener.close()
    listener.close()


def test_at_a_socket_that_another_process_has_too_it_ends_without_a_reset(on_uvloop):
    """Who waits as it closes is taken; who comes later waits for whoever has the socket."""

    async def case():
        async with House() as house:
            (listening,) = house.listener.sockets
            with listening.dup() as held:
                (early,) = house.come(1)
                house.listener.close()
                (late,) = house.come(1)
                await house.until_made(1)
                successor = House()
                await successor.listener.open([held.dup()])
                await successor.until_made(1)
                successor.listener.close()
                loop = asyncio.get_running_loop()
                answers = []
                for client in (early, late):
                    client.setblocking(False)
                    await loop.sock_sendall(client, b"served")
                    answers.append(await loop.sock_recv(client, 10))
                successor.made[0]._transport.abort()
                return answers

    assert on_uvloop(case()) == [b"served", b"served"]
