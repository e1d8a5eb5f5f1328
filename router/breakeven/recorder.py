"""The access log: one JSON line per finished request, written by a thread of its own.

A disk that stalls or a pipe that nobody reads would stop the event loop, so the loop only puts records into a bounded
queue; what does not fit is counted and dropped, and the count is logged. A line carries names, times and numbers, never
a prompt, a header or a key.
"""

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from io import FileIO
from queue import Empty, SimpleQueue

import msgspec
from msgspec import Raw, Struct

from breakeven.record import RequestRecord

LOG = logging.getLogger(__name__)

QUEUE_RECORDS_MAX = 10_000
"""Ten seconds at 1,000 requests per second, some 5 MB."""

BATCH_RECORDS_MAX = 32
"""Lines formatted in one go; 32 of them hold the interpreter for 0.3 ms, so that no relay waits longer."""

GATHER_S = 0.05
"""How long the writer lets records gather: one wake-up for many requests instead of one for each."""

CLOSE_S = 2.0
"""Patience with the last lines at the end; ten thousand of them take 0.1 s on a disk that works."""

MODEL_CHARACTERS_MAX = 200
"""Clients name the model; a megabyte of name must not become a megabyte of log."""

_encode = msgspec.json.Encoder().encode

Entry = tuple[datetime, RequestRecord]


class LogLine(Struct, frozen=True):
    """What a line holds, in this order. Durations are seconds since the request was complete; null: never happened."""

    time: str
    request_id: str
    method: str | None
    endpoint: str
    model: str | Raw | None
    stream: bool
    temperature: float | None
    pool: str | None
    backend: str | None
    reason: str | None
    policy: str | None
    outcome: str | None
    status: int | None
    attempts: int
    bytes_in: int
    bytes_out: int
    prompt_tokens: int | None
    completion_tokens: int | None
    decided_s: float | None
    sent_s: float | None
    first_byte_s: float | None
    first_token_s: float | None
    finished_s: float | None
    client_key: str | None


def log_line(ended: datetime, record: RequestRecord) -> bytes:
    """The log line, ASCII: 9 µs, where a dictionary and the json module took 18."""
    received_s = record.received_s
    line = LogLine(
        ended.isoformat(timespec="milliseconds"),
        record.request_id,
        record.method or None,
        record.endpoint,
        _readable(record.model),
        record.stream,
        record.temperature,
        record.pool,
        record.backend,
        record.reason,
        record.policy,
        record.outcome,
        record.status,
        record.attempts,
        record.bytes_in,
        record.bytes_out,
        record.prompt_tokens,
        record.completion_tokens,
        _since(received_s, record.decided_s),
        _since(received_s, record.sent_s),
        _since(received_s, record.first_byte_s),
        _since(received_s, record.first_token_s),
        _since(received_s, record.finished_s),
        record.client_key,
    )
    return _encode(line) + b"\n"


def _since(received_s: float, moment_s: float | None) -> float | None:
    return None if moment_s is None else round(moment_s - received_s, 6)


def _readable(model: str | None) -> str | Raw | None:
    """A client's word, short and escaped: nothing of it may steer the terminal of whoever reads the log."""
    if model is None:
        return None
    short = model[:MODEL_CHARACTERS_MAX]
    return short if short.isascii() and short.isprintable() else Raw(json.dumps(short).encode("ascii"))


class Recorder:
    """Takes finished records from the loop and hands their lines to `sink`; without one it does nothing."""

    def __init__(self, sink: Callable[[bytes], object] | None, date: Callable[[], datetime]) -> None:
        self.dropped = 0
        self.failed = 0
        self._lost_told = 0
        self._date = date
        self._queue: SimpleQueue[Entry] = SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if sink is not None:
            self._thread = threading.Thread(target=self._run, args=(sink,), name="access-log", daemon=True)
            self._thread.start()

    def write(self, record: RequestRecord) -> None:
        """Queue a finished request, which must not change any more. Never blocks."""
        if self._thread is None:
            return
        if self._queue.qsize() >= QUEUE_RECORDS_MAX:
            self.dropped += 1
            return
        self._queue.put((self._date(), record))

    def close(self, timeout_s: float) -> None:
        """Write what is queued, for at most `timeout_s`; a thread that hangs in a write dies with the process."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, sink: Callable[[bytes], object]) -> None:
        while not self._closing.wait(GATHER_S):
            self._write_queued(sink)
        self._write_queued(sink)

    def _write_queued(self, sink: Callable[[bytes], object]) -> None:
        while batch := list(self._batch()):
            try:
                sink(b"".join(log_line(*entry) for entry in batch))
            except OSError:
                # A full disk or a closed pipe: serving goes on, and the count says that lines are missing.
                self.failed += len(batch)
        lost = self.dropped + self.failed
        if lost > self._lost_told:
            self._lost_told = lost
            LOG.warning("access log: %d lines lost since the start", lost)

    def _batch(self) -> Iterator[Entry]:
        for _ in range(BATCH_RECORDS_MAX):
            try:
                yield self._queue.get_nowait()
            except Empty:
                return


@contextmanager
def open_access_log(target: str, date: Callable[[], datetime]) -> Iterator[Recorder]:
    """The recorder for `access_log`: off, stderr, or a file that is appended to; OSError if it cannot be opened."""
    if target == "off":
        yield Recorder(None, date)
        return
    place = sys.stderr.fileno() if target == "stderr" else target
    with open(place, "ab", buffering=0, closefd=target != "stderr") as file:
        recorder = Recorder(partial(write_all, file), date)
        try:
            yield recorder
        finally:
            recorder.close(CLOSE_S)


def write_all(file: FileIO, data: bytes) -> None:
    """Write every byte, or raise OSError: an unbuffered file may take a part only."""
    rest = memoryview(data)
    while rest:
        written = file.write(rest)
        if written is None:
            raise BlockingIOError
        rest = rest[written:]
