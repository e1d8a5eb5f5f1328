"""The load generator: sends planned requests when they are due and keeps what came back. One event loop, no retries.

Open loop: an absolute schedule fixed beforehand; an answer that is late delays nothing, and latency counts from the
schedule. Closed loop: a fixed number of requests always in flight, for capacity and for the speed of a single stream.

aiohttp and orjson, since a client that is too slow measures itself: 35-50 µs a chunk on one core against 130-280 µs of
httpx and 340-600 µs of the OpenAI client, whose 95th percentile of a true 20 ms gap read 109 ms at 2,000 chunks/s.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import aiohttp

from breakeven_bench.answer import DETAIL_CHARS_MAX, AnswerReader, MalformedAnswerError
from breakeven_bench.planned import PlannedRequest, chat_body
from breakeven_bench.record import ErrorClass, RequestRecord

Clock = Callable[[], float]

CHAT_PATH = "/v1/chat/completions"

CONNECT_TIMEOUT_S = 10.0
"""A loopback or cluster connection takes milliseconds; a full accept queue shows itself by then."""

REQUEST_TIMEOUT_S = 600.0
"""Wall-clock limit of one request: over twice the longest answer of an engine that keeps up."""

READ_BUFFER_BYTES = 4 * 1024 * 1024
"""aiohttp pauses a socket at twice this; its default of 64 KiB throttled the answers to long prompts (vllm#39963)."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the requests of one arm go.

    `url` has no path; `time_scale` is seconds of the engine per second of the wall clock. With a `stream_interval`
    above 1, vLLM sends an event only for so many new tokens, the first and the last: fewer events, the same tokens.
    """

    url: str
    model: str
    arm: str = "load"
    run_id: str = "load"
    time_scale: float = 1.0
    api_key: str | None = None
    timeout_s: float = REQUEST_TIMEOUT_S
    stream_interval: int = 1


@dataclass(slots=True)
class Tally:
    """How far a run has come, for whoever shows it."""

    planned: int = 0
    sent: int = 0
    finished: int = 0
    failed: int = 0

    @property
    def in_flight(self) -> int:
        """Sent and not ended."""
        return self.sent - self.finished


@dataclass(slots=True)
class _Exchange:
    """One request while it lives; times are clock seconds since the start of the run.

    `sent_s` is when its task was made until it is handed to the session: between the two, a busy loop makes it wait.
    """

    planned: PlannedRequest
    scheduled_s: float
    sent_s: float
    answer: AnswerReader = field(default_factory=AnswerReader)
    head_s: float | None = None
    end_s: float | None = None
    status: int | None = None
    pool: str | None = None
    backend: str | None = None
    reason: str | None = None
    error: ErrorClass | None = ErrorClass.UNFINISHED
    error_detail: str | None = None

    def fail(self, error: ErrorClass, detail: str) -> None:
        """End in an error."""
        self.error, self.error_detail = error, detail[:DETAIL_CHARS_MAX]

    def conclude(self) -> None:
        """The stream ended by itself: complete only if it carried a token and said that it was done."""
        if self.answer.error is not None:
            self.fail(ErrorClass.STREAM_ERROR, self.answer.error)
        elif not self.answer.done or not self.answer.event_s:
            self.fail(
                ErrorClass.TRUNCATED, f"{len(self.answer.event_s)} events with tokens, [DONE]: {self.answer.done}"
            )
        else:
            self.error = None

    def record(self, to: Destination) -> RequestRecord:
        """What is kept of it."""
        planned, answer = self.planned, self.answer
        return RequestRecord(
            run_id=to.run_id,
            arm=to.arm,
            index=planned.index,
            prompt_id=planned.prompt_id,
            category=planned.category,
            temperature=planned.temperature,
            max_tokens=planned.max_tokens,
            seed=planned.seed,
            scheduled_s=self.scheduled_s,
            sent_s=self.sent_s,
            time_scale=to.time_scale,
            head_s=self.head_s,
            end_s=self.end_s,
            event_s=tuple(answer.event_s),
            event_tokens=tuple(answer.event_tokens),
            reads=answer.reads,
            status=self.status,
            pool=self.pool,
            backend=self.backend,
            reason=self.reason,
            prompt_tokens=answer.prompt_tokens,
            completion_tokens=answer.completion_tokens,
            cached_tokens=answer.cached_tokens,
            finish_reason=answer.finish_reason,
            acceptance_length=answer.acceptance_length,
            error=self.error,
            error_detail=self.error_detail,
        )


def new_session() -> aiohttp.ClientSession:
    """A session that never makes a request wait for another: an unbounded number of connections, kept alive."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        read_bufsize=READ_BUFFER_BYTES,
        trust_env=False,
    )


async def open_loop(
    session: aiohttp.ClientSession,
    to: Destination,
    plan: Sequence[PlannedRequest],
    schedule_s: Sequence[float],
    *,
    drain_s: float,
    tally: Tally | None = None,
    clock: Clock = perf_counter,
) -> list[RequestRecord]:
    """Send each request at its time; the records, in order of the plan.

    `schedule_s` and `drain_s` are seconds of the engine. What has not ended `drain_s` after the last request was due is
    given up and recorded as unfinished; its connection is closed, so that the engine stops working on it.
    """
    tally = tally or Tally()
    tally.planned += len(plan)
    origin_s = clock()
    exchanges: list[_Exchange] = []
    tasks: list[asyncio.Task[None]] = []
    try:
        for planned, due_s in zip(plan, schedule_s, strict=True):
            scheduled_s = due_s / to.time_scale
            await _until(origin_s + scheduled_s, clock)
            exchange = _Exchange(planned, scheduled_s, sent_s=clock() - origin_s)
            exchanges.append(exchange)
            tasks.append(asyncio.create_task(_send(session, to, exchange, origin_s, tally, clock)))
        await asyncio.wait(tasks, timeout=drain_s / to.time_scale)
    finally:
        await _give_up(tasks)
    return [exchange.record(to) for exchange in exchanges]


async def closed_loop(
    session: aiohttp.ClientSession,
    to: Destination,
    plan: Sequence[PlannedRequest],
    concurrency: int,
    *,
    tally: Tally | None = None,
    clock: Clock = perf_counter,
) -> list[RequestRecord]:
    """Keep `concurrency` requests in flight until the plan is done; the records, in order of the plan."""
    tally = tally or Tally()
    tally.planned += len(plan)
    origin_s = clock()
    waiting = iter(plan)
    exchanges: list[_Exchange] = []

    async def worker() -> None:
        for planned in waiting:
            now_s = clock() - origin_s
            exchange = _Exchange(planned, scheduled_s=now_s, sent_s=now_s)
            exchanges.append(exchange)
            await _send(session, to, exchange, origin_s, tally, clock)

    async with asyncio.TaskGroup() as workers:
        for _ in range(min(concurrency, len(plan))):
            workers.create_task(worker())
    return [exchange.record(to) for exchange in sorted(exchanges, key=lambda exchange: exchange.planned.index)]


async def _until(instant_s: float, clock: Clock) -> None:
    """Wait for an absolute instant: the error of one wait never adds to the next."""
    while True:
        remaining_s = instant_s - clock()
        if remaining_s <= 0.0:
            return
        # uvloop's timers have a grain of 1 ms and may fire early; then another round follows.
        await asyncio.sleep(remaining_s)


async def _give_up(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel what still runs, and re-raise what went wrong in a way that `_send` does not know."""
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


async def _send(
    session: aiohttp.ClientSession, to: Destination, exchange: _Exchange, origin_s: float, tally: Tally, clock: Clock
) -> None:
    """One request from its body to its end; an error of the network or the engine ends in the record."""
    tally.sent += 1
    try:
        async with asyncio.timeout(to.timeout_s):
            await _stream(session, to, exchange, origin_s, clock)
    except TimeoutError:
        exchange.fail(ErrorClass.TIMEOUT, f"no end within {to.timeout_s:g} s")
    except aiohttp.ClientConnectorError as error:
        exchange.fail(ErrorClass.CONNECT, str(error))
    except (aiohttp.ClientError, OSError) as error:
        exchange.fail(ErrorClass.DISCONNECTED, repr(error))
    except MalformedAnswerError as error:
        exchange.fail(ErrorClass.MALFORMED, str(error))
    finally:
        exchange.end_s = None if exchange.error is ErrorClass.UNFINISHED else clock() - origin_s
        tally.finished += 1
        tally.failed += exchange.error is not None


async def _stream(
    session: aiohttp.ClientSession, to: Destination, exchange: _Exchange, origin_s: float, clock: Clock
) -> None:
    salt = f"{to.run_id}-{to.arm}-{exchange.planned.index}"
    body = chat_body(exchange.planned, to.model, salt, to.stream_interval)
    headers = authorization(to.api_key) | {"content-type": "application/json"}
    # Not when the head has left: a server that is slow to accept would make the client look late.
    exchange.sent_s = clock() - origin_s
    async with session.post(to.url + CHAT_PATH, data=body, headers=headers, allow_redirects=False) as response:
        exchange.head_s = clock() - origin_s
        exchange.status = response.status
        exchange.pool = response.headers.get("x-breakeven-pool")
        exchange.backend = response.headers.get("x-breakeven-backend")
        exchange.reason = response.headers.get("x-breakeven-reason")
        if response.status != 200:
            kind = ErrorClass.HTTP_5XX if response.status >= 500 else ErrorClass.HTTP_4XX
            exchange.fail(kind, f"{response.status}: {await response.text(errors='replace')}")
            return
        async for data in response.content.iter_any():
            exchange.answer.feed(data, clock() - origin_s)
        exchange.conclude()


def authorization(api_key: str | None) -> dict[str, str]:
    """The header that carries the key of the server, if it wants one."""
    return {} if api_key is None else {"authorization": f"Bearer {api_key}"}
