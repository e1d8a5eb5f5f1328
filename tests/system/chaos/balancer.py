"""A plain TCP balancer: asks each replica whether it is ready, and carries bytes to one that is.

What any of them does (a cloud's, HAProxy in mode tcp): it knows no HTTP, so that a connection stays where it is; a
replica that refuses a connection is passed over.
"""

import asyncio
from contextlib import suppress

ASKED_EVERY_S = 0.05


class Balancer:
    """Listens from `open` until `close`; `ports` are the replicas'."""

    def __init__(self, ports):
        self.ports = list(ports)
        self.ready = set()
        self.port = 0
        self._turn = 0
        self._tasks = set()

    async def open(self):
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        for port in self.ports:
            self._keep(self._ask_again_and_again(port))

    async def close(self):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, work):
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_again_and_again(self, port):
        while True:
            is_ready = await self._is_ready(port)
            (self.ready.add if is_ready else self.ready.discard)(port)
            await asyncio.sleep(ASKED_EVERY_S)

    async def _is_ready(self, port):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        try:
            writer.write(b"GET /ready HTTP/1.1\r\nhost: balancer\r\nconnection: close\r\n\r\n")
            return b" 200 " in await reader.readline()
        except OSError:
            return False
        finally:
            writer.close()

    async def _carry(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        asyncio.current_task().add_done_callback(self._tasks.discard)
        try:
            back, forth = await self._connect()
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, forth), self._pump(back, writer))

    async def _connect(self):
        """A connection to the next replica that is ready and takes it. OSError where none does."""
        self._turn += 1
        ports = self.ports[self._turn % len(self.ports) :] + self.ports[: self._turn % len(self.ports)]
        for port in sorted(ports, key=lambda port: port not in self.ready):
            with suppress(ConnectionRefusedError):
                return await asyncio.open_connection("127.0.0.1", port)
        raise ConnectionRefusedError

    async def _pump(self, reader, writer):
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()
