"""The clients of one load, in a process of their own so that nothing else delays what they measure.

    python -m breakeven_bench.overhead.visitor PORT LOAD

Prints one JSON line, a `Visit`. An answer counts as good only if it is whole: status 200, every event, the end.
"""

import asyncio
import sys
from time import monotonic_ns, perf_counter
from typing import cast

import httptools
import msgspec
import uvloop

from breakeven_bench.overhead.loads import LOADS, Load
from breakeven_bench.overhead.result import Visit
from breakeven_bench.stats import interpolated

LIMIT_S = 60.0
"""No load takes longer where anything works; what is missing then has failed."""

_MARK = b'"at":'
_END = b"data: [DONE]"


class Group:
    """What the clients of a load share: how many requests are left, and what was seen."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.request = load.request()
        self.left = load.requests
        self.running = 0
        self.good = 0
        self.first_s: list[float] = []
        self.delays_s: list[float] = []
        self.over = asyncio.Event()

    def leave(self) -> None:
        """A client is done."""
        self.running -= 1
        if self.running == 0:
            self.over.set()


class Client(asyncio.Protocol):
    """Asks, reads, asks again."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._began_s = 0.0
        self._seen = False
        self._events = 0
        self._ended = False
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._group.running += 1
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        if _MARK in data:
            self._time(data)
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # gone is gone
        """A client whose connection is lost asks no more: what it did not get is missing in the count."""
        self._transport = None
        self._group.leave()

    def on_body(self, piece: bytes) -> None:
        """A piece of the answer."""
        if not self._group.load.is_stream:
            return
        *events, self._pending = (self._pending + piece).split(b"\n\n")
        for event in events:
            self._events += _MARK in event
            self._ended = self._ended or event == _END

    def on_message_complete(self) -> None:
        """An answer is complete."""
        group = self._group
        whole = self._parser.get_status_code() == 200
        if group.load.is_stream:
            whole = whole and self._ended and self._events == group.load.events
        elif whole:
            group.first_s.append(perf_counter() - self._began_s)
        group.good += whole
        self._ask()

    def _time(self, data: bytes) -> None:
        now_ns = monotonic_ns()
        if not self._seen:
            self._seen = True
            self._group.first_s.append(perf_counter() - self._began_s)
        start = data.index(_MARK) + len(_MARK)
        stamp, end, _ = data[start:].partition(b"}")
        if end and stamp.isdigit():  # else the read ends inside of it
            self._group.delays_s.append((now_ns - int(stamp)) / 1e9)

    def _ask(self) -> None:
        if self._transport is None:
            return
        if self._group.left == 0:
            self._transport.close()
            return
        self._group.left -= 1
        self._seen = self._ended = False
        self._events = 0
        self._pending = b""
        self._began_s = perf_counter()
        self._transport.write(self._group.request)


async def visit(port: int, load: Load) -> Visit:
    """Send the whole load; what has no answer after `LIMIT_S` has failed. OSError where nobody listens."""
    loop = asyncio.get_running_loop()
    group = Group(load)
    began_s = perf_counter()
    transports = []
    for _ in range(load.connections):
        transport, _client = await loop.create_connection(lambda: Client(group), "127.0.0.1", port)
        transports.append(transport)
    try:
        async with asyncio.timeout(LIMIT_S):
            await group.over.wait()
    except TimeoutError:
        for transport in transports:
            transport.abort()
    seconds = perf_counter() - began_s
    first, delays = sorted(group.first_s), sorted(group.delays_s)
    return Visit(
        seconds,
        group.good,
        load.requests - group.good,
        _ms(first, 0.5),
        _ms(first, 0.99),
        _ms(delays, 0.5),
        _ms(delays, 0.99),
    )


def _ms(ordered_s: list[float], q: float) -> float | None:
    return round(interpolated(ordered_s, q) * 1000, 3) if ordered_s else None


if __name__ == "__main__":
    wanted = {load.name: load for load in LOADS}[sys.argv[2]]
    print(msgspec.json.encode(uvloop.run(visit(int(sys.argv[1]), wanted))).decode())
