"""What the spans of a finished request say, in the words of OpenTelemetry's conventions for GenAI and HTTP.

Names of its own begin with `breakeven.`. Nothing here names an address, and nothing comes from a prompt or a header;
the model is the client's word, shortened, and part of a span's name only where an engine was found for it.
"""

from collections.abc import Mapping, Sequence

from breakeven.record import ENDED_BY, AttemptResult, Outcome, RequestRecord
from breakeven.spans import Attempt

Value = str | bool | int | float | Sequence[str]
Attributes = dict[str, Value]

PROVIDER = "vllm"
"""`gen_ai.provider.name` has no word for it in its list, which is open."""

OPERATIONS: Mapping[str, str] = {
    "chat.completions": "chat",
    "responses": "chat",
    "messages": "chat",
    "completions": "text_completion",
}
"""The conventions' word for an endpoint, where they have one; `embeddings` is its own."""

METHODS = frozenset(("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"))
OTHER_METHOD = "_OTHER"
"""`http.request.method` for what is none of the above (HTTP conventions)."""

MODEL_CHARACTERS_MAX = 200
WORD_CHARACTERS_MAX = 80
"""Of what a client or an engine says."""

NO_FAULT = frozenset((Outcome.COMPLETED, Outcome.REJECTED_BY_ENGINE, Outcome.CLIENT_ERROR, Outcome.CLIENT_CLOSED))
"""What is no error of a server: the client's own doing (HTTP conventions: 4xx leave a server's span unset)."""


def span_name(record: RequestRecord) -> str:
    """`chat llama`, or the operation alone where no engine was found, or the method where nothing else is known."""
    if record.endpoint == "none":
        return _method(record)
    operation = OPERATIONS.get(record.endpoint, record.endpoint)
    return operation if record.model is None or record.pool is None else f"{operation} {_model(record.model)}"


def server_attributes(record: RequestRecord) -> Attributes:
    """Of the request's own span."""
    attributes = _request(record) | _answer(record)
    attributes["http.request.method"] = _method(record)
    attributes["breakeven.request_id"] = record.request_id
    attributes["breakeven.attempts"] = record.attempts
    for name in ("pool", "backend", "reason", "policy", "outcome"):
        if (value := getattr(record, name)) is not None:
            attributes[f"breakeven.{name}"] = str(value)
    if record.outcome is not None:
        attributes["breakeven.ended_by"] = str(ENDED_BY[record.outcome])
    if record.status is not None:
        attributes["http.response.status_code"] = record.status
    if error := server_error(record):
        attributes["error.type"] = error
    return attributes


def attempt_attributes(record: RequestRecord, attempt: Attempt) -> Attributes:
    """Of one attempt; what was generated belongs to the one that answered."""
    attributes = _request(record)
    attributes["breakeven.pool"], attributes["breakeven.backend"] = attempt.pool, attempt.backend
    if attempt.result is not None:
        attributes["breakeven.result"] = str(attempt.result)
    if attempt.result == AttemptResult.ANSWERED:
        attributes |= _answer(record)
    if attempt.status is not None:
        attributes["http.response.status_code"] = attempt.status
    if error := attempt_error(record, attempt):
        attributes["error.type"] = error
    return attributes


def server_error(record: RequestRecord) -> str | None:
    """The word for what went wrong, None where nothing did that is ours or an engine's."""
    return None if record.outcome is None or record.outcome in NO_FAULT else str(record.outcome)


def attempt_error(record: RequestRecord, attempt: Attempt) -> str | None:
    """The same for an attempt, by its status first; an answer that broke off is the outcome of the request."""
    if attempt.status is not None and attempt.status >= 400:
        return str(attempt.status)
    if attempt.result == AttemptResult.ANSWERED:
        return server_error(record)
    return None if attempt.result in (None, AttemptResult.ABANDONED) else str(attempt.result)


def _request(record: RequestRecord) -> Attributes:
    attributes: Attributes = {"gen_ai.provider.name": PROVIDER}
    if record.endpoint != "none":
        attributes["gen_ai.operation.name"] = OPERATIONS.get(record.endpoint, record.endpoint)
    if record.model is not None:
        attributes["gen_ai.request.model"] = _model(record.model)
    if record.considered is None:
        return attributes
    view = record.considered.request
    attributes["gen_ai.request.stream"] = view.stream
    if view.sampled:
        attributes["breakeven.temperature"] = view.temperature
        attributes["gen_ai.request.top_p"] = view.top_p
        if not view.temperature_defaulted:
            attributes["gen_ai.request.temperature"] = view.temperature
        if view.top_k:
            attributes["gen_ai.request.top_k"] = _whole(view.top_k)
        if view.sequences != 1:
            attributes["gen_ai.request.choice.count"] = _whole(view.sequences)
        if view.max_output_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = _whole(view.max_output_tokens)
    return attributes


def _answer(record: RequestRecord) -> Attributes:
    attributes: Attributes = {}
    if record.prompt_tokens is not None:
        attributes["gen_ai.usage.input_tokens"] = record.prompt_tokens
    if record.completion_tokens is not None:
        attributes["gen_ai.usage.output_tokens"] = record.completion_tokens
    if record.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = (_safe(record.finish_reason[:WORD_CHARACTERS_MAX]),)
    if record.first_token_s is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = round(record.first_token_s - record.received_s, 6)
    return attributes


def _whole(number: int) -> int:
    """Within the 64 bits that the protocol has."""
    return max(-(2**63), min(number, 2**63 - 1))


def _model(model: str) -> str:
    return _safe(model[:MODEL_CHARACTERS_MAX])


def _safe(text: str) -> str:
    """Without lone surrogates, at which the exporter would lose its whole batch."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _method(record: RequestRecord) -> str:
    return record.method if record.method in METHODS else OTHER_METHOD
