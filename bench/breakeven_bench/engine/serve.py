"""Runs one engine as a process: opens its socket, says that it is ready, ends on a signal."""

import asyncio
import gc
import signal
import sys
from collections.abc import Callable
from random import Random
from secrets import token_hex

import uvloop

from breakeven_bench.engine.answers import write_book
from breakeven_bench.engine.application import Application, Surroundings
from breakeven_bench.engine.clock import LoopClock, wall_s
from breakeven_bench.engine.connection import Connection, HttpServer
from breakeven_bench.engine.core import EngineCore
from breakeven_bench.engine.faults import FaultSwitch
from breakeven_bench.engine.intake import Intake
from breakeven_bench.engine.options import EngineOptions

BACKLOG = 2048
"""uvicorn's default."""

EXIT_CANNOT_LISTEN = 1
EXIT_BROKEN = 70
"""The engine ran into an error of its own (EX_SOFTWARE of sysexits.h)."""


class Listener:
    """The listening socket, which can be closed for a while; the port stays the same once it is chosen."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._server: HttpServer | None = None
        self._listening: asyncio.Server | None = None
        self._reopening: asyncio.Task[None] | None = None

    async def open(self, server: HttpServer) -> int:
        """Listen for `server`; returns the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = server
        self._listening = await loop.create_server(
            lambda: Connection(server, loop), self._host, self._port, backlog=BACKLOG
        )
        self._port = self._listening.sockets[0].getsockname()[1]
        return self._port

    def close(self) -> None:
        """Stop listening, for good unless `refuse` follows; what is being served goes on."""
        if self._reopening is not None:
            self._reopening.cancel()
            self._reopening = None
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def refuse(self, seconds: float) -> None:
        """Stop listening and close idle connections, like a process that is gone; listen again after `seconds`."""
        if self._server is None:
            return
        self.close()
        self._server.close_idle()
        self._reopening = asyncio.ensure_future(self._open_again(self._server, seconds))
        self._reopening.add_done_callback(_surface)

    async def _open_again(self, server: HttpServer, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.open(server)


async def run_engine(
    options: EngineOptions, host: str, port: int, announce: Callable[[int], None], stop: asyncio.Event
) -> None:
    """Serve until `stop` is set; `announce` is called with the port once connections are accepted. Raises OSError.

    Once it is set nothing is accepted, and what is being served gets nothing more, neither a token nor an end: like
    vLLM, whose engine core ends at once while its HTTP server waits for its clients to leave. Cancelled, it breaks
    their connections.
    """
    clock = LoopClock(asyncio.get_running_loop())
    faults = FaultSwitch()
    core = EngineCore(options, clock, faults, wall_s())
    listener = Listener(host, port)
    surroundings = Surroundings(clock, wall_s, _random_id, listener.refuse, stop.set)
    application = Application(core, Intake(options, write_book(), _chance_of), faults, surroundings)
    server = HttpServer(application.handle)
    chosen = await listener.open(server)
    announce(chosen)
    try:
        await stop.wait()
        listener.close()
        core.halt()
        await _left(server)
    finally:
        listener.close()
        server.abort_all()


async def _left(server: HttpServer) -> None:
    """Close what is idle and wait for the clients of the rest to leave, or to have read an answer that was complete."""
    empty = asyncio.Event()
    server.on_empty = empty.set
    server.close_when_answered()
    if server.connections:
        await empty.wait()


def _chance_of(seed: int) -> Callable[[], float]:
    """The luck of one sequence's drafts."""
    return Random(seed).random  # noqa: S311  # luck, not secrets


def _random_id() -> str:
    """16 hexadecimal digits, as vLLM's request ids have."""
    return token_hex(8)


def _surface(task: asyncio.Task[None]) -> None:
    """Raise what a task failed with into the loop's exception handler, which ends the process."""
    if not task.cancelled():
        task.result()


def serve(options: EngineOptions, host: str, port: int, announce: Callable[[int], None]) -> int:
    """Serve until SIGTERM or SIGINT, and then until all clients have left, or a second signal does not wait for them.

    Returns the exit status of the process.

    An error that no request caused ends the process: an engine that lost a step in silence would falsify measurements.
    """

    def ready(chosen: int) -> None:
        gc.freeze()  # what exists now lives on; a collection then looks at requests only and stays under a millisecond
        announce(chosen)

    async def until_signalled() -> int:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        failures: list[dict[str, object]] = []

        def fail(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            loop.default_exception_handler(context)
            failures.append(context)
            stop.set()

        loop.set_exception_handler(fail)
        serving = asyncio.ensure_future(run_engine(options, host, port, ready, stop))

        def end() -> None:
            if stop.is_set():
                serving.cancel()
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end)
        try:
            await asyncio.wait([serving])
            if not serving.cancelled():
                serving.result()
        except OSError as error:
            print(f"breakeven-bench engine: cannot listen on {host}:{port}: {error.strerror}", file=sys.stderr)
            return EXIT_CANNOT_LISTEN
        return EXIT_BROKEN if failures else 0

    return uvloop.run(until_signalled())
