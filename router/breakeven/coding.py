"""Takes the Content-Encoding off a request body, in bounded steps: what is compressed cannot be viewed.

Coding agents compress their large requests with gzip (field case B17). A body of 10 KB can inflate to 1 GB, so the
output comes in slices, every slice is counted against the limit before the next is made, and the caller can let other
work run between two of them. Whoever joins the slices never holds more than the limit and one slice.
"""

import zlib
from collections.abc import Iterator

from breakeven.errors import ApiError, invalid_request, shown, too_large

SLICE_MAX = 2**20
"""Bytes of one slice of output: inflating that much takes 2-4 ms of the event loop."""

INPUT_MAX = 2**16
"""Bytes of input to one call of zlib: input that inflates to nothing (empty blocks) is as slow as any other."""

MEMBERS_MAX = 1000
"""gzip streams in one body. RFC 1952 lets them follow one another; a million empty ones would take seconds."""

# Window bits of zlib, which also tell it what header to expect (zlib manual, inflateInit2). "deflate" is the zlib
# format (RFC 9110, 8.4.1.2); the bare stream that some clients call deflate is answered 400.
_WINDOW_BITS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class Decoder:
    """Decodes one body by the value of its Content-Encoding header; ApiError 415 names a coding that is unknown here.

    `identity` tells that there is nothing to decode: the body is the caller's to keep as it is.
    """

    __slots__ = ("_coding", "_inflate", "_left", "_limit_bytes", "_members_left", "identity")

    def __init__(self, coding_header: str, limit_bytes: int) -> None:
        codings = [word.strip().lower() for word in coding_header.split(",")]
        named = [coding for coding in codings if coding not in {"", "identity"}]
        self.identity = not named
        self._coding = named[0] if named else "identity"
        if len(named) > 1 or (named and self._coding not in _WINDOW_BITS):
            raise _unsupported(coding_header)
        self._inflate = self._new_member()
        self._members_left = 0 if self._coding == "deflate" else MEMBERS_MAX - 1
        self._limit_bytes = limit_bytes
        self._left = limit_bytes

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The output of the next piece of the body, in slices of at most `SLICE_MAX` bytes.

        ApiError 400: the data is not what the header says; 413: the output passes the limit.
        """
        if self.identity:
            self._count(len(data))
            yield data
            return
        for start in range(0, len(data), INPUT_MAX):
            yield from self._inflated(data[start : start + INPUT_MAX])

    def finish(self) -> None:
        """The body has ended; ApiError 400 where the coded stream has not."""
        if not self.identity and not self._inflate.eof:
            raise self._corrupt()

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        while True:
            if self._inflate.eof:
                if not data:
                    return
                if self._members_left == 0:
                    raise self._corrupt()
                self._members_left -= 1
                self._inflate = self._new_member()
            try:
                output = self._inflate.decompress(data, SLICE_MAX)
            except zlib.error:
                raise self._corrupt() from None
            self._count(len(output))
            if output:
                yield output
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            # A full slice may leave more behind inside zlib, even where all input is consumed.
            if not data and len(output) < SLICE_MAX:
                return

    def _new_member(self) -> "zlib._Decompress":
        return zlib.decompressobj(_WINDOW_BITS.get(self._coding, zlib.MAX_WBITS))

    def _count(self, size_bytes: int) -> None:
        self._left -= size_bytes
        if self._left < 0:
            raise too_large(self._limit_bytes)

    def _corrupt(self) -> ApiError:
        message = f"The request body is not a complete {self._coding} stream, as its Content-Encoding says it is."
        return invalid_request(message, code="invalid_encoding")


def _unsupported(coding_header: str) -> ApiError:
    message = f"The Content-Encoding {shown(coding_header)} is not supported; send gzip, deflate or no coding."
    return invalid_request(message, code="unsupported_encoding", status=415)
