"""Views a request body: decodes the few fields that routing needs, never changes a byte.

Two parsers. msgspec reads nearly every body in a µs or two and skips the prompt at 2 GB/s, but is stricter than the
engines, which read with the standard library (FastAPI's `request.json()`): it refuses NaN, lone surrogates, a
byte-order mark, a list where a number belongs. On its error the standard library decides, and what that accepts is
forwarded: the router judges nothing but what routing needs. In one point msgspec is laxer, the UTF-8 of what it skips;
that is checked.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType
from msgspec.json import Decoder

from breakeven.endpoints import BodyKind, Endpoint
from breakeven.errors import ApiError, invalid_request
from breakeven.form import field_spans
from breakeven.json_span import deciding, model_spans, with_model
from breakeven.values import finite_number, truth, whole_number
from breakeven_policies.request import RequestView, SamplingDefaults

LENIENT_MAX = 4 * 2**20
"""Bytes that the standard library may parse on the event loop: 8 ms per MB of messages, so that one client's odd body
delays the tokens of the others by less than 50 ms. A larger body that msgspec refuses is answered 400.
"""

UTF8_SLICE = 256 * 2**10
"""Bytes checked at a time, so that checking 30 MB never holds them a second time (at up to four bytes a character)."""


@dataclass(frozen=True, slots=True)
class ModelTable:
    """What is configured about models.

    `aliases` maps a name that clients use to the one that the engines serve; `defaults` holds the sampling defaults of
    single models by the engines' name, `fallback` those of all others.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, SamplingDefaults] = field(default_factory=dict)
    fallback: SamplingDefaults = field(default_factory=SamplingDefaults)


@dataclass(frozen=True, slots=True)
class Viewed:
    """A request as routing sees it.

    `alias` is the name that the client used where another one must be sent upstream: `rename_model` writes
    `request.model` into the body, and the answer is to carry the alias again. None: the body goes upstream as it came.
    """

    request: RequestView
    alias: str | None


def view(endpoint: Endpoint, body: bytes, content_type: str, models: ModelTable, ticket: float) -> Viewed:
    """Read the body as the engine will; ApiError 400 where no engine could, and nothing else is ever raised.

    The content type matters only to forms. `ticket` is uniform in [0, 1).
    """
    fields = _read_json(body) if endpoint.body is BodyKind.JSON else _read_form(body, content_type)
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
    try:
        spans = model_spans(body)
    except ValueError as error:
        message = f"The request body has {error}."
        raise invalid_request(message, param="model") from None
    if not spans:
        message = "A request for an alias of a model must be in UTF-8."
        raise invalid_request(message, param="model")
    if len(spans) > 1:  # a single one is the one that `view` saw: no second look at up to 30 MB
        spans = deciding(body, spans, lambda document: (_read_json(document).model,))
    return with_model(body, spans, model)


_NO_BIAS = Raw(b"null")
_SOME_BIAS = re.compile(rb'\{[ \t\n\r]*"')

_Scalar = float | int | str | bool | None


class _Fields(Struct):
    """The members that routing needs; UNSET where absent and null differ.

    Lists and objects are no `_Scalar`, so that msgspec never builds a large one: the lenient reading has a size limit.
    `logit_bias` stays raw for the same reason; only whether it is empty matters.
    """

    model: _Scalar = None
    stream: _Scalar = None
    temperature: _Scalar = None
    top_p: _Scalar = None
    top_k: _Scalar = None
    min_p: _Scalar = None
    logit_bias: Raw = _NO_BIAS
    n: _Scalar = None
    max_tokens: _Scalar | UnsetType = UNSET
    max_completion_tokens: _Scalar | UnsetType = UNSET
    max_output_tokens: _Scalar | UnsetType = UNSET


_DECODER = Decoder(_Fields)
_FORM_FIELDS = {name.encode(): name for name in _Fields.__struct_fields__ if name != "logit_bias"}


def _read_json(body: bytes) -> _Fields:
    try:
        fields = _DECODER.decode(body)
    except DecodeError:
        return _read_leniently(body)
    except RecursionError:
        raise _too_deep() from None
    return fields if body.isascii() or _is_utf8(body) else _read_leniently(body)


def _read_leniently(body: bytes) -> _Fields:
    """What the engine's own parser makes of a body that msgspec refuses, or ApiError 400."""
    if not body:
        raise _not_json("is empty")
    if len(body) > LENIENT_MAX:
        raise _not_json(f"is not plain JSON, and too large ({len(body)} bytes) to be read more leniently")
    try:
        document = json.loads(body)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError:
        raise _not_json("is not valid UTF-8") from None
    except json.JSONDecodeError as error:
        raise _not_json(f"is not valid JSON: {error}") from None
    except ValueError:  # the standard library's own limit on the digits of an int
        raise _not_json("holds a number with too many digits") from None
    if not isinstance(document, dict):
        raise _not_json("is not a JSON object")
    fields = _Fields(**{name: document[name] for name in _Fields.__struct_fields__ if name in document})
    bias = document.get("logit_bias")
    fields.logit_bias = Raw(b'{"":0}') if isinstance(bias, dict) and bias else _NO_BIAS
    return fields


def _is_utf8(body: bytes) -> bool:
    decode = getincrementaldecoder("utf-8")().decode
    try:
        for start in range(0, len(body), UTF8_SLICE):
            decode(body[start : start + UTF8_SLICE])
        decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _read_form(body: bytes, content_type: str) -> _Fields:
    """Read as the engine does (FastAPI, Starlette): an empty field is absent, bytes that are not UTF-8 are latin-1."""
    fields = _Fields()
    for name, (start, end) in field_spans(body, content_type, _FORM_FIELDS).items():
        if start < end:
            setattr(fields, _FORM_FIELDS[name], _text(body[start:end]))
    return fields


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _not_json(what: str) -> ApiError:
    return invalid_request(f"The request body {what}.", code="invalid_json")


def _too_deep() -> ApiError:
    return _not_json("is nested too deeply")


def _model(endpoint: Endpoint, value: object) -> str | None:
    if isinstance(value, str):
        return value
    if not endpoint.model_required:
        return None
    message = "The request names no model." if value is None else "The model must be a string."
    raise invalid_request(message, param="model")


def _resolve(
    endpoint: Endpoint, fields: _Fields, model: str | None, size_bytes: int, models: ModelTable, ticket: float
) -> RequestView:
    """Effective parameters: of the request, else of the model, else of the protocol.

    Source: vLLM 0.33.0, `to_sampling_params` of each request class.
    """
    ignored = endpoint.ignored_fields
    defaults = models.fallback if model is None else models.defaults.get(model, models.fallback)
    temperature = finite_number(fields.temperature)
    min_p = None if "min_p" in ignored else finite_number(fields.min_p)
    absent = endpoint.temperature_absent
    return RequestView(
        model=model,
        endpoint=endpoint.name,
        stream=truth(fields.stream),
        temperature=_effective(temperature, defaults.temperature if absent is None else absent, 1.0),
        temperature_defaulted=temperature is None,
        top_p=_effective(finite_number(fields.top_p), defaults.top_p, 1.0),
        top_k=max(0, _effective(whole_number(fields.top_k), defaults.top_k, 0)),  # -1 is an older spelling of 0, off
        min_p=_effective(min_p, defaults.min_p, 0.0),
        has_logit_bias="logit_bias" not in ignored and _has_bias(fields.logit_bias),
        prompt_bytes=size_bytes,
        max_output_tokens=_max_output_tokens(endpoint, fields),
        sequences=1 if "n" in ignored else max(1, whole_number(fields.n) or 1),
        ticket=ticket,
        sampled=endpoint.sampled,
    )


def _has_bias(bias: Raw) -> bool:
    return bias is not _NO_BIAS and _SOME_BIAS.match(bias) is not None


_Number = TypeVar("_Number", int, float)


def _effective(named: _Number | None, default: _Number | None, protocol: _Number) -> _Number:
    if named is not None:
        return named
    return protocol if default is None else default


def _max_output_tokens(endpoint: Endpoint, fields: _Fields) -> int | None:
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
