"""`breakeven.recorders`: what is asked for is opened, what cannot be written is told by the name of its setting."""

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from breakeven import otlp
from breakeven.config import Settings
from breakeven.headers import Headers
from breakeven.record import Outcome, RequestRecord
from breakeven.recorder import Tracing
from breakeven.recorders import JOURNAL_NAME, CannotTraceError, UnwritableError, open_recorders, open_tracing
from breakeven.spans import Spans
from breakeven_policies.journal import Considered, decode
from breakeven_policies.threshold import Threshold
from tests.policies.fleets import pair, request

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


def now() -> datetime:
    return NOW


def settings(**values: object) -> Settings:
    return Settings(baseline=["http://h:1"], **values)


def record(request_id: str = "id-1", *, decided: bool = True) -> RequestRecord:
    made = RequestRecord(request_id, "chat.completions", received_s=100.0, outcome=Outcome.COMPLETED)
    if decided:
        made.considered = Considered(request(), pair(), Threshold().decide(request(), pair()))
    return made


def ids(path: Path) -> list[str]:
    return [json.loads(line)["request_id"] for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("setting", ["access_log", "journal"])
def test_a_place_that_cannot_be_written_is_told_by_the_name_of_its_setting(tmp_path: Path, setting: str) -> None:
    place = str(tmp_path / "nowhere" / "log")
    with pytest.raises(UnwritableError, match=f"{setting}: cannot write ") as caught:
        open_recorders(settings(**{setting: place}), now).__enter__()
    assert isinstance(caught.value.error, FileNotFoundError)


def test_where_nothing_is_asked_for_nothing_runs() -> None:
    with open_recorders(settings(), now) as recorder:
        recorder.write(record())
        assert not [thread for thread in threading.enumerate() if thread.name.endswith("-log")]


def test_a_log_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    for request_id in ("one", "two"):
        with open_recorders(settings(access_log=str(path)), now) as recorder:
            recorder.write(record(request_id))
    assert ids(path) == ["one", "two"]


def test_standard_error_is_written_to_and_stays_open(capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger(__name__).debug("capfd has replaced the descriptor")
    with open_recorders(settings(access_log="stderr"), now) as recorder:
        recorder.write(record("seen"))
    os.fstat(2)
    assert json.loads(capfd.readouterr().err)["request_id"] == "seen"


def test_log_and_journal_are_written_side_by_side_and_only_decisions_go_into_the_journal(tmp_path: Path) -> None:
    log, folder = tmp_path / "access.log", tmp_path / "journals"
    folder.mkdir()
    with open_recorders(settings(access_log=str(log), journal=str(folder)), now) as recorder:
        recorder.write(record("decided"))
        recorder.write(record("unreadable", decided=False))
    assert ids(log) == ["decided", "unreadable"]
    assert ids(folder / JOURNAL_NAME) == ["decided"]


def test_a_journal_turns_its_file_over(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    values = settings(journal=str(path), journal_max_bytes=4096, journal_files=2)
    for batch in range(4):  # a batch is written whole
        with open_recorders(values, now) as recorder:
            for number in range(8):
                recorder.write(record(f"{batch}-{number}"))
    assert ids(tmp_path / "journal.1") == [f"3-{number}" for number in range(8)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["journal.1", "journal.2"]


def test_a_share_of_nothing_leaves_the_journal_empty(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with open_recorders(settings(journal=str(path), journal_sample=0.0), now) as recorder:
        recorder.write(record())
    assert path.read_bytes() == b""
    with open_recorders(settings(journal=str(path)), now) as recorder:
        recorder.write(record())
    assert decode(path.read_bytes()).request_id == "id-1"


def test_without_tracing_there_is_none() -> None:
    with open_tracing(settings(), now) as tracing:
        assert tracing is None


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_a_protocol_that_is_not_spoken_is_told_at_once(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "grpc")
    with pytest.raises(CannotTraceError, match=r"tracing: only http/protobuf is spoken, .* asks for 'grpc'"):
        open_tracing(settings(tracing="otlp"), now).__enter__()


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "breakeven.otlp", None)
    monkeypatch.delattr("breakeven.otlp", raising=False)
    with pytest.raises(CannotTraceError, match=r"pip install 'breakeven\[otel\]'"):
        open_tracing(settings(tracing="otlp"), now).__enter__()


def traced(tracing: Tracing) -> RequestRecord:
    finished = record()
    finished.finished_s = 101.0
    finished.spans = Spans(Headers([]), tracing.sampled, lambda count: 1)
    return finished


class Exporter(InMemorySpanExporter):
    """Takes spans when it is told to."""

    def __init__(self, *, willing: bool) -> None:
        super().__init__()
        self.may = threading.Event()
        if willing:
            self.may.set()

    def shutdown(self) -> None:
        self.may.wait(10)


@pytest.mark.parametrize("willing", [True, False])
def test_spans_are_exported_at_the_end_and_a_collector_that_is_not_there_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, willing: bool
) -> None:
    exporter = Exporter(willing=willing)
    monkeypatch.setattr(otlp, "exporting", lambda: SimpleSpanProcessor(exporter))
    monkeypatch.setattr("breakeven.recorders.CLOSE_S", 10.0 if willing else 0.1)
    with open_tracing(settings(tracing="otlp"), now) as tracing:
        assert tracing is not None
        tracing.recorder.write(traced(tracing))
    exporter.may.set()
    if willing:
        assert [span.name for span in exporter.get_finished_spans()] == ["chat"]
