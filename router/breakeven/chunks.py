"""Recognises the read that is one whole chunk (RFC 9112, section 7.1), as nearly every read of a stream is.

Engines write an event as one chunk, and unless the router is busy a chunk arrives alone. Such a read needs no parser,
and goes on to the client in the framing in which it came.
"""

SIZE_MAX = 4096
"""Bytes of the largest chunk that is recognised; an event of one step has about 250."""

LAST_CHUNK = b"0\r\n\r\n"
"""The end of a body, without trailers."""

_LINES = [b"%x\r\n" % size for size in range(1, SIZE_MAX + 1)]
_CHUNKS = {len(line) + size + 2: (line, size) for size, line in enumerate(_LINES, 1)}  # no two are equally long


def whole_chunk(read: bytes) -> bytes | None:
    """The body inside a read that begins at a chunk and ends with it; None where a parser has to look.

    That is: several chunks, one that is cut, the last one, a large one, an extension, a size that is not written as
    Python's servers write it (lower case, no leading zero).
    """
    expected = _CHUNKS.get(len(read))
    if expected is None:
        return None
    line, size = expected
    body = read.removeprefix(line).removesuffix(b"\r\n")
    return body if len(body) == size else None
