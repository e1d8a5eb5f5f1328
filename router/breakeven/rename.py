"""Maps the model in an answer back to the alias that the client asked for; no other byte of the answer changes.

The engines name the model at the top level of an answer and of each event, and inside `response` (/v1/responses) or
`message` (/v1/messages) of some events. What cannot be read passes through as it came.
"""

import re
from collections.abc import Callable, Iterable

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from breakeven.answer import decode
from breakeven.event_shape import EventShape, shape_of
from breakeven.json_span import Span, deciding, model_spans, with_model

NUL = b"\0"

LINE_MAX = 2**20
"""Bytes of one line of a stream that are held back until it is complete; a longer line passes through as it came."""


SEARCHED_MAX = 2**20
"""Bytes of an answer that are searched for its model. Of a larger one, which is embeddings, the beginning is looked at
first: searching and decoding 30 MB would stop the loop for 70 ms.
"""

_BEGINNING = re.compile(
    rb'[ \t\n\r]*\{(?:[ \t\n\r]*"[^"\\]*+"[ \t\n\r]*:[ \t\n\r]*(?:"[^"\\]*+"|[\w.+-]++)[ \t\n\r]*,)*?'
    rb'[ \t\n\r]*"model"[ \t\n\r]*:[ \t\n\r]*("[^"\\]*+")'
)
"""Members of the top level that are no lists or objects, and the model among them."""

BEGINNING_MAX = 1024
"""Engines write a few short members before the data."""


class _Answer(Struct):
    model: object = None


_ANSWER = Decoder(_Answer)  # skips the rest: an answer of embeddings is 10 MB of numbers


def rename_answer(pieces: list[bytes], alias: str) -> bytes:
    """The JSON answer, which came in these pieces, with its model renamed."""
    if sum(map(len, pieces)) > SEARCHED_MAX:
        beginning = _BEGINNING.match(pieces[0], 0, BEGINNING_MAX)
        if beginning is not None:  # no engine writes a second one, which would be the one that counts
            return b"".join([with_model(pieces[0], [beginning.span(1)], alias), *pieces[1:]])
    body = b"".join(pieces)
    return with_model(body, _deciding_spans(body, _models_of_answer), alias)


class StreamRenamer:
    """Renames the model in the events of one stream.

    Every line is sent on as soon as it is complete; a client has no use for it earlier, so nothing comes late.
    """

    __slots__ = ("_alias", "_is_too_long", "_pending", "_renamed_before", "_shape")

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._pending = bytearray()  # the line that has begun
        self._is_too_long = False  # its beginning has been sent on
        self._shape: EventShape | None = None  # of an earlier line whose model stands before its text
        self._renamed_before = b""  # what takes the place of the bytes before the text

    def feed(self, data: bytes) -> bytes:
        """What may be sent on, now that these bytes of the stream have come."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        ready = self._complete(data[:end]) if end else b""
        self._pending += data[end:]
        if self._is_too_long or len(self._pending) > LINE_MAX:
            self._is_too_long = True
            ready += self._pending
            self._pending.clear()
        return ready

    def flush(self) -> bytes:
        """The rest, at the end of the stream: its last line may lack the line break."""
        line = bytes(self._pending)
        self._pending.clear()
        return self._line(line)

    def _complete(self, data: bytes) -> bytes:
        """Lines of which the first began with what is pending."""
        lines = data.splitlines(keepends=True)
        if self._is_too_long:
            self._is_too_long = False
            return lines[0] + b"".join(map(self._line, lines[1:]))
        lines[0] = bytes(self._pending) + lines[0]
        self._pending.clear()
        return b"".join(map(self._line, lines))

    def _line(self, line: bytes) -> bytes:
        content = line.rstrip(b"\r\n")
        if not content.startswith(b"data:") or len(content) > LINE_MAX:
            return line
        shape = self._shape
        if shape is not None and shape.fits(content, len(content)):
            return self._renamed_before + line[len(shape.before) :]
        spans = _deciding_spans(content, lambda content: _models_of_event(content[5:]))
        self._remember(content, spans)
        return with_model(line, spans, self._alias)

    def _remember(self, line: bytes, spans: list[Span]) -> None:
        shape = shape_of(line)
        if spans and shape is not None and spans[-1][1] <= len(shape.before):
            self._shape = shape
            self._renamed_before = with_model(shape.before, spans, self._alias)


def _deciding_spans(document: bytes, models_of: Callable[[bytes], Iterable[object]]) -> list[Span]:
    if document.find(NUL) >= 0:
        return []  # UTF-16, whose bytes may look like members
    try:
        spans = model_spans(document)
    except ValueError:
        return []
    return deciding(document, spans, models_of) if spans else []


def _models_of_answer(document: bytes) -> tuple[object, ...]:
    try:
        return (_ANSWER.decode(document).model,)
    except (DecodeError, RecursionError):
        return ((decode(document) or {}).get("model"),)


def _models_of_event(document: bytes) -> list[object]:
    event = decode(document) or {}
    holders = (event, event.get("response"), event.get("message"))
    return [holder.get("model") for holder in holders if isinstance(holder, dict)]
