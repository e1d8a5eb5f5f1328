"""A scripted server of chat completions for the load generator's tests: what it answers is what the test says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

DONE = b"data: [DONE]\n\n"

Script = Callable[["StreamingServer", web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def chunk(text: str, tokens: int, finish: str | None = None) -> bytes:
    """One event with continuous usage."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 5, "completion_tokens": tokens}
    return b"data: " + orjson.dumps({"choices": [choice], "usage": usage}) + b"\n\n"


@dataclass
class StreamingServer:
    """What came in: bodies and headers in order of arrival; how many requests are open, and were at most.

    `came` is set by the first request, `left` by the first client that hangs up.
    """

    script: Script
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    open: int = 0
    open_most: int = 0
    came: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.came.set()
        self.open += 1
        self.open_most = max(self.open_most, self.open)
        try:
            return await self.script(self, request, body)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        finally:
            self.open -= 1


async def respond(request: web.Request, *events: bytes, headers: dict[str, str] | None = None) -> web.StreamResponse:
    """An event stream of these pieces, each in a write of its own."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream"} | (headers or {}))
    await response.prepare(request)
    for event in events:
        await response.write(event)
    return response


@asynccontextmanager
async def serving(
    script: Script, models: Any = None, metrics: Callable[[StreamingServer], str] | None = None
) -> AsyncIterator[StreamingServer]:
    """The server on a free port of the loopback, gone afterwards; with `metrics`, it has that page, too."""
    server = StreamingServer(script)

    async def show_metrics(_: web.Request) -> web.Response:
        return web.Response(text=metrics(server)) if metrics is not None else web.Response(status=404)

    async def list_models(_: web.Request) -> web.Response:
        return web.json_response(models if models is not None else {"data": [{"id": "model-a"}, {"id": "model-b"}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.handle)
    app.router.add_get("/v1/models", list_models)
    app.router.add_get("/metrics", show_metrics)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()
