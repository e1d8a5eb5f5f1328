"""The only door to OpenTelemetry, imported only where tracing is on (the extra `breakeven[otel]`).

Spans are put together from records that have ended, in the thread of a recorder, with the ids that were chosen while
the requests lived; the batch processor of the SDK exports them in a thread of its own. Its OTEL_* variables work:
OTEL_EXPORTER_OTLP_ENDPOINT and the rest of the exporter's, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
OTEL_TRACES_SAMPLER, OTEL_BSP_*.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Decision
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from breakeven.record import RequestRecord
from breakeven.recorder import Entry
from breakeven.span_text import (
    attempt_attributes,
    attempt_error,
    server_attributes,
    server_error,
    span_name,
)
from breakeven.trace_context import TraceParent

SPAN_NAME_FOR_SAMPLERS = "request"
"""Samplers are asked when a request comes, before anything of it is read."""


class ChosenIds(IdGenerator):
    """Gives each span the id that was chosen for it."""

    def __init__(self) -> None:
        self.trace_id = self.span_id = ""

    def generate_trace_id(self) -> int:
        """For a trace that begins here."""
        return int(self.trace_id, 16)

    def generate_span_id(self) -> int:
        """For the span that is being made."""
        return int(self.span_id, 16)


class SpanWriter:
    """Makes spans of records and hands them to a processor. For one thread."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._ids = ChosenIds()
        # What is not sampled never comes here.
        self._provider = TracerProvider(
            sampler=ALWAYS_ON, resource=resource(), shutdown_on_exit=False, id_generator=self._ids
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("breakeven", version("breakeven"))

    def take(self, batch: Sequence[Entry]) -> None:
        """Write a batch of records down."""
        for ended, record in batch:
            self._write(round(ended.timestamp() * 1e9), record)

    def close(self) -> None:
        """Export what is left."""
        self._provider.shutdown()

    def _write(self, ended_ns: int, record: RequestRecord) -> None:
        spans, ended_s = record.spans, record.finished_s
        if spans is None or ended_s is None:
            return

        def at(moment_s: float) -> int:
            return ended_ns - round((ended_s - moment_s) * 1e9)

        self._ids.trace_id, self._ids.span_id = spans.own.trace_id, spans.own.span_id
        server = self._tracer.start_span(
            span_name(record),
            context=remote(spans.parent),
            kind=SpanKind.SERVER,
            attributes=server_attributes(record),
            start_time=at(record.received_s),
        )
        inside = set_span_in_context(server, Context())
        for attempt in spans.attempts:
            self._ids.span_id = attempt.span_id
            child = self._tracer.start_span(
                span_name(record),
                context=inside,
                kind=SpanKind.CLIENT,
                attributes=attempt_attributes(record, attempt),
                start_time=at(attempt.started_s),
            )
            if error := attempt_error(record, attempt):
                child.set_status(Status(StatusCode.ERROR, error))
            child.end(at(ended_s if attempt.ended_s is None else attempt.ended_s))
        if error := server_error(record):
            server.set_status(Status(StatusCode.ERROR, error))
        server.end(ended_ns)


def remote(parent: TraceParent | None) -> Context:
    """The client's span as the SDK knows it; an empty context begins a trace."""
    if parent is None:
        return Context()
    flags = TraceFlags(TraceFlags.SAMPLED if parent.sampled else TraceFlags.DEFAULT)
    span = SpanContext(int(parent.trace_id, 16), int(parent.span_id, 16), is_remote=True, trace_flags=flags)
    return set_span_in_context(NonRecordingSpan(span), Context())


def resource() -> Resource:
    """Who we are, as the environment says; `breakeven` where it does not."""
    told = Resource.create()
    if str(told.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        return told.merge(Resource({SERVICE_NAME: "breakeven"}))
    return told


def sampler() -> Callable[[TraceParent | None, str], bool]:
    """Asks the sampler that OTEL_TRACES_SAMPLER names; parentbased_always_on without it."""
    chosen = TracerProvider(shutdown_on_exit=False).sampler

    def sampled(parent: TraceParent | None, trace_id: str) -> bool:
        result = chosen.should_sample(remote(parent), int(trace_id, 16), SPAN_NAME_FOR_SAMPLERS, SpanKind.SERVER)
        return result.decision is Decision.RECORD_AND_SAMPLE

    return sampled


def exporting() -> BatchSpanProcessor:
    """Exports over OTLP in a thread of its own, as the environment says where to."""
    return BatchSpanProcessor(OTLPSpanExporter())
