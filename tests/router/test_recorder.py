"""`breakeven.recorder`: a line per request, never a stall, never a secret."""

import json
import threading
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from breakeven.line_file import LineFile
from breakeven.record import RequestRecord
from breakeven.recorder import (
    BATCH_RECORDS_MAX,
    QUEUE_RECORDS_MAX,
    Recorder,
    Recorders,
    do_within,
    lines_to,
    recording,
)

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


def now() -> datetime:
    return NOW


def record(request_id: str = "id-1", **changes: object) -> RequestRecord:
    made = RequestRecord(request_id, "chat.completions", received_s=100.0)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


class Sink:
    """Collects what is written; `open` lets the writing thread pass."""

    def __init__(self, *, opened: bool = True) -> None:
        self.data = b""
        self.entered = threading.Event()
        self.open = threading.Event()
        if opened:
            self.open.set()

    def write(self, data: bytes) -> None:
        self.entered.set()
        self.open.wait(10)
        self.data += data


def test_lines_come_in_the_order_of_the_requests_and_all_are_written_at_the_end() -> None:
    sink = Sink()
    recorder = Recorder(lines_to(sink.write), now)
    for number in range(3 * BATCH_RECORDS_MAX):
        recorder.write(record(f"id-{number}"))
    recorder.close(5.0)
    ids = [json.loads(line)["request_id"] for line in sink.data.splitlines()]
    assert ids == [f"id-{number}" for number in range(3 * BATCH_RECORDS_MAX)]


@pytest.mark.slow
def test_a_stalled_disk_costs_lines_and_never_time(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink(opened=False)
    recorder = Recorder(lines_to(sink.write), now)
    lost: list[tuple[str, str, int]] = []
    recorder.tell_losses(lambda *loss: lost.append(loss))
    recorder.write(record("first"))
    assert sink.entered.wait(5)
    for number in range(QUEUE_RECORDS_MAX + 7):
        recorder.write(record(str(number)))
    assert recorder.dropped == 7
    assert lost == [("access", "queue_full", 1)] * 7, "told at once, for a writer that hangs tells nothing"
    sink.open.set()
    recorder.close(300.0)
    assert len(sink.data.splitlines()) == QUEUE_RECORDS_MAX + 1
    assert "7 lines lost" in caplog.text


def test_a_writer_that_hangs_for_good_does_not_keep_the_process_alive() -> None:
    sink = Sink(opened=False)
    recorder = Recorder(lines_to(sink.write), now)
    recorder.write(record())
    assert sink.entered.wait(5)
    recorder.close(0.01)
    assert sink.data == b""
    sink.open.set()


def test_a_full_disk_is_counted_and_told_and_the_next_lines_are_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    failed_once = threading.Event()
    written: list[bytes] = []

    def sink(data: bytes) -> None:
        if not failed_once.is_set():
            failed_once.set()
            raise OSError(28, "No space left on device")
        written.append(data)

    recorder = Recorder(lines_to(sink), now)
    lost: list[tuple[str, str, int]] = []
    Recorders([recorder], now).tell_losses(lambda *loss: lost.append(loss))
    recorder.write(record("lost"))
    assert failed_once.wait(5)
    recorder.write(record("kept"))
    recorder.close(5.0)
    assert recorder.failed == 1
    assert lost == [("access", "write_failed", 1)]
    assert [json.loads(line)["request_id"] for line in written] == ["kept"]
    assert "1 lines lost" in caplog.text


def test_each_recorder_takes_what_it_wants_and_one_that_stalls_costs_the_others_nothing() -> None:
    stalled, flowing = Sink(opened=False), Sink()
    recorders = [
        Recorder(lines_to(stalled.write), now),
        Recorder(lines_to(flowing.write), now, "journal", lambda finished: finished.request_id != "unwanted"),
    ]
    both = Recorders(recorders, now)
    both.write(record("one"))
    assert stalled.entered.wait(5)
    both.write(record("unwanted"))
    both.write(record("two"))
    recorders[1].close(10.0)
    assert [json.loads(line)["request_id"] for line in flowing.data.splitlines()] == ["one", "two"]
    stalled.open.set()
    recorders[0].close(10.0)


def test_lines_have_the_form_that_they_are_given(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with recording(
        LineFile(path), now, "journal", lambda ended, finished: f"{ended.year} {finished.request_id}\n".encode()
    ) as it:
        it.write(record("one"))
    assert path.read_text() == "2026 one\n"


def test_a_record_that_cannot_be_put_into_words_costs_its_batch_and_not_the_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Sink()

    def line(_: datetime, finished: RequestRecord) -> bytes:
        if finished.request_id == "odd":
            raise ValueError("odd")
        return finished.request_id.encode() + b"\n"

    recorder = Recorder(lines_to(sink.write, line), now)
    recorder.write(record("odd"))
    while not recorder.failed:
        recorder._closing.wait(0.01)
    recorder.write(record("fine"))
    recorder.close(5.0)
    assert (recorder.failed, sink.data) == (1, b"fine\n")
    assert "a batch could not be written" in caplog.text


def test_what_hangs_is_waited_for_only_so_long() -> None:
    ended = threading.Event()
    do_within(0.01, ended.wait)
    do_within(5.0, ended.set)
    assert ended.is_set()


@pytest.mark.slow
def test_a_disk_that_stays_full_is_told_ever_less_often_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    def full(_: bytes) -> None:
        raise OSError(28, "No space left on device")

    recorder = Recorder(lines_to(full), now)
    for number in range(1, 12):
        recorder.write(record(str(number)))
        while recorder.failed < number:
            recorder._closing.wait(0.01)
    recorder.close(5.0)
    told = [int(entry.args[1]) for entry in caplog.records if entry.args]
    assert (told[0], told[-1]) == (1, 11)
    assert len(told) <= 5, told
    assert all(later >= 2 * earlier for earlier, later in pairwise(told[:-1]))
