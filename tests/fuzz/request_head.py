"""Requests out of the bytes of a client: any cut reads the same, heads that came before too, and h11 agrees."""

import re

import h11

from breakeven.recent_heads import RecentHeads
from breakeven.request_reader import BadRequest, Limits, Request, RequestReader
from tests.fuzz.cuts import pieces
from tests.fuzz.response import normal

LIMITS = Limits(header_bytes_max=16 * 1024, body_bytes_max=16 * 1024)
INPUT_MAX = 8 * 1024
"""Below both limits, which count whole reads and so depend on the cut; `tests/router` has tests of them."""

LENIENT = re.compile(rb"(?:\r?\n|\r)+|[A-Z-]+ {2,}|[A-Z-]+ +\S+ {2,}|[A-Z-]+ +\S+ +(?:RTSP|ICE)/1\.0\r\n")
"""Where llhttp is laxer than h11, all of it harmless: empty lines before a request, several blanks in its first line,
and RTSP/1.0 and ICE/1.0 read as HTTP/1.0.
"""

ABSOLUTE = re.compile(rb"(?i)\Ahttps?://[^/?]*")


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    if len(data) > INPUT_MAX:
        return
    reads = pieces(data)
    wire = b"".join(reads)
    cut, whole = read(reads), read([wire])
    assert seen(cut) == seen(whole), "the cut makes a difference"
    known: RecentHeads[Request] = RecentHeads()
    read([wire], known)
    assert seen(read([wire], known)) == seen(whole), "a head that came before makes a difference"
    for incoming in whole.ready:
        if isinstance(incoming, Request):
            assert not re.search(rb"[\x00-\x20\x7f-\xff#]", incoming.target), "the target could split a line"
            for name, value in incoming.headers.pairs:
                assert not re.search(rb"[\x00-\x20\x7f-\xff:]", name), "a name could be read differently"
                assert not re.search(rb"[\x00\r\n]", value), "a value could split a line"
    if whole.ready and isinstance(whole.ready[0], Request) and b"upgrade" not in wire.lower():
        judge(wire, whole.ready[0])


def read(reads: list[bytes], known: RecentHeads[Request] | None = None) -> RequestReader:
    """A reader that was fed these reads."""
    reader = RequestReader(LIMITS, RecentHeads() if known is None else known)
    for each in reads:
        reader.feed(each, 0.0)
    return reader


def seen(reader: RequestReader) -> object:
    """What came of it."""
    ready = [incoming.error.status if isinstance(incoming, BadRequest) else incoming for incoming in reader.ready]
    return ready, reader.reading, reader.stopped


def judge(wire: bytes, request: Request) -> None:
    """h11 reads the same first request out of the wire."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=2 * INPUT_MAX)
    connection.receive_data(wire)
    try:
        head = connection.next_event()
        body = b""
        while isinstance(event := connection.next_event(), h11.Data):
            body += bytes(event.data)
    except h11.RemoteProtocolError as error:
        if LENIENT.match(wire):
            return
        message = "h11 refuses what was accepted"
        raise AssertionError(message) from error
    assert isinstance(head, h11.Request)
    assert isinstance(event, h11.EndOfMessage), "h11 waits for more"
    assert (request.method, request.body) == (head.method, body)
    path = ABSOLUTE.sub(b"", head.target)
    assert request.target == (path if path == head.target or path.startswith(b"/") else b"/" + path)
    theirs = [(bytes(name), bytes(value)) for name, value in head.headers if name != b"content-length"]
    assert [normal(pair) for pair in request.headers.pairs] == theirs
