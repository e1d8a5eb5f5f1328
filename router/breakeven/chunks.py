"""Recognises reads that hold nothing but whole chunks (RFC 9112, section 7.1), as nearly all reads of a stream do.

Engines write an event as one chunk, and a chunk arrives as one read, or several together when the router is busy. Such
a read needs no parser, and goes on to the client with the framing in which it came.
"""

SIZE_MAX = 4096
"""Bytes of the largest chunk that is recognised; an event of one step has about 250."""

_SIZES = {b"%x\r\n" % size: size for size in range(1, SIZE_MAX + 1)}
_LINES = {len(line) + size + 2: (line, size) for line, size in _SIZES.items()}  # no two chunks are of equal length
_LINE_BYTES_MAX = max(map(len, _SIZES))


def whole_chunks(read: bytes) -> bytes | None:
    """The body inside a read that begins with a chunk and ends with one; None where a parser has to look.

    That is: a chunk that is cut, the last one, a large one, an extension, a size that is not written as Python's
    servers write it (lower case, no leading zero).
    """
    single = _LINES.get(len(read))
    if single is not None:
        line, size = single
        body = read.removeprefix(line).removesuffix(b"\r\n")
        if len(body) == size:
            return body
    pieces = []
    at = 0
    while at < len(read):
        begin = read.find(b"\n", at, at + _LINE_BYTES_MAX) + 1
        size = _SIZES.get(read[at:begin], 0)
        after = begin + size
        if not size or read[after : after + 2] != b"\r\n":
            return None
        pieces.append(read[begin:after])
        at = after + 2
    return b"".join(pieces)
