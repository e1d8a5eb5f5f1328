"""Views a request body for routing: every parameter as the engine will read it. Never changes a byte of what it views.

A request for an alias of a model is the one that has to be changed, and there only the name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import UNSET, Struct

from breakeven.endpoints import BodyKind, Endpoint
from breakeven.errors import invalid_request
from breakeven.fields import Fields, read_form, read_json
from breakeven.form import field_spans
from breakeven.json_span import deciding, model_spans, with_model
from breakeven.values import finite_number, truth, whole_number
from breakeven_policies.request import RequestView, SamplingDefaults


@dataclass(frozen=True, slots=True)
class ModelTable:
    """What is configured about models.

    `aliases` maps a name that clients use to the one that the engines serve; `defaults` holds the sampling defaults of
    single models by the engines' name, `fallback` those of all others.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, SamplingDefaults] = field(default_factory=dict)
    fallback: SamplingDefaults = field(default_factory=SamplingDefaults)

    def defaults_of(self, model: str | None) -> SamplingDefaults:
        """What is configured for a model by the engines' name; None: the request names none."""
        return self.fallback if model is None else self.defaults.get(model, self.fallback)


class Viewed(Struct, frozen=True):
    """A request as routing sees it.

    `alias` is the name that the client used where another one must be sent upstream: `rename_model` writes
    `request.model` into the body, and the answer is to carry the alias again. None: the body goes upstream as it came.
    """

    request: RequestView
    alias: str | None


def view(
    endpoint: Endpoint,
    body: bytes,
    content_type: str,
    models: ModelTable,
    ticket: float,
    *,
    is_utf8: bool | None = None,
) -> Viewed:
    """Read the body as the engine will; ApiError 400 where no engine could, and nothing else is ever raised.

    The content type matters only to forms. `ticket` is uniform in [0, 1). `is_utf8`: what is known about the bytes.
    """
    fields = read_json(body, is_utf8) if endpoint.body is BodyKind.JSON else read_form(body, content_type)
    name = _model(endpoint, fields.model)
    served = None if name is None else models.aliases.get(name)
    if served is None:
        return Viewed(_resolve(endpoint, fields, name, len(body), models, ticket), None)
    return Viewed(_resolve(endpoint, fields, served, len(body), models, ticket), name)


def rename_model(endpoint: Endpoint, body: bytes, content_type: str, model: str) -> bytes:
    """The body with another model: every byte but the value that decides stays as it is (field case B08).

    The body is one that `view` accepted. ApiError 400 where it is JSON in UTF-16 or UTF-32, or absurd (10,000 models).
    """
    if endpoint.body is BodyKind.MULTIPART:
        span = field_spans(body, content_type, (b"model",)).get(b"model")
        return body if span is None else body[: span[0]] + model.encode() + body[span[1] :]
    if json.detect_encoding(body) not in {"utf-8", "utf-8-sig"}:
        message = "A request for an alias of a model must be in UTF-8."
        raise invalid_request(message, param="model")
    try:
        spans = model_spans(body)
    except ValueError as error:
        message = f"The request body has {error}."
        raise invalid_request(message, param="model") from None
    if len(spans) > 1:  # a single one is the one that `view` saw: no second look at up to 30 MB
        spans = deciding(body, spans, lambda document: (read_json(document).model,))
    return with_model(body, spans, model)


def _model(endpoint: Endpoint, value: object) -> str | None:
    if isinstance(value, str):
        return value
    if not endpoint.model_required:
        return None
    message = "The request names no model." if value is None else "The model must be a string."
    raise invalid_request(message, param="model")


def _resolve(
    endpoint: Endpoint, fields: Fields, model: str | None, size_bytes: int, models: ModelTable, ticket: float
) -> RequestView:
    """Effective parameters: of the request, else of the model, else of the protocol.

    Source: vLLM 0.33.0, `to_sampling_params` of each request class.
    """
    ignored = endpoint.ignored_fields
    defaults = models.defaults_of(model)
    # Most requests leave most parameters out: a test here instead of a call there.
    temperature = None if fields.temperature is None else finite_number(fields.temperature)
    top_p = None if fields.top_p is None else finite_number(fields.top_p)
    top_k = None if fields.top_k is None else whole_number(fields.top_k)
    min_p = None if fields.min_p is None or "min_p" in ignored else finite_number(fields.min_p)
    sequences = None if fields.n is None or "n" in ignored else whole_number(fields.n)
    absent = endpoint.temperature_absent
    return RequestView(
        model=model,
        endpoint=endpoint.name,
        stream=fields.stream is not None and truth(fields.stream),
        temperature=_effective(temperature, defaults.temperature if absent is None else absent, 1.0),
        temperature_defaulted=temperature is None,
        top_p=_effective(top_p, defaults.top_p, 1.0),
        top_k=max(0, _effective(top_k, defaults.top_k, 0)),  # -1 is an older spelling of 0, off
        min_p=_effective(min_p, defaults.min_p, 0.0),
        has_logit_bias="logit_bias" not in ignored and fields.has_bias,
        prompt_bytes=size_bytes,
        max_output_tokens=_max_output_tokens(endpoint, fields),
        sequences=1 if sequences is None or sequences < 1 else sequences,
        ticket=ticket,
        sampled=endpoint.sampled,
        structured=fields.structured,
        has_tools=fields.has_tools,
    )


_Number = TypeVar("_Number", int, float)


def _effective(named: _Number | None, default: _Number | None, protocol: _Number) -> _Number:
    if named is not None:
        return named
    return protocol if default is None else default


def _max_output_tokens(endpoint: Endpoint, fields: Fields) -> int | None:
    """The first limit that is no null; a limit of null, or one that is no number, is none, but is not absent either."""
    absent = endpoint.max_output_absent
    for name in endpoint.max_output_fields:
        value = getattr(fields, name)
        if value is not UNSET:
            absent = None
            limit = whole_number(value)
            if limit is not None:
                return max(0, limit)
    return absent
