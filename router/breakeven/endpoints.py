"""The paths that are forwarded, and how each request body is to be read.

To add an endpoint, add one row to `_TABLE`; where the generic reading of JSON will do, name its path in the
configuration (`extra_paths`). `GET /v1/models` and `OPTIONS` are answered elsewhere and are not in this table. Which
fields an engine reads at which path comes from the request classes of vLLM 0.33.0 (`entrypoints/**/protocol.py`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from breakeven.errors import method_not_allowed, not_found

METHOD = "POST"
"""The only method of every endpoint here."""


class BodyKind(StrEnum):
    """How the bytes of a request body are to be read."""

    JSON = "json"
    MULTIPART = "multipart"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path of the engines.

    `name` is the word in metric labels and logs; several paths may share it. `sampled` is False where no text is
    generated. `model_required`: a request without a model is refused here, since engines would serve the only model
    they have and a router has several. `max_output_fields` are the JSON names of the output limit, the first that is
    neither absent nor null being in force; `max_output_absent` is the limit where all are absent. `ignored_fields` are
    sampling parameters that the engine does not read at this path. `temperature_absent` is in force before the model's
    own default; None: the model's default is. `marks_end`: a stream of this endpoint always says how it ended (finish
    reason or end event), so that one which does not was cut.
    """

    name: str
    path: str
    body: BodyKind = BodyKind.JSON
    sampled: bool = False
    model_required: bool = False
    max_output_fields: tuple[str, ...] = ()
    max_output_absent: int | None = None
    ignored_fields: tuple[str, ...] = ()
    temperature_absent: float | None = None
    marks_end: bool = False


def _generating(name: str, path: str, *max_output_fields: str, ignored_fields: tuple[str, ...] = ()) -> Endpoint:
    return Endpoint(
        name,
        path,
        sampled=True,
        model_required=True,
        max_output_fields=max_output_fields,
        ignored_fields=ignored_fields,
        marks_end=True,
    )


def _audio(name: str, path: str) -> Endpoint:
    return Endpoint(
        name,
        path,
        body=BodyKind.MULTIPART,
        sampled=True,
        max_output_fields=("max_completion_tokens",),
        ignored_fields=("n", "logit_bias"),
        temperature_absent=0.0,
        marks_end=True,
    )


_TABLE = (
    _generating("chat.completions", "/v1/chat/completions", "max_completion_tokens", "max_tokens"),
    replace(_generating("completions", "/v1/completions", "max_tokens"), max_output_absent=16),
    _generating("responses", "/v1/responses", "max_output_tokens", ignored_fields=("n",)),
    _generating("messages", "/v1/messages", "max_tokens", ignored_fields=("n", "min_p", "logit_bias")),
    Endpoint("embeddings", "/v1/embeddings", model_required=True),
    Endpoint("tokenize", "/tokenize"),
    Endpoint("detokenize", "/detokenize"),
    Endpoint("rerank", "/rerank"),
    Endpoint("rerank", "/v1/rerank"),
    Endpoint("rerank", "/v2/rerank"),
    Endpoint("score", "/score"),
    Endpoint("score", "/v1/score"),
    _audio("audio.transcriptions", "/v1/audio/transcriptions"),
    _audio("audio.translations", "/v1/audio/translations"),
)


# Segments that are neither empty, "." nor "..", of characters that no client escapes (RFC 3986, pchar).
_PLAIN_PATH = re.compile(r"(?:/(?!\.\.?(?:/|$))[\w.~:@!$&'()*+,;=-]+)+", re.ASCII)


class EndpointTable:
    """Every path that is forwarded: the built-in ones and `extra_paths` of the configuration.

    An extra path is read as JSON whose sampling parameters have their usual names; no model is required. ValueError
    names an extra path that no request could match or that is built in.
    """

    __slots__ = ("_by_path",)

    def __init__(self, extra_paths: Iterable[str] = ()) -> None:
        by_path = {endpoint.path: endpoint for endpoint in _TABLE}
        for path in extra_paths:
            if path in by_path:
                message = f"extra path {path!r} is already served"
                raise ValueError(message)
            by_path[path] = _extra(path)
        self._by_path: Mapping[str, Endpoint] = MappingProxyType(by_path)

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._by_path.values())

    def forwards(self, method: str, path: str) -> bool:
        """Whether `find` finds something."""
        return method == METHOD and path in self._by_path

    def find(self, method: str, path: str) -> Endpoint:
        """The endpoint at exactly this path (query string cut off); ApiError 404 or 405.

        Nothing is normalised: `/v1/../metrics`, a trailing slash or an escaped letter is another path, hence 404.
        """
        endpoint = self._by_path.get(path)
        if endpoint is None:
            raise not_found(path)
        if method != METHOD:
            raise method_not_allowed(method, path, METHOD)
        return endpoint


def _extra(path: str) -> Endpoint:
    if _PLAIN_PATH.fullmatch(path) is None:
        message = f"extra path {path!r} is not a plain absolute path such as /v1/classify"
        raise ValueError(message)
    return Endpoint(
        name=path[1:].replace("/", "."),
        path=path,
        sampled=True,
        max_output_fields=("max_completion_tokens", "max_tokens", "max_output_tokens"),
    )
