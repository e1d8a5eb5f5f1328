"""An engine that keeps a journal of what it was asked and what it said, for tests that kill it at any instant.

    python -m tests.system.chaos.engine NAME PORT JOURNAL

Each line of the journal is written before that of which it tells, past every buffer, so that it outlives SIGKILL:

    asked TOKEN LIFE SHA256      a request was read whole (TOKEN is its `user`, LIFE the number of this process)
    said TOKEN LIFE NUMBER       an event, or the whole of a JSON answer, is about to be written
    ended TOKEN LIFE             so is the end of the answer

SIGUSR1 makes it ten times slower, SIGUSR2 as fast as at first. After SIGTERM it behaves like vLLM: it accepts nobody,
says nothing more to anybody, and ends when all clients have left. Idle connections it closes within about a second, so
that the router meets some that are just being closed.
"""

import asyncio
import hashlib
import json
import os
import random
import signal
import sys

import httptools

SLOWNESS = 10
IDLE_S = (0.3, 1.5)
"""How long an idle connection is kept; vLLM keeps it 5 s, which would hardly ever meet a request here."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\n"
STREAM_HEAD = HEAD % b"text/event-stream; charset=utf-8" + b"transfer-encoding: chunked\r\n\r\n"


def document(body, kind=b"application/json"):
    return HEAD % kind + b"content-length: %d\r\n\r\n%b" % (len(body), body)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(content, finish):
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return (
        b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}).encode() + b"\n\n"
    )


class Engine:
    """What the connections share."""

    def __init__(self, name, journal, life):
        self.name, self.life = name, life
        self.slowness = 1
        self.running = self.tokens = self.prompts = 0
        self.halted = False
        self.connections = set()
        self.empty = asyncio.Event()
        self._journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, what, token, *rest):
        os.write(self._journal, " ".join(map(str, (what, token, self.life, *rest))).encode() + b"\n")

    def page(self, path):
        """The answer to a question about the engine itself; None where it is none."""
        if path == b"/health":
            return document(b"")
        if path == b"/v1/models":
            return document(b'{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"chaos"}]}')
        if path == b"/version":
            return document(b'{"version":"0.33.0"}')
        if path == b"/metrics":
            values = {
                "num_requests_running": self.running,
                "num_requests_waiting": 0,
                "generation_tokens_total": self.tokens,
                "prompt_tokens_total": self.prompts,
            }
            lines = [f'vllm:{name}{{engine="0",model_name="m"}} {value}\n' for name, value in values.items()]
            return document("".join(lines).encode(), b"text/plain")
        return None

    def slow_down(self):
        self.slowness = SLOWNESS

    def speed_up(self):
        self.slowness = 1

    def halt(self, server):
        """SIGTERM."""
        self.halted = True
        server.close()
        for connection in list(self.connections):
            connection.close_if_idle()
        self.left()

    def left(self):
        if self.halted and not self.connections:
            self.empty.set()


class Connection(asyncio.Protocol):
    """One client, one request at a time."""

    def __init__(self, engine):
        self.engine = engine
        self.parser = httptools.HttpRequestParser(self)
        self.answering = self.idling = None
        self.path = b""
        self.body = []
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport):
        self.transport = transport
        self.engine.connections.add(self)
        self._wait_for_request()

    def connection_lost(self, exc):
        self.idling.cancel()
        self.engine.connections.discard(self)
        if self.answering is not None:
            self.answering.cancel()
        self.engine.left()

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def data_received(self, data):
        self.idling.cancel()
        self.parser.feed_data(data)

    def close_if_idle(self):
        if self.answering is None:
            self.transport.close()

    def on_message_begin(self):
        self.path, self.body = b"", []

    def on_url(self, piece):
        self.path += piece

    def on_body(self, piece):
        self.body.append(piece)

    def on_message_complete(self):
        page = self.engine.page(self.path)
        if self.engine.halted:
            self.transport.close()
        elif page is not None:
            self.transport.write(page)
            self._wait_for_request()
        else:
            body = b"".join(self.body)
            asked = json.loads(body)
            self.engine.note("asked", asked.get("user", "-"), hashlib.sha256(body).hexdigest())
            self.answering = asyncio.get_running_loop().create_task(self._answer(asked))

    def _wait_for_request(self):
        idle_s = random.uniform(*IDLE_S)  # noqa: S311  # a race, not a secret
        self.idling = asyncio.get_running_loop().call_later(idle_s, self.close_if_idle)

    async def _answer(self, asked):
        engine, token, plan = self.engine, asked.get("user", "-"), asked.get("metadata", {})
        engine.running += 1
        engine.prompts += 1
        try:
            if asked.get("stream"):
                await self._stream(token, int(plan["events"]), int(plan["gap_ms"]) / 1000, int(plan["filler_bytes"]))
            else:
                await self._pause(int(plan.get("gap_ms", 0)) / 1000)
                content = f"{token} {engine.name} {engine.life} 0"
                message = {"index": 0, "message": {"content": content}, "text": content, "finish_reason": "stop"}
                engine.note("said", token, 0)
                engine.note("ended", token)
                engine.tokens += 1
                self.transport.write(document(json.dumps({"id": "c", "choices": [message]}).encode()))
        finally:
            engine.running -= 1
        self.answering = None
        self._wait_for_request()

    async def _stream(self, token, events, gap_s, filler_bytes):
        engine = self.engine
        filler = "x" * filler_bytes
        await self._pause(gap_s)
        self.transport.write(STREAM_HEAD)
        for number in range(events):
            if number:
                await self._pause(gap_s)
            await self.writable.wait()
            engine.note("said", token, number)
            engine.tokens += 1
            self.transport.write(chunk(event(f"{token} {engine.name} {engine.life} {number} {filler}", None)))
        engine.note("ended", token)
        self.transport.write(chunk(event("", "stop") + b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async def _pause(self, gap_s):
        await asyncio.sleep(gap_s * self.engine.slowness)
        if self.engine.halted:
            await asyncio.Event().wait()  # until the client leaves


async def serve(name, port, journal, life):
    loop = asyncio.get_running_loop()
    engine = Engine(name, journal, life)
    server = await loop.create_server(lambda: Connection(engine), "127.0.0.1", port, backlog=2048)
    loop.add_signal_handler(signal.SIGUSR1, engine.slow_down)
    loop.add_signal_handler(signal.SIGUSR2, engine.speed_up)
    loop.add_signal_handler(signal.SIGTERM, engine.halt, server)
    print(f"ready on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await engine.empty.wait()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), sys.argv[3], os.getpid()))
