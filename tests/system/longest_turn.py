"""How long one turn of the loop takes at most: CPU time, for what could stop everybody's tokens.

    python -m tests.system.longest_turn [part of a name ...]

A proxy on the loop of the real one, whose turns are timed; client and engine are threads of their own, whose CPU time
does not count. The smallest of several runs is shown: noise of the machine only adds.
"""

import asyncio
import gzip
import json
import random
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import uvloop

from breakeven.addresses import bound_sockets
from breakeven.config import BackendAddress, Settings
from breakeven.engine_client import EngineClient, EngineError
from breakeven.fleet import Fleet, ModelsListed, ProbeSucceeded
from breakeven.metrics import Metrics
from breakeven.model_cards import ModelDirectory
from breakeven.proxy import Proxy
from breakeven.recorder import Recorder

RUNS = 5
MB = 1_000_000
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
LINE = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
WAIT_S = 60.0


def sized(head: bytes, body: bytes) -> bytes:
    """A message with its length."""
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


ANSWER = sized(LINE + b"Content-Type: application/json\r\n", b'{"model":"m","choices":[]}')


@dataclass(frozen=True)
class Case:
    """What a client sends and an engine answers, and how long a turn may take at most."""

    name: str
    limit_ms: float
    request: bytes
    answer: bytes = ANSWER


def text(pattern: str, size_bytes: int, model: str = "m") -> bytes:
    """A request whose prompt is one string."""
    content = pattern.encode() * (size_bytes // len(pattern.encode()))
    return b'{"model":"%b","messages":[{"role":"user","content":"%b"}]}' % (model.encode(), content)


def messages(content: str, size_bytes: int, model: str = "m") -> bytes:
    """A request of many messages."""
    message = json.dumps({"role": "user", "content": content}, ensure_ascii=False).encode()
    return b'{"model":"%b","messages":[%b]}' % (model.encode(), b",".join([message] * (size_bytes // len(message))))


def embeddings(size_bytes: int) -> bytes:
    """An answer of numbers."""
    vector = b'{"index":0,"embedding":[%b]}' % b",".join([b"-0.0123456"] * 1000)
    return b'{"id":"e","object":"list","model":"m","data":[%b]}' % b",".join([vector] * (size_bytes // len(vector)))


def cases() -> Iterator[Case]:
    """Made one at a time: together they would fill the memory."""
    chat = partial(sized, CHAT)
    yield Case("an ordinary request", 5, chat(text("hello ", 500)))
    yield Case("21 MB in one string", 20, chat(text("hello world ", 21 * MB)))
    yield Case("21 MB of Chinese in one string", 20, chat(text("你好世界", 21 * MB)))
    yield Case("21 MB of escapes in one string", 40, chat(text("\\u4f60", 21 * MB)))
    yield Case("30 MB of messages", 60, chat(messages("a message of some fifty bytes, as they often are", 30 * MB)))
    yield Case("30 MB of Chinese messages", 60, chat(messages("你好世界你好世界你好世界", 30 * MB)))
    yield Case("30 MB of messages for an alias", 60, chat(messages("a message of some length", 30 * MB, "fast")))
    packed = gzip.compress(messages("你好世界你好世界你好世界", 30 * MB), 1)
    yield Case("30 MB of Chinese messages, packed", 60, sized(CHAT + b"Content-Encoding: gzip\r\n", packed))
    yield Case("60 MB that are refused for being no JSON", 60, chat(b"[" + b" " * 60 * MB))
    yield Case("a head of 60 KB", 20, chat(b"{}").replace(b"Host", b"X: " + b"y" * 60_000 + b"\r\nHost"))
    many = b"".join([b"X-%d: y\r\n" % number for number in range(1000)])
    yield Case("a head of 1,000 lines", 20, sized(CHAT + many, text("hello", 10)))
    yield Case("10,000 requests at once", 20, b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n" * 10_000 + chat(b"{}"))
    offer = b"GET /health HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    yield Case("4,000 offers to upgrade at once", 20, offer * 4_000 + chat(b"{}"))
    tiny = b"1\r\n \r\n" * 200_000 + b"2\r\n{}\r\n0\r\n\r\n"
    yield Case("a body in chunks of one byte", 20, CHAT + b"Transfer-Encoding: chunked\r\n\r\n" + tiny)
    fast, stream = chat(text("hello", 10, "fast")), LINE + b"Content-Type: text/event-stream\r\n"
    yield Case("an answer of 30 MB under an alias", 60, fast, sized(LINE + b"Content-Type: application/json\r\n",
                                                                     embeddings(30 * MB)))  # fmt: skip
    large = b'data: {"model":"m","choices":[{"delta":{"content":"%b"}}]}\n\ndata: [DONE]\n\n'
    yield Case("an event of 10 MB", 20, chat(text("hello", 10)), sized(stream, large % (b"word " * 2 * MB)))
    yield Case("an event of 10 MB under an alias", 40, fast, sized(stream, large % (b"word " * 2 * MB)))
    yield Case("events of 900 KB under an alias", 60, fast, sized(stream, large % (b"word " * 180_000) * 3))
    event = b'data: {"model":"m","choices":[{"delta":{"content":"word"}}]}\n\n'
    yield Case("10,000 events at once under an alias", 60, fast, sized(stream, event * 10_000 + b"data: [DONE]\n\n"))
    yield Case("a metrics page of 7 MB", 20, b"", sized(LINE, metrics_page(7 * MB)))
    yield Case("a metrics page of 20 MB", 20, b"", sized(LINE, metrics_page(20 * MB)))


def metrics_page(size_bytes: int) -> bytes:
    """Samples that all have to be read."""
    sample = b'vllm:num_requests_running{engine="0",model_name="m"} 1.0\n'
    return sample * (size_bytes // len(sample))


class Turns:
    """Runs once in every turn of the loop, and knows how much CPU time passed at most from one to the next."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._last_s = time.thread_time()
        self._handle = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        self._handle = self._loop.call_soon(self._turn)

    def stop(self) -> None:
        """Run no more."""
        self._handle.cancel()


@contextmanager
def engine(answer: bytes) -> Iterator[int]:
    """A thread that gives this answer to the next request; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(WAIT_S)
        answering = threading.Thread(target=_answer, args=(listening, answer), daemon=True)
        answering.start()
        yield listening.getsockname()[1]


def _answer(listening: socket.socket, answer: bytes) -> None:
    try:
        connection, _ = listening.accept()
    except OSError:
        return  # nobody asked
    with connection:
        connection.settimeout(WAIT_S)
        seen = bytearray()
        while b"\r\n\r\n" not in seen:
            seen += connection.recv(1 << 18)
        head, _, body = bytes(seen).partition(b"\r\n\r\n")
        length = int((head.lower() + b"\r\ncontent-length: 0").split(b"content-length: ")[1].split(b"\r\n")[0])
        left = length - len(body)
        while left > 0:
            left -= len(connection.recv(1 << 18))
        _send(connection, answer)


def _ask(port: int, request: bytes) -> None:
    """Send everything, and read until the router closes; what it answers to a refused request may be cut."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        sending = threading.Thread(target=_send, args=(connection, request), daemon=True)
        sending.start()
        while connection.recv(1 << 18):
            pass
        sending.join(WAIT_S)


def _send(connection: socket.socket, request: bytes) -> None:
    try:
        connection.sendall(request)
    except OSError:
        return  # it was refused, or enough, before the end


def proxy_to(port: int, loop: asyncio.AbstractEventLoop) -> Proxy:
    """The data plane in front of that engine, which is ready."""
    settings = Settings(baseline=[f"http://127.0.0.1:{port}"], aliases={"fast": "m"})
    fleet = Fleet(settings.pool_specs())
    fleet.apply(ProbeSucceeded("baseline-0"))
    fleet.apply(ModelsListed("baseline-0", frozenset({"m"})))
    policy: Any = SimpleNamespace(current=settings.build_policy())

    async def is_well(_: str) -> bool:
        return True

    return Proxy(
        settings=settings,
        fleet=fleet,
        policy=policy,
        directory=ModelDirectory(["baseline-0"], settings.aliases),
        metrics=Metrics(settings.pool_specs()),
        recorder=Recorder(None, lambda: datetime.now(UTC)),
        clock=loop.time,
        chance=random.Random(7),  # noqa: S311  # repeatable
        is_well=is_well,
    )


async def _served(case: Case, port: int) -> float:
    loop = asyncio.get_running_loop()
    proxy = proxy_to(port, loop)
    own = await proxy.listen_at(await bound_sockets("127.0.0.1", 0))
    asking = asyncio.create_task(asyncio.to_thread(_ask, own, case.request))
    await asyncio.sleep(0)
    turns = Turns()
    await asking
    turns.stop()
    proxy.close()
    await proxy.drain(1)
    return turns.longest_s


async def _scraped(port: int) -> float:
    address = BackendAddress("baseline-0", "baseline", "127.0.0.1", port, tls=False)
    async with EngineClient(address, WAIT_S, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) as client:
        turns = Turns()
        with suppress(EngineError):  # larger than what is read
            await client.signals()
        turns.stop()
    return turns.longest_s


def longest_ms(case: Case) -> float:
    """The longest turn of the loop while this case is served once."""
    with engine(case.answer) as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_served(case, port) if case.request else _scraped(port)) * 1000


def main(parts: list[str]) -> int:
    """Print the table; the status tells whether a limit was passed."""
    passed = 0
    print("| what comes | longest turn | limit |\n|---|---|---|")
    for case in cases():
        if parts and not any(part in case.name for part in parts):
            continue
        best_ms = min(longest_ms(case) for _ in range(RUNS))
        passed += best_ms > case.limit_ms
        print(f"| {case.name} | {best_ms:.1f} ms | {case.limit_ms:g} ms |", flush=True)
    return 1 if passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
