"""The bare relay passes on every byte, and no side outlives the other."""

import asyncio
from contextlib import asynccontextmanager

from breakeven_bench.overhead.bare import Downstream
from tests.bench.overhead.servers import connected, listening


class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if data == b"go away":
            self.transport.close()
        self.transport.write(data)


@asynccontextmanager
async def relayed(engine):
    """A client of a relay in front of such an engine."""
    async with (
        listening(engine) as engine_port,
        listening(lambda: Downstream(engine_port)) as port,
        connected(port) as client,
    ):
        yield client


async def test_what_is_said_before_and_after_the_engine_is_reached_arrives():
    async with relayed(Echo) as (reader, writer):
        for word in (b"first", b"second"):
            writer.write(word)
            assert await reader.readexactly(len(word)) == word


async def test_an_engine_that_closes_closes_the_client():
    async with relayed(Echo) as (reader, writer):
        writer.write(b"go away")
        assert await reader.read() in (b"", b"go away")


async def test_a_client_that_leaves_takes_its_connection_to_the_engine_along():
    gone = asyncio.Event()

    class Watched(Echo):
        def connection_lost(self, exc):
            gone.set()

    async with relayed(Watched) as (reader, writer):
        writer.write(b"hello")
        await reader.readexactly(5)
        writer.close()
        async with asyncio.timeout(5):
            await gone.wait()
