"""The programs of an overhead measurement, each in the loop of the test."""

import asyncio
from contextlib import asynccontextmanager


@asynccontextmanager
async def listening(protocol):
    """The port on which such protocols are made."""
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def connected(port):
    """Reader and writer of a connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()
