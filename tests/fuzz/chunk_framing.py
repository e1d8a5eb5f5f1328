"""A body in chunks: reads that need no parser are heard as a parser alone hears them."""

from unittest.mock import patch

import httptools

from breakeven import upstream
from breakeven.chunks import whole_chunk
from tests.fuzz.cuts import pieces
from tests.fuzz.wire import hear

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Body:
    """What llhttp makes of a message."""

    def __init__(self) -> None:
        self.data = b""
        self.between = False

    def on_body(self, data: bytes) -> None:
        self.data += data

    def on_chunk_header(self) -> None:
        self.between = False

    def on_chunk_complete(self) -> None:
        self.between = True


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    reads = pieces(data)
    ours = hear([HEAD, *reads])
    with patch.object(upstream, "whole_chunk", lambda _: None):
        theirs = hear([HEAD, *reads])
    assert ours == theirs, "a read that needs no parser makes a difference"
    for read in {*reads, b"".join(reads)}:
        body = whole_chunk(read)
        if body is not None:
            judge = Body()
            httptools.HttpResponseParser(judge).feed_data(HEAD + read)
            assert (judge.data, judge.between) == (body, True)
