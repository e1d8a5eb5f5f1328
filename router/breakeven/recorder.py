"""Writes down finished requests in a thread of its own: the access log, the journal, spans.

A disk that stalls or a pipe that nobody reads would stop the event loop, so the loop only puts records into a bounded
queue; what does not fit is counted and dropped, and the count is logged and exported. Each kind of record has its own
queue and thread, so that a pipe which nobody reads costs no line of the journal.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from queue import SimpleQueue

from msgspec import Struct

from breakeven.line_file import LineDescriptor
from breakeven.log_line import log_line
from breakeven.record import RequestRecord
from breakeven.spans import Sampled

LOG = logging.getLogger(__name__)

QUEUE_RECORDS_MAX = 10_000
"""Ten seconds at 1,000 requests per second, some 5 MB."""

BATCH_RECORDS_MAX = 32
"""Lines formatted in one go; 32 of them hold the interpreter for 0.3 ms, so that no relay waits longer."""

GATHER_S = 0.05
"""How long the writer lets records gather: one wake-up for many requests instead of one for each."""

CLOSE_S = 2.0
"""Patience with the last lines at the end; ten thousand of them take 0.1 s on a disk that works."""

Entry = tuple[datetime, RequestRecord]
"""When the request had ended, by the wall clock, and what is known of it."""

OnLost = Callable[[str, str, int], object]
"""Told which log lost lines, why, and how many. The loop alone tells of `queue_full`, the writer of `write_failed`."""

QUEUE_FULL, WRITE_FAILED = "queue_full", "write_failed"

Take = Callable[[Sequence[Entry]], object]
"""Writes a batch down; OSError where it cannot be."""


def lines_to(sink: Callable[[bytes], object], line: Callable[[datetime, RequestRecord], bytes] = log_line) -> Take:
    """Hand each batch to `sink` as lines."""
    return lambda batch: sink(b"".join([line(*entry) for entry in batch]))


class Recorder:
    """Takes finished records from the loop and has `take` write them; without it it does nothing.

    `wants` picks the records; `name` is what the log and the metric call it.
    """

    def __init__(
        self,
        take: Take | None,
        date: Callable[[], datetime],
        name: str = "access",
        wants: Callable[[RequestRecord], bool] | None = None,
    ) -> None:
        self.name = name
        self.dropped = 0
        self.failed = 0
        self.on_lost: OnLost = lambda _log, _why, _lines: None
        self._lost_told = 0
        self._date = date
        self._wants = wants
        self._queue: SimpleQueue[Entry] = SimpleQueue()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        if take is not None:
            self._thread = threading.Thread(target=self._run, args=(take,), name=f"{name}-log", daemon=True)
            self._thread.start()

    def tell_losses(self, on_lost: OnLost) -> None:
        """Have `on_lost` told of what is lost from now on."""
        self.on_lost = on_lost

    def write(self, record: RequestRecord) -> None:
        """Queue a finished request, which must not change any more. Never blocks."""
        if self._thread is not None:
            self.take((self._date(), record))

    def take(self, entry: Entry) -> None:
        """The same, with the time at which the request had ended; there is somebody to write it."""
        if self._wants is not None and not self._wants(entry[1]):
            return
        if self._queue.qsize() >= QUEUE_RECORDS_MAX:
            self.dropped += 1
            self.on_lost(self.name, QUEUE_FULL, 1)
            return
        self._queue.put(entry)

    def close(self, timeout_s: float) -> None:
        """Write what is queued, for at most `timeout_s`; a thread that hangs in a write dies with the process."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, take: Take) -> None:
        while not self._closing.wait(GATHER_S):
            self._write_queued(take)
            self._tell_lost(2 * self._lost_told)
        self._write_queued(take)
        self._tell_lost(self._lost_told + 1)

    def _write_queued(self, take: Take) -> None:
        while batch := self._batch():
            try:
                take(batch)
            except OSError:
                # A full disk or a closed pipe: serving goes on, and the count says that lines are missing.
                self._failed(len(batch))
            except Exception:
                # A record that cannot be put into words must not end the thread, and with it all later ones. What is
                # wrong is told with the first: there may be twenty batches a second.
                if not self.failed:
                    LOG.exception("%s log: a batch could not be written", self.name)
                self._failed(len(batch))

    def _tell_lost(self, least: int) -> None:
        """Say how many lines are lost: at once, then whenever they have doubled, and at the end."""
        lost = self.dropped + self.failed
        if lost >= max(1, least):
            self._lost_told = lost
            LOG.warning("%s log: %d lines lost since the start", self.name, lost)

    def _failed(self, lines: int) -> None:
        self.failed += lines
        self.on_lost(self.name, WRITE_FAILED, lines)

    def _batch(self) -> list[Entry]:
        take = self._queue.get_nowait
        return [take() for _ in range(min(self._queue.qsize(), BATCH_RECORDS_MAX))]  # nobody else takes any


class Recorders:
    """Several recorders as one; each has something to write to."""

    def __init__(self, recorders: Sequence[Recorder], date: Callable[[], datetime]) -> None:
        self._recorders = tuple(recorders)
        self._date = date

    def write(self, record: RequestRecord) -> None:
        """Give the record to each."""
        if self._recorders:
            entry = self._date(), record
            for recorder in self._recorders:
                recorder.take(entry)

    def tell_losses(self, on_lost: OnLost) -> None:
        """Have `on_lost` told of what any of them loses."""
        for recorder in self._recorders:
            recorder.tell_losses(on_lost)


def do_within(timeout_s: float, work: Callable[[], object]) -> None:
    """Do what may hang, for so long; a thread that still hangs then dies with the process."""
    thread = threading.Thread(target=work, name="closing", daemon=True)
    thread.start()
    thread.join(timeout_s)


class Tracing(Struct, frozen=True):
    """Takes part in traces: `sampled` tells which are exported, `recorder` takes their records."""

    sampled: Sampled
    recorder: Recorder


@contextmanager
def recording(
    place: LineDescriptor,
    date: Callable[[], datetime],
    name: str,
    line: Callable[[datetime, RequestRecord], bytes],
    wants: Callable[[RequestRecord], bool] | None = None,
) -> Iterator[Recorder]:
    """A recorder that writes lines to a place, which is closed behind it."""
    recorder = Recorder(lines_to(place.write, line), date, name, wants)
    try:
        yield recorder
    finally:
        recorder.close(CLOSE_S)
        place.close()
