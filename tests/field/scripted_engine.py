"""A fake engine that does what a test tells it and remembers what reached it.

It listens on a loopback port chosen by the system. Probes (`/health`, `/metrics`, `/v1/models`, `/version`) are
answered as by a healthy engine and stay out of `requests`. Every other request is remembered as a `Seen` and handed to
the script of the moment, a coroutine that writes whatever it likes: half an event, a reset, nothing at all. h11 reads
the requests, so that the framing of the router is judged by somebody else's parser.
"""

import asyncio
import json
import ssl
import time

import h11

from tests.field.scripts import PATIENCE_S, Link, Script, Seen, answers

HEAD_BYTES_MAX = 1 << 20
"""h11's default of 16 KiB would refuse heads that the router is free to pass on."""

ACCEPT_TURNS = 10
"""Turns of the loop in which an accepted socket becomes a connection; asyncio loses one that meets a closed server."""

METRICS_PAGE = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 0.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
"""


def model_list(*models: str) -> bytes:
    """A /v1/models answer that lists these ids."""
    cards = [{"id": model, "object": "model", "created": 1, "owned_by": "vllm", "root": model} for model in models]
    return json.dumps({"object": "list", "data": cards}).encode()


class Engine:
    """One scripted engine. `script` says what happens to the next requests; `requests` is what reached it so far."""

    def __init__(self, name: str, models: bytes | None = None) -> None:
        self.name = name
        self.host = "127.0.0.1"
        self.port = 0
        self.models = models or model_list("m")
        self.tls: ssl.SSLContext | None = None
        self.script: Script = answers()
        self.requests: list[Seen] = []
        self.probed: list[Seen] = []
        self.faults: list[str] = []
        self.probes: dict[str, Script] = {}
        self.in_flight = 0
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self.clear()

    def clear(self) -> None:
        """Forget the requests and answer plainly again."""
        self.script = answers()
        self.requests.clear()
        self.probed.clear()
        self.faults.clear()
        self.probes = {
            "/health": answers(b"", headers=()),
            "/version": answers(b'{"version":"0.33.0"}'),
            "/metrics": answers(METRICS_PAGE, headers=[("Content-Type", "text/plain; version=0.0.4")]),
            "/v1/models": answers(self.models),
        }

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    async def listen(self) -> None:
        """Start listening, on the port of last time if there was one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), self.host, self.port, backlog=2048, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Close the port and every connection: from now on connections are refused."""
        if self._server is not None:
            for listening in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listening)
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.transport.abort()
        while self.connections:
            await self._change()

    async def request(self, number: int = 1) -> Seen:
        """Wait for the request of that number, counted from one."""
        while len(self.requests) < number:
            await self._change()
        return self.requests[number - 1]

    async def busy(self, with_requests: int) -> None:
        """Wait until exactly so many requests are being served."""
        while self.in_flight != with_requests:
            await self._change()

    async def _change(self) -> None:
        self._changed.clear()
        await asyncio.wait_for(self._changed.wait(), PATIENCE_S)

    def changed(self) -> None:
        """Wake whoever waits for this engine."""
        self._changed.set()


class _Connection(asyncio.Protocol):
    """Reads requests one after the other; while one is served, further bytes wait."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.transport: asyncio.Transport
        self.seen: Seen | None = None
        self.task: asyncio.Task[None] | None = None
        self.raw = bytearray()
        self.body: list[bytes] = []
        self.parser = _parser()
        self.served = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.engine.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self.raw += data
        if self.task is None:
            self._feed(data)
        else:
            self.engine.faults.append(f"bytes after a request and before its answer: {data[:80]!r}")

    def eof_received(self) -> bool:
        self._departed()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._departed()
        self.engine.connections.discard(self)
        if self.task is not None:
            self.task.cancel()
        self.engine.changed()

    def _departed(self) -> None:
        if self.seen is not None and self.seen.closed_s is None:
            self.seen.closed_s = time.monotonic()
            self.seen.closed.set()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.receive_data(data)
            while (event := self.parser.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self.body.append(bytes(event.data))
                elif isinstance(event, h11.EndOfMessage):
                    self._serve()
                    return
        except h11.RemoteProtocolError as error:
            self.engine.faults.append(f"malformed request: {error}: {bytes(self.raw[:200])!r}")
            self.transport.abort()

    def _begin(self, head: h11.Request) -> None:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers.raw_items()]
        self.seen = Seen(head.method.decode(), head.target.decode("latin-1"), headers, time.monotonic(), self.served)
        self.served = True

    def _serve(self) -> None:
        assert self.seen is not None
        self.seen.body = b"".join(self.body)
        self.seen.raw = bytes(self.raw)
        script = self.engine.probes.get(self.seen.target) if self.seen.method == "GET" else None
        if script is None:
            script = self.engine.script
            self.engine.requests.append(self.seen)
            self.task = asyncio.create_task(self._counted(script, Link(self.transport, self.seen)))
        else:
            self.engine.probed.append(self.seen)
            self.task = asyncio.create_task(self._run(script, Link(self.transport, self.seen)))

    async def _counted(self, script: Script, link: Link) -> None:
        self.engine.in_flight += 1
        self.engine.changed()
        try:
            await self._run(script, link)
        finally:
            self.engine.in_flight -= 1
            self.engine.changed()

    async def _run(self, script: Script, link: Link) -> None:
        try:
            await script(link)
        except Exception as error:  # noqa: BLE001 - a fault of the test's script must surface in the test, not in a log
            self.engine.faults.append(f"script failed: {error!r}")
            self.transport.abort()
        self.task = None
        self.seen = None
        rest, _ = self.parser.trailing_data
        self.parser = _parser()
        self.raw.clear()
        self.body = []
        if rest:
            self.engine.faults.append(f"pipelined bytes: {rest[:80]!r}")


def _parser() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
