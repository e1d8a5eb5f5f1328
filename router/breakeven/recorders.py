"""Opens what the settings ask to be written of finished requests: access log, journal, spans."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from breakeven.config import Settings
from breakeven.errors import shown
from breakeven.journal_line import is_wanted, journal_lines
from breakeven.line_file import LineDescriptor, LineFile
from breakeven.log_line import log_line
from breakeven.recorder import CLOSE_S, Recorder, Recorders, Tracing, do_within, recording

JOURNAL_NAME = "journal.jsonl"
"""The file of a journal for which a folder is given."""

Date = Callable[[], datetime]


PROTOCOL, TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
HTTP_PROTOBUF = "http/protobuf"


class CannotTraceError(Exception):
    """Tracing is asked for and cannot be had; the message is one line."""


class UnwritableError(Exception):
    """A place cannot be written to: the setting that names it, and the system's error."""

    def __init__(self, setting: str, place: str, error: OSError) -> None:
        super().__init__(f"{setting}: cannot write {place}")
        self.error = error


@contextmanager
def open_recorders(settings: Settings, date: Date) -> Iterator[Recorder | Recorders]:
    """All that is asked for, as one; UnwritableError where a file cannot be opened. Closed, they have written all."""
    with ExitStack() as stack:
        recorders = []
        if settings.access_log != "off":
            place = _opened("access_log", settings.access_log, lambda: _log_place(settings.access_log))
            recorders.append(stack.enter_context(recording(place, date, "access", log_line)))
        if settings.journal != "off":
            place = _opened("journal", settings.journal, lambda: _journal_place(settings))
            wanted = None if settings.journal_sample >= 1.0 else is_wanted(settings.journal_sample)
            recorders.append(stack.enter_context(recording(place, date, "journal", journal_lines(), wanted)))
        yield recorders[0] if len(recorders) == 1 else Recorders(recorders, date)


@contextmanager
def open_tracing(settings: Settings, date: Date) -> Iterator[Tracing | None]:
    """Spans over OTLP where `tracing` asks for them; CannotTraceError says what is missing."""
    if settings.tracing == "off":
        yield None
        return
    protocol = os.environ.get(TRACES_PROTOCOL) or os.environ.get(PROTOCOL) or HTTP_PROTOBUF
    if protocol != HTTP_PROTOBUF:
        message = f"tracing: only {HTTP_PROTOBUF} is spoken, {PROTOCOL} asks for {shown(protocol)}"
        raise CannotTraceError(message)
    try:
        from breakeven import otlp  # noqa: PLC0415  # an extra, and 0.3 s to import: only where it is asked for
    except ImportError:
        message = "tracing: OpenTelemetry is not installed: pip install 'breakeven[otel]'"
        raise CannotTraceError(message) from None
    processor = otlp.exporting()
    writer = otlp.SpanWriter(processor)
    recorder = Recorder(writer.take, date, "spans")
    try:
        yield Tracing(otlp.sampler(), recorder)
    finally:
        recorder.close(CLOSE_S)
        # The SDK would wait half a minute for a collector that does not answer.
        do_within(CLOSE_S, writer.close)


def _opened(setting: str, place: str, opener: Callable[[], LineDescriptor]) -> LineDescriptor:
    try:
        return opener()
    except OSError as error:
        raise UnwritableError(setting, place, error) from None


def _log_place(target: str) -> LineDescriptor:
    return LineDescriptor(sys.stderr.fileno()) if target == "stderr" else LineFile(Path(target))


def _journal_place(settings: Settings) -> LineFile:
    path = Path(settings.journal)
    if path.is_dir():
        path /= JOURNAL_NAME
    return LineFile(path, settings.journal_max_bytes, settings.journal_files)
