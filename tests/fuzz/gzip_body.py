"""A packed body: any cut unpacks alike, in bounded slices, within the limit, and as the standard library does.

The first byte chooses the coding; the rest is cut as everywhere.
"""

import gzip
import zlib

from breakeven.coding import SLICE_MAX, Decoder
from breakeven.errors import ApiError
from tests.fuzz.cuts import pieces

CODINGS = ("gzip", "x-gzip", "deflate", "identity", " GZIP ", "", "gzip, identity")
LIMIT = 64 * 1024


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    coding = CODINGS[data[0] % len(CODINGS)] if data else "gzip"
    reads = pieces(data[1:])
    wire = b"".join(reads)
    cut, whole = unpacked(coding, reads), unpacked(coding, [wire])
    if isinstance(cut, int) and isinstance(whole, int):
        return  # too large and corrupt as well: which is seen first depends on the cut
    assert cut == whole, "the cut makes a difference"
    unpack = {"gzip": gzip.decompress, "x-gzip": gzip.decompress, "deflate": zlib.decompress}.get(
        coding.strip().lower()
    )
    if unpack is not None and isinstance(whole, bytes):
        assert unpack(wire) == whole


def unpacked(coding: str, reads: list[bytes]) -> bytes | int:
    """What comes out, or the status of the refusal."""
    decoder = Decoder(coding, LIMIT)
    plain = b""
    try:
        for read in reads:
            for piece in decoder.feed(read):
                assert len(piece) <= SLICE_MAX
                plain += piece
        decoder.finish()
    except ApiError as error:
        return error.status
    assert len(plain) <= LIMIT
    return plain
