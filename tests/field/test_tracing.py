"""Tracing as a collector sees it: a real router, and a collector that keeps what it is sent."""

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest
import pytest_asyncio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.field.client import JSON, body
from tests.field.router import until
from tests.field.scripts import answers
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SECRET = "ein-geheimer-Satz"


class Collector:
    """Takes OTLP over HTTP and keeps spans; `raw` holds every byte that came."""

    def __init__(self) -> None:
        self.raw = b""
        self.services: set[str] = set()
        self.spans: list[Span] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_length = await reader.readuntil(b"\r\n\r\n")
        (length,) = [line[15:] for line in with_length.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        content = await reader.readexactly(int(length))
        self.raw += content
        for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
            named = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.services.add(named["service.name"])
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        writer.write(b"HTTP/1.1 %d OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % HTTPStatus.OK)
        await writer.drain()
        writer.close()

    async def of(self, request_id: str) -> tuple[Span, list[Span]]:
        """The server's span of that request and its children, once they have come."""

        def server() -> list[Span]:
            return [span for span in self.spans if said(span).get("breakeven.request_id") == request_id]

        async def came() -> bool:
            return bool(server())

        await until(came, f"the span of {request_id}")
        (found,) = server()
        return found, [span for span in self.spans if span.parent_span_id == found.span_id]


def said(span: Span) -> dict[str, object]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def collector() -> AsyncIterator[Collector]:
    collecting = Collector()
    server = await asyncio.start_server(collecting.serve, "127.0.0.1", 0)
    with pytest.MonkeyPatch.context() as environment:
        port = server.sockets[0].getsockname()[1]
        environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        environment.setenv("OTEL_SERVICE_NAME", "edge")
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
        yield collecting
    server.close()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A router that takes part in traces."""
    async with staged(tmp_path_factory.mktemp("router"), {"tracing": "otlp"}) as stage:
        yield stage


def headers(request_id: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    return [*JSON, ("x-request-id", request_id), *more]


@pytest.mark.slow
async def test_the_engine_is_the_attempts_child_the_attempt_the_requests_and_the_request_the_clients(
    stage: Stage, collector: Collector
) -> None:
    stage.script(answers(b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}'))
    traced = [("traceparent", f"00-{TRACE}-{SPAN}-01"), ("tracestate", "a=1")]
    _, seen, _ = await stage.routed(body(temperature=1.5), headers=headers("child", *traced))
    server, (attempt,) = await collector.of("child")
    assert (server.trace_id.hex(), server.parent_span_id.hex()) == (TRACE, SPAN)
    assert seen.values("traceparent") == [f"00-{TRACE}-{attempt.span_id.hex()}-01"]
    assert seen.values("tracestate") == ["a=1"]
    assert (server.name, attempt.name) == ("chat m", "chat m")
    assert (server.kind, attempt.kind) == (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT)
    assert said(attempt)["gen_ai.usage.output_tokens"] == 9
    assert said(server)["breakeven.pool"] == BASE
    assert server.start_time_unix_nano <= attempt.start_time_unix_nano
    assert attempt.end_time_unix_nano <= server.end_time_unix_nano
    assert collector.services == {"edge"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("upper", f"00-{TRACE.upper()}-{SPAN}-01"),
        ("zero", f"00-{TRACE}-{'0' * 16}-01"),
        ("nonsense", "nonsense"),
    ],
)
async def test_an_invalid_parent_restarts_the_trace_and_its_state_goes_with_it(
    stage: Stage, collector: Collector, name: str, value: str
) -> None:
    traced = [("traceparent", value), ("tracestate", "a=1")]
    _, seen, _ = await stage.routed(body(), headers=headers(name, *traced))
    server, (attempt,) = await collector.of(name)
    assert server.parent_span_id == b""
    assert server.trace_id.hex() != TRACE
    assert seen.values("traceparent") == [f"00-{server.trace_id.hex()}-{attempt.span_id.hex()}-01"]
    assert seen.values("tracestate") == []


async def test_each_engine_that_was_tried_is_a_span(stage: Stage, collector: Collector) -> None:
    stage.spec.script = answers(b"{}", status=503)
    await stage.ask(body(temperature=0.5), headers=headers("tried"))
    server, attempts = await collector.of("tried")
    told = [(said(each)["breakeven.pool"], said(each)["http.response.status_code"]) for each in attempts]
    assert sorted(told) == [(BASE, 200), (SPEC, 503)]
    assert said(server)["breakeven.reason"] == "failover"


async def test_a_client_that_is_not_sampled_is_not_exported_and_its_engine_is_told(
    stage: Stage, collector: Collector
) -> None:
    _, seen, _ = await stage.routed(body(), headers=headers("quiet", ("traceparent", f"00-{TRACE}-{SPAN}-00")))
    (value,) = seen.values("traceparent")
    assert value.startswith(f"00-{TRACE}-")
    assert value.endswith("-00")
    assert SPAN not in value
    await stage.ask(body(), headers=headers("loud"))
    await collector.of("loud")
    assert "quiet" not in {said(span).get("breakeven.request_id") for span in collector.spans}


async def test_no_span_holds_prompt_key_or_address(stage: Stage, collector: Collector) -> None:
    content = body(messages=[{"role": "user", "content": SECRET}], user=SECRET)
    await stage.ask(content, headers=headers("secret", ("authorization", f"Bearer {SECRET}")))
    await collector.of("secret")
    assert SECRET.encode() not in collector.raw
    assert b"127.0.0.1" not in collector.raw
