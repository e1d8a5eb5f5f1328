"""What the kernel is told about silent connections, read back from real sockets."""

import asyncio
import socket

import pytest
import uvloop

from breakeven import keepalive
from breakeven.addresses import bound_sockets
from breakeven.keepalive import ENGINE_UNANSWERED_MS, watch_clients, watch_engine
from breakeven.listener import Listener
from breakeven.upstream import ConnectionPool
from tests.router.test_upstream import Ear


def probes_of(tcp: socket.socket) -> tuple[int, int, int, int]:
    """Whether it is probed, after how many seconds of silence, how often, and how many times in vain."""
    options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
    return (
        tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        *(tcp.getsockopt(socket.IPPROTO_TCP, option) for option in options),
    )


def test_an_engine_that_vanished_is_noticed_within_half_a_minute_whether_or_not_bytes_are_under_way() -> None:
    with socket.socket() as tcp:
        watch_engine(tcp)
        on, idle_s, interval_s, probes = probes_of(tcp)
        assert on
        assert idle_s + interval_s * probes == 30
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == ENGINE_UNANSWERED_MS == 30_000


def test_a_client_that_vanished_is_noticed_but_a_slow_one_is_waited_for() -> None:
    with socket.socket() as tcp:
        watch_clients(tcp)
        on, idle_s, interval_s, probes = probes_of(tcp)
        assert on
        assert idle_s + interval_s * probes == 120
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0


def test_where_a_system_knows_less_what_it_knows_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    on, idle, interval, probes = 1, 15, 5, 3
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_USER_TIMEOUT"):
        value = getattr(socket, name)
        monkeypatch.delattr(socket, name)
        if name == "TCP_KEEPIDLE":
            monkeypatch.setattr(keepalive.socket, "TCP_KEEPALIVE", value, raising=False)  # macOS's name
    monkeypatch.setattr(keepalive, "ENGINE_OPTIONS", keepalive.engine_options())
    with socket.socket() as tcp:
        watch_engine(tcp)
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == on
        assert tcp.getsockopt(socket.IPPROTO_TCP, 4) == idle
        assert tcp.getsockopt(socket.IPPROTO_TCP, 5) != interval
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == probes


def test_every_accepted_client_and_every_connection_to_an_engine_is_watched() -> None:
    """However it was accepted: by the loop or by the listener itself."""

    async def case() -> None:
        made: asyncio.Queue[socket.socket] = asyncio.Queue()

        class Client(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.put_nowait(transport.get_extra_info("socket"))

        listener = Listener(Client, lambda _error: None)
        port = await listener.open(await bound_sockets("127.0.0.1", 0))
        ears = [Ear(), Ear()]
        pool = ConnectionPool("127.0.0.1", port, tls=None, connect_timeout_s=5, keepalive_s=4, now=lambda: 0.0)
        for ear in ears:
            pool.open(ear)
        for ear in ears:
            await ear.connected.wait()
            assert ear.connection is not None
            assert ear.connection._transport is not None
            outgoing = ear.connection._transport.get_extra_info("socket")
            assert probes_of(outgoing) == (1, 15, 5, 3)
            assert outgoing.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == ENGINE_UNANSWERED_MS
            assert probes_of(await made.get()) == (1, 60, 10, 6)
            ear.connection.drop()
        listener.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(case())
