"""Sockets on every address of a name: both families for `::`, one port for all, and no address that this host lacks."""

import asyncio
import errno
import socket
from collections.abc import Callable, Iterator

import pytest

from breakeven import addresses
from breakeven.addresses import bound_sockets

V4, V6 = socket.AF_INET, socket.AF_INET6


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Every socket that was opened; closed afterwards."""
    opened = []
    real = addresses.bound_socket

    def remembered(*args: object, **kwargs: object) -> socket.socket:
        opened.append(real(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(addresses, "bound_socket", remembered)
    yield opened
    for each in opened:
        each.close()


def stand_for(monkeypatch: pytest.MonkeyPatch, *found: tuple[int, str]) -> None:
    """Let every name stand for these addresses."""

    async def look_up(_: str) -> list[tuple[int, str]]:
        return list(found)

    monkeypatch.setattr(addresses, "_look_up", look_up)


async def can_connect(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


async def reached(sockets: list[socket.socket]) -> list[str]:
    """The loopback addresses at which the sockets are heard."""
    port = sockets[0].getsockname()[1]
    for each in sockets:
        each.listen()
    return [host for host in ("127.0.0.1", "::1") if await can_connect(host, port)]


async def test_a_name_that_stands_for_nothing_is_an_error() -> None:
    with pytest.raises(OSError, match="not known"):
        await bound_sockets("nowhere.invalid", 0)


async def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, opened: list[socket.socket]
) -> None:
    with socket.create_server(("::1", 0), family=V6) as taken:
        stand_for(monkeypatch, (V4, "127.0.0.1"), (V6, "::1"))
        with pytest.raises(OSError, match="in use"):
            await bound_sockets("both", taken.getsockname()[1])
        assert [each.fileno() for each in opened] == [-1]


async def test_an_address_that_this_host_lacks_is_left_out(
    monkeypatch: pytest.MonkeyPatch, opened: list[socket.socket]
) -> None:
    stand_for(monkeypatch, (V6, "2001:db8::1"), (V4, "127.0.0.1"))
    assert [each.getsockname()[0] for each in await bound_sockets("half", 0)] == ["127.0.0.1"]


async def test_where_this_host_has_none_of_them_it_is_an_error(
    monkeypatch: pytest.MonkeyPatch, opened: list[socket.socket]
) -> None:
    stand_for(monkeypatch, (V6, "2001:db8::1"), (V4, "192.0.2.1"))
    with pytest.raises(OSError) as lacking:  # noqa: PT011  # the number is asserted below
        await bound_sockets("elsewhere", 0)
    assert lacking.value.errno == errno.EADDRNOTAVAIL


@pytest.mark.parametrize(
    ("host", "heard"),
    [("::", ["127.0.0.1", "::1"]), ("0.0.0.0", ["127.0.0.1"]), ("::1", ["::1"]), ("", ["127.0.0.1", "::1"])],
)
async def test_unspecified_addresses_are_heard_where_one_expects_it(
    host: str, heard: list[str], opened: list[socket.socket]
) -> None:
    assert await reached(await bound_sockets(host, 0)) == heard


async def test_all_addresses_of_a_name_get_one_port(
    monkeypatch: pytest.MonkeyPatch, opened: list[socket.socket]
) -> None:
    stand_for(monkeypatch, (V4, "127.0.0.1"), (V6, "::1"))
    assert await reached(await bound_sockets("localhost", 0)) == ["127.0.0.1", "::1"]


async def test_an_address_that_a_name_stands_for_twice_is_bound_once(
    monkeypatch: pytest.MonkeyPatch, opened: list[socket.socket]
) -> None:
    loop = asyncio.get_running_loop()
    entry: tuple[int, int, int, str, tuple[str, int]] = (V4, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))

    async def twice(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [entry, entry]

    look_up: Callable[..., object] = twice
    monkeypatch.setattr(loop, "getaddrinfo", look_up)
    assert len(await bound_sockets("twice", 0)) == 1
