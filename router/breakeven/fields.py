"""Decodes the few members of a request body that routing needs, and skips the rest.

Two parsers. msgspec reads nearly every body in a µs or two and skips the prompt at 2 GB/s, but is stricter than the
engines, which read with the standard library (FastAPI's `request.json()`): it refuses NaN, lone surrogates, a
byte-order mark, a list where a number belongs. On its error the standard library decides, and what that accepts is
forwarded: the router judges nothing but what routing needs. In one point msgspec is laxer, the UTF-8 of what it skips;
that is checked.
"""

import json
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType
from msgspec.json import Decoder

from breakeven.errors import ApiError, invalid_request
from breakeven.form import field_spans

LENIENT_MAX = 4 * 2**20
"""Bytes that the standard library may parse on the event loop: 8 ms per MB of messages, so that one client's odd body
delays the tokens of the others by less than 50 ms. A larger body that msgspec refuses is answered 400.
"""

UTF8_SLICE = 256 * 2**10
"""Bytes checked for UTF-8 at a time."""

FORM_BYTES = 1024
"""Bytes of a `response_format` in which its type is looked for: a schema behind it may have a megabyte."""

_ABSENT = Raw(b"null")
_SOME_BIAS = re.compile(rb'\{[ \t\n\r]*"')
_SOME_TOOL = re.compile(rb"\[[ \t\n\r]*\{")
_FORM = re.compile(rb'(?s)\{.*?"type"[ \t\n\r]*:[ \t\n\r]*"(?!text")')
_RAW = frozenset(("logit_bias", "tools", "response_format", "structured_outputs", "guided_json"))

_Scalar = float | int | str | bool | None


class Fields(Struct):
    """The members that routing needs; UNSET where absent and null differ.

    Lists and objects are no `_Scalar`, so that msgspec never builds a large one: the lenient reading has a size limit.
    The raw ones stay so for the same reason; only whether they are empty, and of what type, matters.
    """

    model: _Scalar = None
    stream: _Scalar = None
    temperature: _Scalar = None
    top_p: _Scalar = None
    top_k: _Scalar = None
    min_p: _Scalar = None
    logit_bias: Raw = _ABSENT
    n: _Scalar = None
    max_tokens: _Scalar | UnsetType = UNSET
    max_completion_tokens: _Scalar | UnsetType = UNSET
    max_output_tokens: _Scalar | UnsetType = UNSET
    tools: Raw = _ABSENT
    response_format: Raw = _ABSENT
    structured_outputs: Raw = _ABSENT
    guided_json: Raw = _ABSENT

    @property
    def has_bias(self) -> bool:
        """Whether `logit_bias` is an object with members."""
        return self.logit_bias is not _ABSENT and _SOME_BIAS.match(self.logit_bias) is not None

    @property
    def has_tools(self) -> bool:
        """Whether `tools` is a list with an object in it."""
        return self.tools is not _ABSENT and _SOME_TOOL.match(self.tools) is not None

    @property
    def structured(self) -> bool:
        """Whether the answer is held to a form: a `response_format` that is no text, or vLLM's own members for it."""
        form, held, guided = self.response_format, self.structured_outputs, self.guided_json
        if form is _ABSENT and held is _ABSENT and guided is _ABSENT:  # nearly every request
            return False
        if form is not _ABSENT and _FORM.match(form, 0, FORM_BYTES) is not None:
            return True
        return bytes(held) != b"null" or bytes(guided) != b"null"


_DECODER = Decoder(Fields)
_FORM_FIELDS = {name.encode(): name for name in Fields.__struct_fields__ if name not in _RAW}


def read_json(body: bytes, is_utf8: bool | None = None) -> Fields:
    """The fields of a JSON body; ApiError 400 where no engine could read it, and no other exception for any bytes.

    `is_utf8`: what a `Utf8Check` has found; None: it is checked here.
    """
    try:
        fields = _DECODER.decode(body)
    except DecodeError:
        return _read_leniently(body)
    except RecursionError:
        raise _too_deep() from None
    if is_utf8 is None:
        is_utf8 = body.isascii() or _is_utf8(body)
    return fields if is_utf8 else _read_leniently(body)


def _read_leniently(body: bytes) -> Fields:
    """What the engine's own parser makes of a body that msgspec refuses."""
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
    fields = Fields(
        **{name: document[name] for name in Fields.__struct_fields__ if name in document and name not in _RAW}
    )
    for name in _RAW & document.keys():
        setattr(fields, name, _outline(document[name]))
    return fields


def _outline(value: object) -> Raw:
    """What matters of a value that is kept raw: whether there is something in it, and its type."""
    if not value:
        return _ABSENT
    if isinstance(value, list):
        return Raw(b"[{}]" if isinstance(value[0], dict) else b"[]")
    if isinstance(value, dict):
        return Raw(b'{"type":"text"}' if value.get("type") == "text" else b'{"type":"other"}')
    return Raw(b"true")


class Utf8Check:
    """Whether bytes that come in pieces are UTF-8.

    Checked is a slice at a time, so that 30 MB are never held a second time (at up to four bytes a character).
    """

    __slots__ = ("_decode", "_is_utf8")

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")().decode
        self._is_utf8 = True

    def feed(self, data: bytes) -> Iterator[None]:
        """The next piece; yields between two slices, 0.5 ms of Chinese each."""
        for start in range(0, len(data) if self._is_utf8 else 0, UTF8_SLICE):
            if start:
                yield
            try:
                self._decode(data[start : start + UTF8_SLICE])
            except UnicodeDecodeError:
                self._is_utf8 = False
                return

    def finish(self) -> bool:
        """Whether all of it was, and whole."""
        try:
            self._decode(b"", final=True)
        except UnicodeDecodeError:
            return False
        return self._is_utf8


def _is_utf8(body: bytes) -> bool:
    check = Utf8Check()
    for _ in check.feed(body):
        pass  # it is small, or nobody waits
    return check.finish()


def read_form(body: bytes, content_type: str) -> Fields:
    """The fields of a form, each as text; ApiError 400 where the body is no form.

    As in the engine (FastAPI, Starlette) an empty field is absent, and bytes that are not UTF-8 are latin-1.
    """
    fields = Fields()
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
