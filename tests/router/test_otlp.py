"""`breakeven.otlp`: spans with the ids that were chosen, the times that were, and the parents that came."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from breakeven import otlp
from breakeven.headers import Headers
from breakeven.record import AttemptResult, Outcome, RequestRecord
from breakeven.spans import Spans
from breakeven.trace_context import TraceParent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = (b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())
ENDED = datetime(2026, 11, 30, 12, 0, 10, tzinfo=UTC)
ENDED_NS = int(ENDED.timestamp()) * 10**9


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


def spans_of(exporter: InMemorySpanExporter, *records: RequestRecord) -> list[ReadableSpan]:
    writer = otlp.SpanWriter(SimpleSpanProcessor(exporter))
    writer.take([(ENDED, record) for record in records])
    writer.close()
    return sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)


def record(*headers: tuple[bytes, bytes], **changes: object) -> RequestRecord:
    numbers = iter(range(1, 100))
    made = RequestRecord("id-1", "chat.completions", 100.0, model="m", pool="p", finished_s=104.0)
    made.spans = Spans(Headers(list(headers)), lambda parent, trace_id: True, lambda count: next(numbers))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def tried(made: RequestRecord) -> RequestRecord:
    assert made.spans is not None
    made.spans.begin("p", "a", 101.0)
    made.spans.end(AttemptResult.LOST, None, 102.0)
    made.spans.begin("p", "b", 102.5)
    made.spans.end(AttemptResult.ANSWERED, 200, 103.75)
    return made


def test_what_has_no_spans_or_no_end_is_passed_over(exported: InMemorySpanExporter) -> None:
    assert spans_of(exported, record(spans=None), record(finished_s=None)) == []


def test_a_request_is_the_clients_child_and_each_attempt_its_own(exported: InMemorySpanExporter) -> None:
    server, lost, answered = spans_of(exported, tried(record(VALID, outcome=Outcome.COMPLETED)))
    assert server.context is not None
    assert {span.context.trace_id for span in (server, lost, answered)} == {int(TRACE, 16)}
    assert [span.context.span_id for span in (server, lost, answered)] == [1, 2, 3]
    assert (server.parent.span_id, server.parent.is_remote) == (int(SPAN, 16), True)
    assert {span.parent.span_id for span in (lost, answered)} == {1}
    assert [span.kind for span in (server, lost, answered)] == [SpanKind.SERVER, SpanKind.CLIENT, SpanKind.CLIENT]
    assert [span.status.status_code for span in (server, lost, answered)] == [
        StatusCode.UNSET, StatusCode.ERROR, StatusCode.UNSET,
    ]  # fmt: skip
    assert {span.name for span in (server, lost, answered)} == {"chat m"}


def test_times_are_those_of_the_record(exported: InMemorySpanExporter) -> None:
    server, lost, answered = spans_of(exported, tried(record()))
    times = [(span.start_time - ENDED_NS, span.end_time - ENDED_NS) for span in (server, lost, answered)]
    assert times == [(-4 * 10**9, 0), (-3 * 10**9, -2 * 10**9), (-15 * 10**8, -25 * 10**7)]


def test_a_trace_that_begins_here_has_no_parent_and_an_attempt_without_end_ends_with_its_request(
    exported: InMemorySpanExporter,
) -> None:
    begun = record(outcome=Outcome.UPSTREAM_TIMEOUT)
    begun.spans.begin("p", "a", 101.0)
    server, attempt = spans_of(exported, begun)
    assert (server.parent, server.context.trace_id) == (None, 1)
    assert attempt.end_time == server.end_time == ENDED_NS
    assert (server.status.status_code, server.status.description) == (StatusCode.ERROR, "upstream_timeout")


@pytest.mark.parametrize(("environment", "name"), [({}, "breakeven"), ({"OTEL_SERVICE_NAME": "edge"}, "edge")])
def test_the_service_is_named_by_the_environment(
    environment: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert otlp.resource().attributes["service.name"] == name


@pytest.mark.parametrize(
    ("variables", "parent", "sampled"),
    [
        ({}, None, True),
        ({}, True, True),
        ({}, False, False),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, True, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, None, False),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, True, True),
    ],
)
def test_the_sampler_is_that_of_the_environment(
    variables: dict[str, str], parent: bool | None, sampled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    said = None if parent is None else TraceParent(TRACE, SPAN, sampled=parent)
    assert otlp.sampler()(said, TRACE) is sampled


@pytest.mark.slow
def test_without_tracing_neither_sdk_nor_exporter_is_imported() -> None:
    names = {"opentelemetry.sdk", "opentelemetry.exporter", "requests"}  # the bare interface comes with FastAPI
    code = f"import breakeven.wiring, sys; sys.exit(bool({names} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
