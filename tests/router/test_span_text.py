"""`breakeven.span_text`: the words of OpenTelemetry, as its own package has them, and never a secret."""

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes

from breakeven.endpoints import EndpointTable
from breakeven.record import AttemptResult, Outcome, RequestRecord
from breakeven.span_text import (
    OPERATIONS,
    attempt_attributes,
    attempt_error,
    server_attributes,
    server_error,
    span_name,
)
from breakeven.spans import Attempt
from breakeven_policies.journal import Considered
from breakeven_policies.threshold import Threshold
from tests.policies.fleets import pair, request


def record(
    endpoint: str = "chat.completions", view: dict[str, object] | None = None, **changes: object
) -> RequestRecord:
    made = RequestRecord("id-1", endpoint, received_s=100.0)
    if view is not None:
        seen = request(**view)
        made.considered = Considered(seen, pair(), Threshold().decide(seen, pair()))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def attempt(result: str | None = AttemptResult.ANSWERED, status: int | None = 200) -> Attempt:
    return Attempt("a" * 16, "p", "b", 1.0, 2.0, result, status)


FULL = record(
    view={"temperature": 0.5, "top_k": 5, "sequences": 2, "max_output_tokens": 10**30},
    model="m", pool="p", backend="b", reason="r", policy="y", outcome=Outcome.UPSTREAM_ERROR, status=502, attempts=2,
    prompt_tokens=3, completion_tokens=4, first_token_s=100.25, finish_reason="length",
)  # fmt: skip


def test_names_are_those_of_the_conventions() -> None:
    known = {
        value
        for module in (gen_ai_attributes, error_attributes, http_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    used = server_attributes(FULL).keys() | attempt_attributes(FULL, attempt(status=502)).keys()
    assert {name for name in used if not name.startswith("breakeven.")} <= known
    assert {name for name in used if name.startswith("gen_ai.")} >= {
        "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.request.temperature",
        "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons",
    }  # fmt: skip


def test_operations_are_words_of_the_conventions_and_endpoints_of_ours() -> None:
    words = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    assert set(OPERATIONS.values()) | {"embeddings"} <= words
    assert OPERATIONS.keys() <= {endpoint.name for endpoint in EndpointTable()}


def test_a_request_that_could_not_be_read_has_the_name_of_its_method_or_none_that_a_client_made_up() -> None:
    assert span_name(record("none", method="PUT")) == "PUT"
    assert span_name(record("none", method="BREW")) == span_name(record("none", method="")) == "_OTHER"


def test_a_model_that_nobody_serves_does_not_make_names_without_end() -> None:
    assert span_name(record(model="made-up")) == "chat"
    assert span_name(record(pool="p")) == "chat"
    assert span_name(record(model="llama", pool="p")) == "chat llama"
    assert span_name(record("completions", model="llama", pool="p")) == "text_completion llama"
    assert span_name(record("rerank", model="llama", pool="p")) == "rerank llama"


def test_the_server_says_what_was_asked_decided_and_answered() -> None:
    assert server_attributes(FULL) == {
        "gen_ai.provider.name": "vllm", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.request.stream": True, "breakeven.temperature": 0.5, "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 1.0, "gen_ai.request.top_k": 5, "gen_ai.request.choice.count": 2,
        "gen_ai.request.max_tokens": 2**63 - 1, "gen_ai.usage.input_tokens": 3, "gen_ai.usage.output_tokens": 4,
        "gen_ai.response.finish_reasons": ("length",), "gen_ai.response.time_to_first_chunk": 0.25,
        "http.request.method": "POST", "http.response.status_code": 502, "breakeven.request_id": "id-1",
        "breakeven.attempts": 2, "breakeven.pool": "p", "breakeven.backend": "b", "breakeven.reason": "r",
        "breakeven.policy": "y", "breakeven.outcome": "upstream_error", "breakeven.ended_by": "engine",
        "error.type": "upstream_error",
    }  # fmt: skip


def test_what_is_not_known_is_not_said() -> None:
    assert server_attributes(record("none", method="GET")) == {
        "gen_ai.provider.name": "vllm", "http.request.method": "GET", "breakeven.request_id": "id-1",
        "breakeven.attempts": 0,
    }  # fmt: skip
    unsampled = server_attributes(record("embeddings", view={"sampled": False}))
    assert "gen_ai.request.top_p" not in unsampled
    defaulted = server_attributes(record(view={"temperature_defaulted": True}))
    assert (defaulted["breakeven.temperature"], "gen_ai.request.temperature" in defaulted) == (0.7, False)


def test_a_model_of_lone_surrogates_or_a_megabyte_breaks_no_exporter() -> None:
    model = server_attributes(record(model="\ud83d" + "x" * 10**6))["gen_ai.request.model"]
    assert model == "?" + "x" * 199


@pytest.mark.parametrize("outcome", [None, *Outcome])
def test_only_what_is_no_fault_of_the_client_is_an_error_of_ours(outcome: Outcome | None) -> None:
    clients = {None, Outcome.COMPLETED, Outcome.CLIENT_CLOSED, Outcome.CLIENT_ERROR, Outcome.REJECTED_BY_ENGINE}
    assert server_error(record(outcome=outcome)) == (None if outcome in clients else outcome)


@pytest.mark.parametrize(
    ("result", "status", "error"),
    [
        (None, None, None),
        (AttemptResult.ABANDONED, None, None),
        (AttemptResult.LOST, None, "lost"),
        (AttemptResult.CONNECT_FAILED, None, "connect_failed"),
        (AttemptResult.UNAVAILABLE, 503, "503"),
        (AttemptResult.ANSWERED, 422, "422"),
        (AttemptResult.ANSWERED, 200, "upstream_error"),
    ],
)
def test_an_attempt_says_how_it_failed(result: AttemptResult | None, status: int | None, error: str | None) -> None:
    broken = record(outcome=Outcome.UPSTREAM_ERROR)
    tried = attempt(result, status)
    assert attempt_error(broken, tried) == error
    assert attempt_attributes(broken, tried).get("error.type") == error
    assert attempt_attributes(broken, tried).get("breakeven.result") == result


def test_what_was_generated_belongs_to_the_attempt_that_answered() -> None:
    assert "gen_ai.usage.output_tokens" in attempt_attributes(FULL, attempt())
    lost = attempt_attributes(FULL, attempt(AttemptResult.LOST, None))
    assert "gen_ai.usage.output_tokens" not in lost
    assert (lost["breakeven.pool"], lost["breakeven.backend"]) == ("p", "b")
