"""A read that is one whole chunk is recognised, and only where a parser would say the same."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.chunks import SIZE_MAX, whole_chunk


def chunk(body: bytes, size: bytes = b"%x") -> bytes:
    return size % len(body) + b"\r\n" + body + b"\r\n"


class Parser:
    """llhttp between two chunks of a response."""

    def __init__(self) -> None:
        self.body = b""
        self._parser = httptools.HttpResponseParser(self)
        self.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self.body += data

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)


@pytest.mark.parametrize("size", [1, 9, 15, 16, 17, 255, 256, 257, SIZE_MAX])
def test_a_chunk_of_any_usual_size_is_recognised(size: int) -> None:
    assert whole_chunk(chunk(b"x" * size)) == b"x" * size


@pytest.mark.parametrize("body", [b"\r\n", b"a\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"\n", b"3\r\nab"])
def test_what_looks_like_framing_inside_a_chunk_is_body(body: bytes) -> None:
    assert whole_chunk(chunk(body)) == body


@pytest.mark.parametrize(
    "read",
    [
        b"",
        chunk(b"hello")[:-1],
        chunk(b"hello")[1:],
        chunk(b"hello") + b"3",
        chunk(b"hello") + b"\r\n",
        chunk(b"hello") + chunk(b"hello"),
        b"0\r\n\r\n",
        b"5;a=b\r\nhello\r\n",
        b"5 \r\nhello\r\n",
        b"05\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\r\nhello\n\n",
        b"4\r\nhello\r\n",
        b"6\r\nhello\r\n",
        b"g\r\nhello\r\n",
        chunk(b"x" * 171, b"%X"),
        chunk(b"x" * (SIZE_MAX + 1)),
        b"\r\n",
        b"hello",
        b"\r\nhello\r\n",
    ],
)
def test_all_else_is_left_to_the_parser(read: bytes) -> None:
    assert whole_chunk(read) is None


@given(
    st.lists(
        st.sampled_from([b"1", b"a", b"10", b"0", b"\r\n", b"\n", b"\r", b";", b" ", b"x", b"b" * 16]), max_size=6
    ).map(b"".join)
)
def test_what_is_recognised_a_parser_reads_alike_and_is_between_two_chunks_again(read: bytes) -> None:
    body = whole_chunk(read)
    if body is not None:
        parser = Parser()
        parser.feed(read)
        assert parser.body == body
        parser.feed(chunk(b"next"))
        assert parser.body == body + b"next"
