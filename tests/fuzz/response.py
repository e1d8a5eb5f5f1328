"""An engine's answer: any cut is heard alike, a head that came before too, and h11 hears the same."""

import re

import h11

from breakeven.headers import ResponseHead
from breakeven.recent_heads import RecentHeads
from tests.fuzz.cuts import pieces
from tests.fuzz.wire import Heard, hear

KEPT_IN_1_0 = re.compile(rb"(?i)HTTP/1\.0 (?s:.*)\r\nconnection:[^\r\n]*keep-alive")
"""The verdict in which we differ from h11 on purpose: an engine that answers in HTTP/1.0 and offers to keep the
connection is taken at its word (RFC 9112, section 9.3); h11 never does.
"""

INPUT_MAX = 16 * 1024


def check(data: bytes) -> None:
    """Raises where a property is broken."""
    if len(data) > INPUT_MAX:
        return
    reads = pieces(data)
    wire = b"".join(reads)
    cut, whole = hear(reads), hear([wire] if wire else [])
    assert alike(cut, whole), "the cut makes a difference"
    recent: RecentHeads[ResponseHead] = RecentHeads()
    hear([wire], recent)
    again = hear([wire], recent)
    assert (again.heads, again.body, again.end) == (whole.heads, whole.body, whole.end), "a head that came before"
    for head in whole.heads:
        assert 200 <= head.status <= 999
        for piece in (head.phrase, *(value for pair in head.headers.pairs for value in pair)):
            assert not re.search(rb"[\x00\r\n]", piece), "it could split a line to the client"
    if whole.end == "complete":
        agrees(wire, whole)


def alike(one: Heard, other: Heard) -> bool:
    """Equal; of an answer that breaks, less may have been heard where its fault came in the read of its beginning."""
    if one.end != other.end:
        return False
    if one.end == "complete":
        return (one.heads, one.body) == (other.heads, other.body)
    return one.body.startswith(other.body) or other.body.startswith(one.body)


def agrees(wire: bytes, ours: Heard) -> None:
    """h11 hears the same answer, or refuses it for a reason that is known."""
    theirs = judged(wire)
    if isinstance(theirs, str):
        assert is_known(wire, theirs), f"h11 refuses what was accepted: {theirs}"
        return
    (head,) = ours.heads
    assert (head.status, ours.body) == (theirs[0], theirs[2])
    assert [normal(pair) for pair in head.headers.pairs] == theirs[1]
    assert not ours.kept or theirs[3] or KEPT_IN_1_0.search(wire), "a connection is kept that h11 would close"


def normal(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """As h11 gives it: without blanks around the value, and a transfer coding in lower case."""
    name, value = header
    return name, value.strip().lower() if name == b"transfer-encoding" else value.strip()


def judged(wire: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes, bool] | str:
    """Status, headers, body and whether the connection may be used again, by h11; its word for why not."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * INPUT_MAX)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "x")]))
    connection.send(h11.EndOfMessage())
    status, headers, body = 0, [], b""
    try:
        connection.receive_data(wire)
        ended = False
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Response):
                status = event.status_code
                pairs = [(bytes(name), bytes(value)) for name, value in event.headers]
                headers = [pair for pair in pairs if pair[0] != b"content-length"]
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return status, headers, body, connection.their_state is h11.DONE
            elif event is h11.NEED_DATA and not ended:
                ended = True
                connection.receive_data(b"")
            elif event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                return f"no end: {event}"
    except h11.RemoteProtocolError as error:
        return str(error)


TRAILERS = re.compile(rb"(?is).*\r\n0+[;\r].*\r\ntransfer-encoding")

KNOWN = {
    "no response line received": re.compile(rb"(?s)(?:.*\n\r?\n)?[\r\n]"),
    # Trailers end at this hop, whatever they say.
    "Only Transfer-Encoding: chunked": TRAILERS,
    "multiple Transfer-Encoding": TRAILERS,
    "illegal status line": re.compile(
        rb"(?s).*(?:\A|\n)(?:[\r\n]+HTTP|HTTP/1\.[01] +\d{3}(?: |\r|\n)|HTTP/(?:0\.9|2\.0)|RTSP|ICE)"
    ),
}
"""What h11 says, and what of the wire llhttp forgives or reads otherwise."""


def is_known(wire: bytes, reason: str) -> bool:
    """Whether the difference is one of those in the table."""
    return any(word in reason and form.match(wire) for word, form in KNOWN.items())
