"""B39 for a client that reads slowly: what its engine had said before it died is read first, then that it is cut."""

import asyncio
import socket

import pytest

from tests.field.client import Client, body, request
from tests.field.router import until
from tests.field.scripts import LAST_CHUNK, Link
from tests.field.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

EVENTS = [b'data: {"choices":[{"index":0,"delta":{"content":"%d %b"}}]}\n\n' % (n, b"x" * 60_000) for n in range(200)]
"""Twelve megabytes: more than two kernels hold between an engine and its client."""


async def connect_slow(stage: Stage) -> Client:
    """A client whose kernel takes little in advance."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", stage.router.port))
    return Client(*await asyncio.open_connection(sock=raw))


@pytest.mark.parametrize("way", ["dies", "ends"])
async def test_b39_a_slow_reader_reads_all_that_was_said_before_it_reads_of_the_end(stage: Stage, way: str) -> None:
    async def says_all_and_dies(link: Link) -> None:
        await link.head()
        for event in EVENTS:
            await link.chunk(event)
        link.fin() if way == "dies" else await link.end()

    stage.spec.script = says_all_and_dies
    async with await connect_slow(stage) as client:
        await client.send(request(body(temperature=0.2, stream=True)), "POST")
        await client.reader.readuntil(b"\r\n\r\n")

        def unsent() -> int:
            return sum(each.transport.get_write_buffer_size() for each in stage.spec.connections)

        async def held_up() -> bool:
            """Whether all three have as much as they take: nothing moves."""
            before = unsent()
            await asyncio.sleep(0.1)
            return 0 < unsent() == before

        await until(held_up, "the engine is held up by the client")
        raw = await client.reader.read()
    said, told = b"".join(EVENTS), unchunked(raw)
    assert told.startswith(said)
    assert b"upstream_error" in told[len(said) :]
    assert told.endswith(b"data: [DONE]\n\n")
    await stage.idle()


def unchunked(raw: bytes) -> bytes:
    """The body, which must be whole; h11 takes minutes for as much as this."""
    parts, rest = [], raw
    while (size := int(rest.partition(b"\r\n")[0], 16)) > 0:
        start = rest.index(b"\r\n") + 2
        parts.append(rest[start : start + size])
        rest = rest[start + size + 2 :]
    assert rest == LAST_CHUNK
    return b"".join(parts)
