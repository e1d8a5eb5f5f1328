"""Finds the plain fields of a multipart/form-data body, as positions in its bytes.

A parser of whole forms would copy the file that the form is about, and a hostile form keeps it busy (36 MB of false
delimiters: 7 s in python-multipart 0.0.34, which reads the form in the engine). Wanted here are a few small fields, so
the body is only searched for its delimiter. Delimiters and names are read as RFC 2046 (5.1.1) and RFC 7578 (4.2) say.
"""

import re
from collections.abc import Collection, Iterator

from breakeven.errors import ApiError, invalid_request

Span = tuple[int, int]
"""First byte and the one after the last, of a field's value in the body."""

PART_MAX = 2000
"""Parts of one form. Starlette, which reads it in the engine, refuses over 1,000 fields and over 1,000 files."""

HEADERS_MAX = 8 * 4224
"""Bytes of a part's headers: python-multipart takes 8 headers of 4,224 bytes."""

DISPOSITION_MAX = 1024
"""Bytes of a Content-Disposition worth reading: only a file's name makes it longer, and files are not wanted here."""

_OPTION = re.compile(rb';[ \t]*([^=;" \t]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*+)"|([^;" \t]*))', re.DOTALL)
_ESCAPED = re.compile(rb'\\(["\\])')


def field_spans(body: bytes, content_type: str, wanted: Collection[bytes]) -> dict[bytes, Span]:
    """Where the values of the wanted fields lie: of each the last one in the body, as in the engine.

    A file is no field. ApiError 400 where the content type is no multipart/form-data with a boundary, or the body no
    form.
    """
    spans: dict[bytes, Span] = {}
    parts = 0
    for headers, span in _parts(body, _boundary(content_type)):
        name = _field_name(headers)
        if name is not None and name in wanted:
            spans[name] = span
        parts += 1
        if parts > PART_MAX:
            raise _invalid(f"The form has more than {PART_MAX} parts.")
    if not parts:
        raise _invalid("The request body is not valid multipart/form-data.")
    return spans


def _boundary(content_type: str) -> bytes:
    kind, semicolon, options = content_type.encode("latin-1", "replace").partition(b";")
    boundary = _options(semicolon + options).get(b"boundary", b"")
    if kind.strip().lower() != b"multipart/form-data" or not boundary:
        raise _invalid("This endpoint takes multipart/form-data with a boundary in its Content-Type.")
    return boundary


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[bytes, Span]]:
    """The headers of each part (b"" where they are too long) and where its value lies."""
    delimiter = b"\r\n--" + boundary
    opening = delimiter[2:]
    start = 0 if body.startswith(opening) else body.find(delimiter) + 2
    if not body.startswith(opening, start):
        return
    start += len(opening)
    while not body.startswith(b"--", start):
        headers_end = body.find(b"\r\n\r\n", start, start + HEADERS_MAX)
        value_start = start if headers_end < 0 else headers_end + 4
        end = body.find(delimiter, value_start)
        if end < 0:
            return
        yield body[start : max(start, headers_end)], (value_start, end)
        start = end + len(delimiter)


def _field_name(headers: bytes) -> bytes | None:
    for line in headers.split(b"\r\n"):
        header, _, value = line.partition(b":")
        if header.lower() == b"content-disposition" and len(value) <= DISPOSITION_MAX:
            options = _options(value)
            return None if b"filename" in options else options.get(b"name")
    return None


def _options(header: bytes) -> dict[bytes, bytes]:
    return {name.lower(): _ESCAPED.sub(rb"\1", quoted) or plain for name, quoted, plain in _OPTION.findall(header)}


def _invalid(message: str) -> ApiError:
    return invalid_request(message, code="invalid_form")
