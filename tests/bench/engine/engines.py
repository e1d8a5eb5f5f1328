"""Shared by the tests of the engine: a clock that the test turns, a sink that remembers, a real engine on loopback."""

import asyncio
import heapq
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.serve import run_engine
from breakeven_bench.engine.speculation import Method, Speculation


def dice(seed: int = 1) -> Random:
    """Repeatable dice for the test itself."""
    return Random(seed)  # noqa: S311  # luck, not secrets


def chance(seed: int = 1) -> Callable[[], float]:
    """Repeatable luck of one sequence."""
    return dice(seed).random


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what another task does within a few steps of its own, and of which it tells nobody."""
    async with asyncio.timeout(5):
        while not await condition():  # noqa: ASYNC110  # there is no event to wait for
            await asyncio.sleep(0.001)


HI = [{"role": "user", "content": "hi"}]
EAGLE3 = Speculation(Method.EAGLE3, 5)


class TurnedClock:
    """`Timers` whose time stands still until the test turns it."""

    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, callback: Callable[[], object]) -> None:
        heapq.heappush(self._due, (when_s, next(self._order), callback))

    @property
    def pending(self) -> int:
        return len(self._due)

    def turn(self) -> None:
        """Jump to the next timer and fire it."""
        when_s, _, callback = heapq.heappop(self._due)
        self.now_s = max(self.now_s, when_s)
        callback()

    def run(self, turns: int = 100_000) -> None:
        """Fire timers until there is none."""
        while self._due:
            self.turn()
            turns -= 1
            assert turns, "the timers never come to an end"


@dataclass
class RememberingSink:
    """A `Sink` that keeps what it was given; `writable` is the test's to set."""

    writable: bool = True
    started: bool = False
    written: list[bytes] = field(default_factory=list)
    status: int | None = None
    body: bytes = b""
    ended: bool = False
    was_cut: bool = False

    def start_stream(self) -> None:
        assert not self.started
        self.started = True

    def write(self, events: bytes) -> None:
        assert self.started
        assert not self.ended
        self.written.append(events)

    def end_stream(self, events: bytes) -> None:
        self.write(events)
        self.ended = True

    def answer(self, status: int, body: bytes) -> None:
        assert not self.ended
        self.status, self.body, self.ended = status, body, True

    def cut(self) -> None:
        self.was_cut = self.ended = True

    @property
    def events(self) -> list[Any]:
        """The decoded events; the last one of a complete stream is the word [DONE]."""
        return events_of(b"".join(self.written))

    @property
    def answered(self) -> Any:
        return json.loads(self.body)


def events_of(stream: bytes) -> list[Any]:
    lines = [line for line in stream.decode().split("\n\n") if line]
    payloads = [line.removeprefix("data: ") for line in lines]
    return ["[DONE]" if payload == "[DONE]" else json.loads(payload) for payload in payloads]


def text_of(events: list[Any], choice: int = 0) -> str:
    """What a streamed choice says."""
    chunks = [event["choices"][0] for event in events if event != "[DONE]" and event.get("choices")]
    parts = [chunk for chunk in chunks if chunk["index"] == choice]
    return "".join(part["text"] if "text" in part else part["delta"].get("content", "") for part in parts)


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """A real engine in this process."""

    port: int
    stop: asyncio.Event

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def running_engine(**options: Any) -> AsyncIterator[RunningEngine]:
    """A real engine on a free port of loopback, a hundred times faster than the hardware unless told otherwise."""
    stop = asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    made = EngineOptions(**{"time_scale": 100.0, **options})
    task = asyncio.ensure_future(run_engine(made, "127.0.0.1", 0, ready.set_result, stop))
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    try:
        yield RunningEngine(ready.result(), stop)
    finally:
        stop.set()
        await task
