"""`breakeven.recorder`: a line per request, never a stall, never a secret."""

import json
import logging
import os
import threading
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path

import pytest

from breakeven.record import Outcome, RequestRecord
from breakeven.recorder import (
    BATCH_RECORDS_MAX,
    MODEL_CHARACTERS_MAX,
    QUEUE_RECORDS_MAX,
    Recorder,
    log_line,
    open_access_log,
    write_all,
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


def test_a_refused_request_says_so_and_leaves_what_never_happened_unknown() -> None:
    line = json.loads(
        log_line(NOW, record(outcome=Outcome.REFUSED, status=503, reason="no_backend", finished_s=100.25))
    )
    assert line["time"] == "2026-11-30T12:00:00.123+00:00"
    assert (line["outcome"], line["status"], line["reason"], line["pool"]) == ("refused", 503, "no_backend", None)
    assert (line["finished_s"], line["sent_s"], line["first_token_s"]) == (0.25, None, None)


def test_durations_count_from_the_complete_request() -> None:
    finished = record(decided_s=100.0000123, sent_s=100.001, first_byte_s=100.5, first_token_s=100.75, finished_s=103.0)
    line = json.loads(log_line(NOW, finished))
    names = ("decided_s", "sent_s", "first_byte_s", "first_token_s", "finished_s")
    assert [line[name] for name in names] == [1.2e-05, 0.001, 0.5, 0.75, 3.0]


def test_any_model_name_gives_one_bounded_line_of_ascii() -> None:
    for model in ("\ud83d\n\x00é" + "x" * 10_000, "\x1b[2J\x7f\x9b" + "x" * 10_000, "\x7f" * 201):
        line = log_line(NOW, record(model=model, temperature=1e300))
        assert line[:-1].decode("ascii").isprintable()
        assert line.endswith(b"\n")
        assert json.loads(line)["model"] == model[:MODEL_CHARACTERS_MAX]


def test_every_field_of_a_line_has_the_value_of_its_name() -> None:
    finished = record(
        method="PUT", model="m", stream=True, temperature=0.5, pool="p", backend="b", reason="r", policy="y",
        outcome=Outcome.COMPLETED, status=200, attempts=2, bytes_in=3, bytes_out=4, prompt_tokens=5,
        completion_tokens=6, client_key="k", decided_s=101.0, sent_s=102.0, first_byte_s=103.0, first_token_s=104.0,
        finished_s=105.0,
    )  # fmt: skip
    assert list(json.loads(log_line(NOW, finished)).items()) == [
        ("time", "2026-11-30T12:00:00.123+00:00"), ("request_id", "id-1"), ("method", "PUT"),
        ("endpoint", "chat.completions"), ("model", "m"), ("stream", True), ("temperature", 0.5), ("pool", "p"),
        ("backend", "b"), ("reason", "r"), ("policy", "y"), ("outcome", "completed"), ("status", 200), ("attempts", 2),
        ("bytes_in", 3), ("bytes_out", 4), ("prompt_tokens", 5), ("completion_tokens", 6), ("decided_s", 1.0),
        ("sent_s", 2.0), ("first_byte_s", 3.0), ("first_token_s", 4.0), ("finished_s", 5.0), ("client_key", "k"),
    ]  # fmt: skip


def test_a_method_that_was_never_read_is_unknown() -> None:
    assert json.loads(log_line(NOW, record(method="")))["method"] is None


def test_lines_come_in_the_order_of_the_requests_and_all_are_written_at_the_end() -> None:
    sink = Sink()
    recorder = Recorder(sink.write, now)
    for number in range(3 * BATCH_RECORDS_MAX):
        recorder.write(record(f"id-{number}"))
    recorder.close(5.0)
    ids = [json.loads(line)["request_id"] for line in sink.data.splitlines()]
    assert ids == [f"id-{number}" for number in range(3 * BATCH_RECORDS_MAX)]


@pytest.mark.slow
def test_a_stalled_disk_costs_lines_and_never_time(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink(opened=False)
    recorder = Recorder(sink.write, now)
    recorder.write(record("first"))
    assert sink.entered.wait(5)
    for number in range(QUEUE_RECORDS_MAX + 7):
        recorder.write(record(str(number)))
    assert recorder.dropped == 7
    sink.open.set()
    recorder.close(10.0)
    assert len(sink.data.splitlines()) == QUEUE_RECORDS_MAX + 1
    assert "7 lines lost" in caplog.text


def test_a_writer_that_hangs_for_good_does_not_keep_the_process_alive() -> None:
    sink = Sink(opened=False)
    recorder = Recorder(sink.write, now)
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

    recorder = Recorder(sink, now)
    recorder.write(record("lost"))
    assert failed_once.wait(5)
    recorder.write(record("kept"))
    recorder.close(5.0)
    assert recorder.failed == 1
    assert [json.loads(line)["request_id"] for line in written] == ["kept"]
    assert "1 lines lost" in caplog.text


def test_without_an_access_log_nothing_runs() -> None:
    with open_access_log("off", now) as recorder:
        recorder.write(record())
        assert "access-log" not in {thread.name for thread in threading.enumerate()}
        recorder.close(1.0)


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    for request_id in ("one", "two"):
        with open_access_log(str(path), now) as recorder:
            recorder.write(record(request_id))
    assert [json.loads(line)["request_id"] for line in path.read_bytes().splitlines()] == ["one", "two"]


def test_a_file_that_cannot_be_written_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"), open_access_log(str(tmp_path), now):
        pass


def test_standard_error_is_written_to_and_stays_open(capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger(__name__).debug("capfd has replaced the descriptor")
    with open_access_log("stderr", now) as recorder:
        recorder.write(record("seen"))
    os.fstat(2)
    assert json.loads(capfd.readouterr().err)["request_id"] == "seen"


class Stubborn(FileIO):
    """A descriptor that takes a few bytes at a time, and at last none."""

    def __init__(self, path: Path, takes: list[int | None]) -> None:
        super().__init__(path, "wb")
        self.takes = takes
        self.taken = b""

    def write(self, data: object) -> int | None:  # type: ignore[override]
        part = self.takes.pop(0)
        self.taken += bytes(data)[: part or 0]  # type: ignore[call-overload]
        return part


def test_a_partial_write_is_completed(tmp_path: Path) -> None:
    with Stubborn(tmp_path / "x", [2, 3, 1]) as file:
        write_all(file, b"abcdef")
        assert file.taken == b"abcdef"


def test_a_pipe_that_takes_nothing_more_is_an_error(tmp_path: Path) -> None:
    with Stubborn(tmp_path / "x", [2, None]) as file, pytest.raises(BlockingIOError):
        write_all(file, b"abcdef")
