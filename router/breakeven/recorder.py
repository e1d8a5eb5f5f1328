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
from typing import Any

from breakeven.record import RequestRecord

LOG = logging.getLogger(__name__)

QUEUE_RECORDS_MAX = 10_000
"""Ten seconds at 1,000 requests per second, some 5 MB."""

BATCH_RECORDS_MAX = 32
"""Lines formatted in one go; 32 of them hold the interpreter for 0.8 ms, so that no relay waits longer."""

GATHER_S = 0.05
"""How long the writer lets records gather: one wake-up for many requests instead of one for each."""

CLOSE_S = 2.0
"""Patience with the last lines at the end; ten thousand of them take 0.2 s on a disk that works."""

MODEL_CHARACTERS_MAX = 200
"""Clients name the model; a megabyte of name must not become a megabyte of log."""

Entry = tuple[datetime, RequestRecord]


def log_line(ended: datetime, record: RequestRecord) -> bytes:
    """The log line, ASCII. Durations are seconds since the request was complete; null: it never happened."""
    fields: dict[str, Any] = {
        "time": ended.isoformat(timespec="milliseconds"),
        "request_id": record.request_id,
        "method": record.method,
        "endpoint": record.endpoint,
        "model": None if record.model is None else record.model[:MODEL_CHARACTERS_MAX],
        "stream": record.stream,
        "temperature": record.temperature,
        "pool": record.pool,
        "backend": record.backend,
        "reason": record.reason,
        "policy": record.policy,
        "outcome": record.outcome,
        "status": record.status,
        "attempts": record.attempts,
        "bytes_in": record.bytes_in,
        "bytes_out": record.bytes_out,
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
    }
    for name in ("decided_s", "sent_s", "first_byte_s", "first_token_s", "finished_s"):
        moment: float | None = getattr(record, name)
        fields[name] = None if moment is None else round(moment - record.received_s, 6)
    return json.dumps(fields).encode("ascii") + b"\n"


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
