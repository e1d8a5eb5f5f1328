"""`breakeven.writable`: `check` says what would keep `serve` from starting, and leaves nothing behind."""

import errno
import os
import sys
from pathlib import Path

import pytest

from breakeven.config import Settings
from breakeven.writable import judge_outputs, trouble


def told(**values: object) -> list[str]:
    settings = Settings.model_validate({"baseline": ["http://127.0.0.1:1"], **values})
    return [f"{finding.severity}: {finding.text}" for finding in judge_outputs(settings)]


def test_a_folder_that_is_not_there_and_a_file_that_is_a_folder_are_problems(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "file"
    assert told(access_log=str(tmp_path), journal=str(missing)) == [
        f"problem: access_log: cannot write {tmp_path}: is a directory",
        f"problem: journal: cannot write {missing}: no such file or directory",
    ]


def test_a_file_under_a_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert trouble(tmp_path / "file" / "log") == errno.ENOTDIR


@pytest.mark.parametrize("kind", ["file", "pipe", "folder"])
def test_what_this_user_may_not_write_is_a_problem(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "no")

    path = tmp_path / "log"  # whoever is root may write anywhere: the system is asked on our behalf
    monkeypatch.setattr(os, "access", lambda *_: False)
    if kind == "file":
        path.touch()
        monkeypatch.setattr(os, "open", forbidden)
    elif kind == "pipe":
        os.mkfifo(path)
    assert trouble(path) == errno.EACCES


def test_what_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    log, pipe = tmp_path / "access.log", tmp_path / "pipe"
    log.write_text("before\n")
    os.mkfifo(pipe)
    for access_log in (str(log), str(tmp_path / "new"), str(pipe), "stderr", "off"):
        assert told(access_log=access_log, journal=str(tmp_path)) == []
    assert log.read_text() == "before\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["access.log", "pipe"]


def test_a_full_journal_folder_is_judged_by_the_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    assert told(journal=str(tmp_path)) == [f"problem: journal: cannot write {tmp_path}: is a directory"]


def test_spans_that_cannot_be_sent_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    (line,) = told(tracing="otlp")
    assert line.startswith("problem: tracing: only http/protobuf is spoken")
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_PROTOCOL")
    monkeypatch.delitem(sys.modules, "breakeven.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith("opentelemetry.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delattr("breakeven.otlp", raising=False)
    assert told(tracing="otlp") == ["problem: tracing: OpenTelemetry is not installed: pip install 'breakeven[otel]'"]
