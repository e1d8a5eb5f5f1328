"""h11 as an independent judge: of what engines answer, of what clients are sent, of what engines are sent.

Unlike in `response` and `request_head`, every message here is a valid one by construction, so that nothing passes for
being refused.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import h11
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from breakeven.downstream import Connection
from breakeven.headers import HOP_BY_HOP, REQUEST_DROPPED, request_head
from breakeven.recent_heads import RecentHeads
from breakeven.request_reader import BadRequest, Limits, Request, RequestReader
from tests.fuzz import response
from tests.fuzz.cuts import cut, pieces
from tests.fuzz.response import KEPT_IN_1_0
from tests.fuzz.wire import Wire, hear

pytestmark = pytest.mark.slow

CASES = settings(max_examples=100, deadline=None)

names = st.sampled_from([b"X-A", b"x-b", b"Date", b"Set-Cookie", b"Content-Type", b"Retry-After"])
values = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f"), max_size=8).map(
    lambda text: text.encode("latin-1")
)
header_lists = st.lists(st.tuples(names, values), max_size=4)
informational = st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n"])
client_names = st.sampled_from(
    [b"Accept", b"X-A", b"Authorization", b"TE", b"Keep-Alive", b"Upgrade-X", b"Trailer", b"X-Gone",
     b"Proxy-Connection", b"Content_Length", b"X-Request-Id"]
)  # fmt: skip
bodies = st.binary(max_size=60)
sizes = st.lists(st.integers(1, 40), min_size=1, max_size=8)


def lines(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def chunks(body: bytes, size: int, trailer: bytes = b"") -> bytes:
    """A body in chunks of that size."""
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join([b"%x;e=1\r\n%b\r\n" % (len(part), part) for part in parts]) + b"0\r\n" + trailer + b"\r\n"


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, int, bytes, bool]:
    """An engine's answer, its status, its body, and whether its connection may serve the next request."""
    status = draw(st.sampled_from([200, 201, 204, 304, 400, 404, 429, 500, 503, 599]))
    version = draw(st.sampled_from([b"1.1", b"1.1", b"1.0"]))
    connection = draw(st.sampled_from([b"", b"", b"Connection: close\r\n", b"Connection: keep-alive\r\n"]))
    framing = draw(st.sampled_from(["length", "chunks", "close"] if version == b"1.1" else ["length", "close"]))
    body = b"" if status in {204, 304} else draw(bodies)
    early = b"".join(draw(st.lists(informational, max_size=2)))
    head = b"HTTP/%b %d Some Phrase\r\n" % (version, status) + lines(draw(header_lists)) + connection
    if framing == "length" and status != 204:
        rest = b"Content-Length: %d\r\n\r\n" % len(body) + body
    elif framing == "chunks" and status not in {204, 304}:
        rest = b"Transfer-Encoding: chunked\r\n\r\n" + chunks(body, draw(st.integers(1, 30)), b"X-Trailer: t\r\n")
    else:
        rest = b"\r\n" + body
    by_close = framing == "close" and status not in {204, 304}
    reusable = not by_close and (connection != b"Connection: close\r\n" if version == b"1.1" else False)
    return early + head + rest, status, body, reusable


@CASES
@given(answers(), sizes)
def test_an_answer_is_heard_as_it_was_written_and_as_h11_hears_it(
    answer: tuple[bytes, int, bytes, bool], cuts: list[int]
) -> None:
    wire, status, body, reusable = answer
    data = cut(wire, *cuts)
    heard = hear(pieces(data))
    assert (heard.end, [head.status for head in heard.heads], heard.body) == ("complete", [status], body)
    assert heard.kept == reusable or KEPT_IN_1_0.search(wire)
    response.check(data)


class Plan:
    """A handler that answers each request as the next entry says."""

    def __init__(self, plans: list[tuple[int, bytes, str, int]]) -> None:
        self.plans = plans
        self.asked: list[Request | BadRequest] = []

    def on_request(self, request: Request, client: Connection) -> None:
        status, body, how, size = self.plans[len(self.asked)]
        self.asked.append(request)
        if how == "whole":
            client.respond(200, b"x-a: b\r\n", body)
            return
        parts = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        client.start(status, b"Some Phrase", b"x-a: b\r\n", len(body) if how == "sized" else None, parts[0])
        for part in parts[1:]:
            client.write(part)
        client.finish()

    def on_bad_request(self, bad: BadRequest, client: Connection) -> None:
        self.asked.append(bad)
        client.respond(bad.error.status, b"", bad.error.body())


class Written(Wire):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.data += data

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def can_write_eof(self) -> bool:
        return False


async def exchanged(wires: bytes, plan: Plan, cuts: list[int]) -> Written:
    """What a client is sent that sends these bytes in these cuts."""
    transport = Written()
    client = Connection(plan, Limits(), set(), asyncio.get_running_loop().time, RecentHeads())
    client.connection_made(cast("asyncio.Transport", transport))
    for read in pieces(cut(wires, *cuts)):
        if not transport.closed:
            client.data_received(read)
    for _ in range(2 * len(plan.plans) + 2):
        await asyncio.sleep(0)
    client.connection_lost(None)
    return transport


requests = st.tuples(
    st.sampled_from([b"GET", b"HEAD", b"OPTIONS", b"POST"]),
    st.sampled_from([b"1.1", b"1.1", b"1.1", b"1.0"]),
    st.sampled_from(
        [b"", b"", b"", b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Expect: 100-continue\r\n"]
    ),
    bodies,
)
plans = st.tuples(
    st.sampled_from([200, 200, 204, 304, 404, 500]),
    bodies,
    st.sampled_from(["whole", "sized", "streamed"]),
    st.integers(1, 30),
)


@CASES
@given(st.lists(st.tuples(requests, plans), min_size=1, max_size=5), sizes)
@example([((b"HEAD", b"1.1", b"", b""), (200, b"abc", "streamed", 1))] * 2, [1])
def test_clients_are_sent_what_h11_reads_as_the_answers_in_their_order(drawn: list[Any], cuts: list[int]) -> None:
    wires = b"".join(
        b"%b / HTTP/%b\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (method, version, more, len(body), body)
        for (method, version, more, body), _ in drawn
    )
    plan = Plan([plan for _, plan in drawn])
    sent = asyncio.run(exchanged(wires, plan, cuts))
    rest, answered = sent.data, 0
    for ((method, version, more, _), (status, body, how, _)), asked in zip(drawn, plan.asked, strict=False):
        judge = h11.Connection(h11.CLIENT)
        judge.send(h11.Request(method=method, target="/", headers=[("Host", "h")]))
        judge.send(h11.EndOfMessage())
        judge.receive_data(rest)
        if sent.closed:
            judge.receive_data(b"")
        got, heads = b"", []
        while not isinstance(event := judge.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Response):
                heads.append(event)
            elif isinstance(event, h11.Data):
                got += bytes(event.data)
            else:
                assert isinstance(event, h11.InformationalResponse), event
        (head,) = heads
        answered += 1
        if isinstance(asked, BadRequest):  # it followed a request that ended the connection
            assert head.status_code == 400
            break
        status = 200 if how == "whole" else status
        bodiless = method == b"HEAD" or status in {204, 304}
        assert (head.status_code, got) == (status, b"" if bodiless else body)
        named = dict(head.headers)
        assert version == b"1.1" or b"transfer-encoding" not in named
        assert status != 204 or not {b"content-length", b"transfer-encoding"} & set(named)
        closes = version == b"1.0" or more == b"Connection: close\r\n"
        assert (judge.their_state is h11.DONE) == (not closes)
        assert (named.get(b"connection") == b"close") == closes
        if closes:
            assert sent.closed
            break
        rest = bytes(judge.trailing_data[0])
    assert answered == len(plan.asked)
    assert sent.closed or answered == len(drawn)


@CASES
@given(
    headers=st.lists(
        st.tuples(
            client_names,
            values,
        ),
        max_size=6,
    ),
    options=st.sampled_from([b"", b"Connection: keep-alive, X-Gone\r\n", b"Connection: close, host\r\n"]),
    body=bodies,
    chunked=st.booleans(),
    cuts=sizes,
)
def test_an_engine_is_sent_what_h11_reads_as_the_clients_request(
    headers: list[tuple[bytes, bytes]], options: bytes, body: bytes, chunked: bool, cuts: list[int]
) -> None:
    framing = b"Content-Length: %d\r\n\r\n" % len(body) + body
    if chunked:
        framing = b"Transfer-Encoding: chunked\r\n\r\n" + chunks(body, 7, b"Host: trailer\r\n")
    wire = b"POST /v1/x?y=%20 HTTP/1.1\r\nHost: client\r\n" + lines(headers) + options + framing
    reader = RequestReader(Limits(), RecentHeads())
    for read in pieces(cut(wire, *cuts)):
        reader.feed(read, 0.0)
    (request,) = reader.ready
    assert isinstance(request, Request)
    forwarded = request.headers.forwarded(REQUEST_DROPPED)
    sent = request_head(request.method, request.target, b"engine:1", forwarded, b"id", len(request.body)) + request.body
    judge = h11.Connection(h11.SERVER)
    judge.receive_data(sent)
    head, got = judge.next_event(), b""
    assert isinstance(head, h11.Request)
    while isinstance(event := judge.next_event(), h11.Data):
        got += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    assert judge.trailing_data == (b"", False)
    assert (head.method, head.target, got) == (b"POST", b"/v1/x?y=%20", body)
    seen = [(bytes(name), bytes(value)) for name, value in head.headers]
    gone = HOP_BY_HOP | {b"content_length", b"x-request-id"} | ({b"x-gone"} if b"X-Gone" in options else set())
    kept = [(name.lower(), value) for name, value in headers if name.lower() not in gone]
    own = [(b"x-request-id", b"id"), (b"content-length", b"%d" % len(body))]
    assert seen == [(b"host", b"engine:1"), *kept, *own]
