"""One running engine as the tests see it: what can be asked of it, and how to wait for what its counters say."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from breakeven_bench.launch import Launcher, Server, free_port
from tests.contract.metrics_page import FINISHED, Page
from tests.contract.targets import MODEL, Shape, Target
from tests.field.client import CHAT, HI, JSON, Client, Reply, request

COMPLETIONS = "/v1/completions"
DONE = "[DONE]"

POLL_S = 0.05
"""How often a metrics page is asked for: an engine step of the slower target takes about three times as long."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine of `target`, listening on `port` of loopback; `server` is its process."""

    target: Target
    server: Server
    port: int

    async def listening(self) -> None:
        """Wait until connections are accepted; vLLM says that it is ready a moment before."""
        async with asyncio.timeout(self.target.patience_s):
            while not await accepts(self.port):  # noqa: ASYNC110  # a port tells nobody that it is open
                await asyncio.sleep(POLL_S)

    async def connect(self) -> Client:
        """A connection of one's own, with this target's patience."""
        client = await Client.connect(self.port)
        client.patience_s = self.target.patience_s
        return client

    async def send(self, content: bytes | None, path: str, method: str, **how: Any) -> Reply:
        """One whole exchange on a connection of its own."""
        async with await self.connect() as client:
            return await client.ask(content, path=path, method=method, **how)

    async def get(self, path: str) -> Reply:
        """The answer to a GET."""
        return await self.send(None, path, "GET")

    async def post(self, content: bytes, path: str = CHAT, headers: Any = JSON) -> Reply:
        """The answer to a body of these very bytes."""
        return await self.send(content, path, "POST", headers=headers)

    async def ask(self, path: str = CHAT, **fields: Any) -> Reply:
        """The answer to these fields, whatever its status."""
        return await self.post(body(path, **fields), path)

    async def answer(self, path: str = CHAT, **fields: Any) -> Any:
        """The document that answers these fields; its status must be 200."""
        reply = await self.ask(path, **fields)
        assert reply.status == 200, reply.raw
        return reply.json()

    async def stream(self, path: str = CHAT, **fields: Any) -> list[Any]:
        """The events of a complete stream, the last one of which is the word [DONE]."""
        reply = await self.ask(path, **{"stream": True, **fields})
        assert (reply.status, reply.complete) == (200, True), reply.raw
        return events_of(reply.body)

    async def page(self) -> Page:
        """The metrics page of this instant."""
        reply = await self.get("/metrics")
        assert reply.status == 200, reply.raw
        return Page.read(reply.body.decode())

    async def until(self, holds: Callable[[Page], bool]) -> Page:
        """The first page of which it holds; counters move a moment after the answer, and tell nobody."""
        async with asyncio.timeout(self.target.patience_s):
            while not holds(page := await self.page()):  # noqa: ASYNC110  # a page is only there when asked for
                await asyncio.sleep(POLL_S)
            return page

    async def idle(self) -> Page:
        """The page of an engine that does nothing."""
        return await self.until(lambda page: page.is_idle)

    async def after(self, before: Page, sequences: int = 1) -> Page:
        """What moved since `before`, once so many more sequences have ended and nothing runs."""
        wanted = before.value(FINISHED) + sequences
        page = await self.until(lambda page: page.is_idle and page.value(FINISHED) >= wanted)
        return page.since(before)


async def running(launcher: Launcher, target: Target, shape: Shape) -> Engine:
    """Start an engine and wait until it answers. Raises LaunchError."""
    port = free_port()
    server = launcher.start(target.command(shape, port))
    await server.ready()
    engine = Engine(target, server, port)
    await engine.listening()
    return engine


async def accepts(port: int) -> bool:
    """Whether somebody listens there.

    A port that is closed while a connection waits to be accepted resets that one; it refuses only those that follow.
    """
    try:
        async with await Client.connect(port):
            return True
    except (ConnectionRefusedError, ConnectionResetError):
        return False


def body(path: str = CHAT, **fields: Any) -> bytes:
    """A request for a short greedy answer with further fields; a field that is `...` is left out."""
    prompt = {"prompt": "The river"} if path == COMPLETIONS else {"messages": HI}
    merged = {"model": MODEL, "temperature": 0, "max_tokens": 4, **prompt, **fields}
    return json.dumps({name: value for name, value in merged.items() if value is not ...}).encode()


def raw_body(members: str) -> bytes:
    """The body of a short answer with members written as they are; it names no temperature of its own."""
    tail = f",{members}" if members else ""
    return f'{{"model":"{MODEL}","messages":[{{"role":"user","content":"hi"}}],"max_tokens":2{tail}}}'.encode()


def events_of(stream: bytes) -> list[Any]:
    """The payloads of an event stream, decoded; comments are skipped, anything but data lines is a fault."""
    assert stream.endswith(b"\n\n"), stream[-200:]
    events: list[Any] = []
    for block in stream.decode().removesuffix("\n\n").split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        assert all(line.startswith("data: ") for line in lines), block
        payload = "\n".join(line.removeprefix("data: ") for line in lines)
        if lines:
            events.append(DONE if payload == DONE else json.loads(payload))
    return events


def text_of(events: list[Any], choice: int = 0) -> str:
    """What a streamed choice says, on either endpoint."""
    parts = [part for event in events if event != DONE for part in event.get("choices", []) if part["index"] == choice]
    return "".join(part["text"] if "text" in part else part["delta"].get("content") or "" for part in parts)


def started(path: str = CHAT, **fields: Any) -> bytes:
    """The bytes of a request, for a connection that is to be left."""
    return request(body(path, **fields), path=path)
