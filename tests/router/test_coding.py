"""Compressed request bodies (field case B17): decoded in bounded steps, or refused with the right status."""

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.coding import INPUT_MAX, MEMBERS_MAX, SLICE_MAX, Decoder
from breakeven.errors import ApiError

BODY = b'{"model":"m","temperature":1.5}'
GZIPPED = gzip.compress(BODY)
LIMIT = 10 * SLICE_MAX


def decoded(header: str, *pieces: bytes, limit_bytes: int = LIMIT) -> bytes:
    decoder = Decoder(header, limit_bytes)
    body = b"".join(part for piece in pieces for part in decoder.feed(piece))
    decoder.finish()
    return body


def refusal(header: str, *pieces: bytes, limit_bytes: int = LIMIT) -> ApiError:
    with pytest.raises(ApiError) as refused:
        decoded(header, *pieces, limit_bytes=limit_bytes)
    return refused.value


@pytest.mark.parametrize(
    "header", ["zstd", "br", "compress", "gzip, gzip", "deflate, gzip", "gzip;q=1", "x" * 10_000, "\xe9"]
)
def test_an_unknown_coding_or_more_than_one_is_415_and_named(header: str) -> None:
    error = refusal(header, GZIPPED)
    assert (error.status, error.code) == (415, "unsupported_encoding")
    assert ascii(header[:80])[:-1] in error.message
    assert len(error.message) < 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        BODY,
        GZIPPED[:-1],
        GZIPPED[:10],
        GZIPPED[:-8] + b"\0" * 8,
        GZIPPED[:12] + b"\xff\xff\xff" + GZIPPED[15:],
        GZIPPED + b"\0",
        GZIPPED + GZIPPED[:-1],
        GZIPPED + BODY,
        zlib.compress(BODY),
    ],
    ids=[
        "empty",
        "plain",
        "truncated",
        "header",
        "checksum",
        "corrupt",
        "trailing",
        "half a member",
        "plain rest",
        "deflate",
    ],
)
def test_what_is_no_complete_gzip_stream_is_400_however_it_is_cut(body: bytes) -> None:
    whole, bytewise = refusal("gzip", body), refusal("gzip", *(body[at : at + 1] for at in range(len(body))))
    assert (whole.status, whole.code) == (bytewise.status, bytewise.code) == (400, "invalid_encoding")
    assert "gzip" in whole.message


def test_a_bomb_is_413_and_never_holds_more_than_one_slice() -> None:
    bomb = gzip.compress(bytes(30 * SLICE_MAX), compresslevel=1)
    assert len(bomb) < SLICE_MAX
    decoder = Decoder("gzip", 2 * SLICE_MAX)
    sizes = []
    with pytest.raises(ApiError) as refused:
        sizes.extend(len(part) for part in decoder.feed(bomb))
    assert refused.value.status == 413
    assert str(2 * SLICE_MAX) in refused.value.message
    assert sum(sizes) <= 2 * SLICE_MAX
    assert max(sizes) <= SLICE_MAX


def test_a_plain_body_over_the_limit_is_413_too() -> None:
    assert refusal("identity", b"12345", b"6", limit_bytes=5).status == 413


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    assert decoded("gzip", gzip.compress(bytes(100)), limit_bytes=100) == bytes(100)
    assert refusal("gzip", gzip.compress(bytes(101)), limit_bytes=100).status == 413


@pytest.mark.parametrize("header", ["gzip", "GZIP", "x-gzip", "X-GZip", " gzip ", "identity, gzip", ",gzip,"])
def test_gzip_is_decoded_in_every_spelling(header: str) -> None:
    assert decoded(header, GZIPPED) == BODY
    assert not Decoder(header, LIMIT).identity


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_gzip_streams_that_follow_one_another_are_one_body(size: int) -> None:
    body = gzip.compress(BODY[:10]) + gzip.compress(b"") + gzip.compress(BODY[10:])
    assert decoded("gzip", *(body[at : at + size] for at in range(0, len(body), size))) == BODY


def test_endless_empty_gzip_streams_are_400() -> None:
    empty = gzip.compress(b"")
    assert decoded("gzip", empty * MEMBERS_MAX) == b""
    assert refusal("gzip", empty * (MEMBERS_MAX + 1)).code == "invalid_encoding"


def test_deflate_is_the_zlib_format_and_one_stream() -> None:
    assert decoded("deflate", zlib.compress(BODY)) == BODY
    assert "deflate" in refusal("deflate", BODY).message
    assert refusal("deflate", zlib.compress(BODY) + zlib.compress(BODY)).status == 400


@pytest.mark.parametrize("header", ["", "identity", "Identity", " , "])
def test_no_coding_leaves_the_body_as_it_is(header: str) -> None:
    assert decoded(header, BODY, b"", BODY) == BODY + BODY
    assert Decoder(header, LIMIT).identity


@pytest.mark.parametrize("size", [SLICE_MAX - 1, SLICE_MAX, SLICE_MAX + 1, 3 * SLICE_MAX])
def test_output_comes_in_slices_and_none_is_left_behind(size: int) -> None:
    decoder = Decoder("gzip", LIMIT)
    slices = list(decoder.feed(gzip.compress(bytes(size), compresslevel=1)))
    decoder.finish()
    assert b"".join(slices) == bytes(size)
    assert max(len(part) for part in slices) <= SLICE_MAX


def test_input_is_taken_in_steps_too() -> None:
    noise = zlib.compress(bytes(range(256)) * 1024, level=0)
    assert len(noise) > 3 * INPUT_MAX
    parts = list(Decoder("deflate", LIMIT).feed(noise))
    assert max(len(part) for part in parts) <= INPUT_MAX


@pytest.mark.slow
@given(st.binary(max_size=500), st.lists(st.integers(0, 600)), st.sampled_from(["gzip", "deflate"]))
def test_any_body_comes_out_as_it_went_in_however_it_is_cut(body: bytes, cuts: list[int], coding: str) -> None:
    coded = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    edges = [0, *sorted(cuts), len(coded)]
    pieces = [coded[start:end] for start, end in pairwise(edges)]
    assert decoded(coding, *pieces) == body


@pytest.mark.slow
@given(st.binary(max_size=100), st.sampled_from(["gzip", "deflate"]))
def test_any_bytes_are_decoded_or_answered_400(body: bytes, coding: str) -> None:
    assert refusal(coding, body).status == 400
