"""Requests out of bytes: bounds, refusals, every cut gives the same, and h11 agrees."""

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from breakeven.errors import ApiError
from breakeven.headers import Headers
from breakeven.recent_heads import RecentHeads
from breakeven.request_reader import CRUMB, CRUMBS_MAX, READ_AHEAD_MAX, BadRequest, Limits, Request, RequestReader

LIMITS = Limits(header_bytes_max=1024, body_bytes_max=4096)

SIMPLE = b"POST /v1/x?a=1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
CHUNKED = (
    b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"2\r\nab\r\n1;ext=1\r\nc\r\n0\r\nX-Trailer: t\r\n\r\n"
)


def read(*pieces: bytes, limits: Limits = LIMITS) -> RequestReader:
    """A reader that was fed these pieces, a second apart."""
    reader = RequestReader(limits, RecentHeads())
    for number, piece in enumerate(pieces):
        reader.feed(piece, float(number))
    return reader


def only(reader: RequestReader) -> Request:
    """The one request that was read."""
    (request,) = reader.ready
    assert isinstance(request, Request)
    return request


def error_of(reader: RequestReader) -> ApiError:
    """The error that ended the reading."""
    bad = reader.ready[-1]
    assert isinstance(bad, BadRequest)
    assert reader.stopped
    assert not reader.reading
    return bad.error


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00",
        b"GARBAGE\r\n\r\n",
        b"FOO / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nA: b\n c\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    ],
    ids=lambda data: data[:70].decode("latin-1"),
)
def test_what_is_not_clean_http_is_refused_and_nothing_after_it_is_read(data: bytes) -> None:
    reader = read(data, SIMPLE)
    error = error_of(reader)
    assert error.status == 400
    assert len(reader.ready) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * 1025,
        b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 1025,
        b"GET / HTTP/1.1\r\nHost: h\r\n" + b"x: y\r\n" * 200 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 1025 + b"\r\n\r\n",
    ],
    ids=["target", "unfinished header", "many headers", "one header"],
)
@pytest.mark.parametrize("cut", [1, 7, 10_000])
def test_a_head_over_the_limit_is_refused_however_it_is_cut(data: bytes, cut: int) -> None:
    assert error_of(read(*(data[at : at + cut] for at in range(0, len(data), cut)))).status == 431


@pytest.mark.parametrize("cut", [1, 7, 300, 10_000])
def test_a_head_just_under_the_limit_passes_however_it_is_cut(cut: int) -> None:
    wire = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 900 + b"\r\nY: " + b"b" * 80 + b"\r\n\r\n"
    assert len(wire) < LIMITS.header_bytes_max
    assert only(read(*(wire[at : at + cut] for at in range(0, len(wire), cut)))).headers.named[b"y"] == b"b" * 80


def test_small_requests_that_are_pipelined_are_not_taken_for_one_large_head() -> None:
    wire = b"GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n" * 200
    reader = read(wire + b"GET / HTT", b"P/1.1\r\nHost: h\r\n\r\n")
    assert len(reader.ready) == 201
    assert not reader.stopped


def taken(reader: RequestReader) -> int:
    """Takes what is ready, and what is held once that is gone; how many requests there were."""
    count = 0
    while reader.ready:
        count += len(reader.ready)
        reader.ready.clear()
        if reader.held:
            reader.go_on(1.0)
    return count


def test_thousands_of_offers_to_upgrade_are_declined_one_by_one() -> None:
    wire = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n" * 2000
    reader = read(wire)
    assert taken(reader) == 2000
    assert not reader.stopped


FLOOD = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n" * 5000


def test_of_a_flood_only_so_much_is_read_as_may_wait() -> None:
    reader = read(FLOOD)
    assert READ_AHEAD_MAX <= len(reader.ready) < 1000
    assert reader.reading
    assert taken(reader) == 5000
    assert (reader.reading, reader.held) == (False, b"")


def test_a_flood_ends_where_it_is_wrong() -> None:
    reader = read(FLOOD[: len(FLOOD) // 2 - 7] + b"BROKEN\r\n\r\n" + FLOOD)
    while reader.held:
        reader.ready.clear()
        reader.go_on(1.0)
    last = reader.ready[-1]
    assert isinstance(last, BadRequest)
    assert reader.stopped


def test_what_comes_behind_a_flood_is_read_behind_it_and_an_unfinished_request_stays_one() -> None:
    reader = read(FLOOD, SIMPLE[:-1])
    assert taken(reader) == 5000
    assert reader.reading
    reader.feed(SIMPLE[-1:], 9.0)
    assert only(reader).body == b"abc"


def test_a_flood_is_forgotten_with_its_client() -> None:
    reader = read(FLOOD)
    reader.release()
    assert (reader.held, reader.reading, list(reader.ready)) == (b"", False, [])


def test_a_large_body_full_of_empty_lines_is_one_body() -> None:
    content = b"\r\n\r\n" * 10_000
    wire = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(content) + content
    assert only(read(wire, limits=Limits())).body == content


def test_a_body_that_announces_too_much_is_refused_before_any_of_it_came() -> None:
    assert error_of(read(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10000000000\r\n\r\n")).status == 413


def test_what_was_refused_keeps_the_headers_that_were_complete() -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\nOrigin: o\r\n"
    for refused, names in (
        (head + b"Content-Length: 10000\r\n\r\n", [b"host", b"origin"]),
        (head + b"X: %b\r\n\r\n" % (b"x" * 1000), [b"host", b"origin", b"x"]),
        (head + b"\x00", []),
    ):
        (bad,) = read(refused).ready
        assert isinstance(bad, BadRequest)
        assert [name for name, _ in bad.headers.pairs] == names


def test_a_chunked_body_is_refused_at_the_limit() -> None:
    piece = b"400\r\n" + b"a" * 1024 + b"\r\n"
    reader = read(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", *[piece] * 4)
    assert not reader.stopped
    reader.feed(b"1\r\n", 9.0)
    reader.feed(b"b", 9.0)
    assert error_of(reader).status == 413


def test_a_body_of_exactly_the_limit_passes() -> None:
    assert len(only(read(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4096\r\n\r\n" + b"a" * 4096)).body) == 4096


def test_a_request_before_a_broken_one_is_still_served() -> None:
    reader = read(SIMPLE + b"BROKEN\r\n\r\n")
    assert only_first(reader).body == b"abc"
    assert error_of(reader).status == 400


def only_first(reader: RequestReader) -> Request:
    """The first thing read, which is a request."""
    first = reader.ready[0]
    assert isinstance(first, Request)
    return first


def test_a_reader_that_failed_from_outside_reads_nothing_more() -> None:
    reader = read(b"POST / HTTP/1.1\r\nHost: h\r\nCont")
    reader.fail(ApiError(408, "late", "t"))
    reader.feed(SIMPLE, 9.0)
    assert error_of(reader).status == 408
    assert len(reader.ready) == 1


def test_a_request_comes_out_as_it_was_sent() -> None:
    request = only(read(SIMPLE))
    assert request == Request(
        b"POST",
        b"/v1/x?a=1",
        "/v1/x",
        Headers([(b"host", b"h")]),
        b"abc",
        keep_alive=True,
        chunked_answers=True,
    )
    assert request.path == "/v1/x"


@pytest.mark.parametrize("wire", [SIMPLE, CHUNKED], ids=["sized", "chunked"])
@pytest.mark.parametrize("cut", [1, 2, 3, 5, 50])
def test_every_cut_gives_the_same_request(wire: bytes, cut: int) -> None:
    pieces = [wire[at : at + cut] for at in range(0, len(wire), cut)]
    assert only(read(*pieces)) == only(read(wire))


def test_chunk_extensions_and_trailers_end_here() -> None:
    request = only(read(CHUNKED))
    assert request.body == b"abc"
    assert b"x-trailer" not in request.headers.named


def test_pipelined_requests_come_out_in_order() -> None:
    reader = read(SIMPLE + CHUNKED + SIMPLE)
    assert [request.path for request in reader.ready] == ["/v1/x", "/c", "/v1/x"]


def test_trailers_without_end_are_refused() -> None:
    reader = read(
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ", *[b"y" * 500] * 4
    )
    assert error_of(reader).status == 431


def test_a_body_in_crumbs_is_refused_before_it_stops_the_loop() -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    crumbs = read(head, b"1\r\na\r\n" * (CRUMBS_MAX + 2), limits=Limits())
    assert error_of(crumbs).status == 400
    piece = b"%x\r\n%b\r\n" % (CRUMB, b"a" * CRUMB)
    body = only(read(head, piece * (CRUMBS_MAX + 2), b"0\r\n\r\n", limits=Limits())).body
    assert body == b"a" * CRUMB * (CRUMBS_MAX + 2)


def test_a_body_in_tiny_chunks_is_no_endless_head() -> None:
    wire = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 3000 + b"0\r\n\r\n"
    assert only(read(*(wire[at : at + 7] for at in range(0, len(wire), 7)))).body == b"a" * 3000


@pytest.mark.parametrize(
    "head",
    [b"GET / HTTP/2.0\r\n", b"GET /\r\n", b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n"],
    ids=["2.0", "0.9", "gzip"],
)
def test_other_versions_and_transfer_codings_are_not_understood(head: bytes) -> None:
    assert error_of(read(head + b"\r\n", b"0\r\n\r\n")).status == 400


def test_what_a_released_reader_had_read_is_forgotten() -> None:
    reader = read(SIMPLE, b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc")
    assert reader.ready_bytes == 3
    reader.release()
    assert (reader.ready_bytes, reader.reading, reader.stopped) == (0, False, True)
    reader.feed(SIMPLE, 9.0)
    assert not reader.ready


def test_empty_lines_before_a_request_are_forgiven() -> None:
    assert only(read(b"\r\n\r\n" + SIMPLE)).body == b"abc"


@pytest.mark.parametrize(
    ("line", "keep_alive", "chunked"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n", True, True),
        (b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n", False, True),
        (b"GET / HTTP/1.0\r\n", False, False),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n", True, False),
    ],
)
def test_the_version_and_the_connection_header_decide_what_may_follow(
    line: bytes, keep_alive: bool, chunked: bool
) -> None:
    request = only(read(line + b"\r\n"))
    assert (request.keep_alive, request.chunked_answers) == (keep_alive, chunked)


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"http://h:1/a/b?c", "/a/b"),
        (b"HTTP://h/a", "/a"),
        (b"http://h?x/v1", "/"),
        (b"https://h", "/"),
        (b"/a%2fb", "/a%2fb"),
        (b"*", "*"),
        (b"/a?b?c", "/a"),
    ],
)
def test_a_target_in_absolute_form_loses_its_authority(target: bytes, path: str) -> None:
    assert only(read(b"OPTIONS %b HTTP/1.1\r\nHost: h\r\n\r\n" % target)).path == path


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_an_offer_to_upgrade_is_declined_and_costs_neither_the_body_nor_what_follows(cut: int) -> None:
    wire = (
        b"POST /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"
        b"Content-Length: 3\r\n\r\nabc" + SIMPLE
    )
    reader = read(*(wire[at : at + cut] for at in range(0, len(wire), cut)))
    first, second = reader.ready
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert (first.path, first.body, first.keep_alive) == ("/a", b"abc", True)
    assert b"upgrade" not in first.headers.named
    assert second.path == "/v1/x"


def test_connect_is_refused_and_nothing_after_it_is_read() -> None:
    reader = read(b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", SIMPLE)
    assert error_of(reader).status == 501
    assert len(reader.ready) == 1


@pytest.mark.parametrize(
    "host",
    [b"", b" ", b"a b", b"a\tb", b"a,b", b"u@a", b"u:p@a", b"a/b", b"a?b", b"a#b", b"a:b", b"a:123456", b"[::1", b"::1",
     b"[a", b"http://a", b"a\xff", b"a\"b", b"a\\b", b"<a>"],
)  # fmt: skip
@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_a_host_that_is_none_is_refused(host: bytes, version: bytes) -> None:
    assert error_of(read(b"GET / HTTP/%b\r\nHost: %b\r\n\r\n" % (version, host), SIMPLE)).status == 400


@pytest.mark.parametrize(
    "host", [b"h", b"H-1.example:8080", b"10.0.0.1:1", b"[::1]:80", b"[fe80::1%25eth0]", b"my_host", b"h:", b"  h \t"]
)
def test_a_host_that_is_one_is_taken(host: bytes) -> None:
    assert only(read(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)).path == "/"


@pytest.mark.parametrize(
    "target",
    [b"/v1#f", b"/v1?a#b", b"#", b"http://u@h/v1", b"http:///v1", b"http://a,b/", b"http://h:x/", b"http://h#f"],
)
def test_a_target_with_a_fragment_or_an_authority_that_is_no_host_is_refused(target: bytes) -> None:
    assert error_of(read(b"GET %b HTTP/1.1\r\nHost: h\r\n\r\n" % target, SIMPLE)).status == 400


def test_a_transfer_coding_in_http_1_0_is_refused() -> None:
    wire = b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert error_of(read(wire, SIMPLE)).status == 400


def test_who_waits_for_100_is_known_until_the_body_comes() -> None:
    reader = read(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n")
    assert reader.wants_continue
    reader.feed(b"a", 1.0)
    assert not reader.wants_continue
    assert only(reader).body == b"a"


def test_the_times_tell_when_a_request_began_and_was_last_heard_of() -> None:
    reader = read(b"POST / HTTP/1.1\r\nHost: h\r\n", b"Content-Length: 2\r\n", b"\r\na")
    assert (reader.reading, reader.head_complete, reader.head_started_s, reader.heard_s) == (True, True, 0.0, 2.0)
    reader.feed(b"b", 3.0)
    assert not reader.reading


token = st.text("abcXYZ-019", min_size=1, max_size=8).map(str.encode)
value = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12).map(str.encode)


@given(
    headers=st.lists(st.tuples(token.map(lambda name: b"X-" + name), value), max_size=5),
    body=st.binary(max_size=200),
    chunks=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 40), min_size=1, max_size=20),
    chunked=st.booleans(),
)
@example(headers=[], body=b"", chunks=[1], cuts=[1], chunked=True)
def test_h11_reads_the_same_out_of_the_same_bytes(
    headers: list[tuple[bytes, bytes]], body: bytes, chunks: list[int], cuts: list[int], chunked: bool
) -> None:
    framing = (b"Transfer-Encoding", b"chunked") if chunked else (b"Content-Length", b"%d" % len(body))
    lines = b"".join(b"%b: %b\r\n" % header for header in [(b"Host", b"h"), *headers, framing])
    wire = b"POST /p HTTP/1.1\r\n" + lines + b"\r\n"
    if chunked:
        at = 0
        for size in chunks * (len(body) + 1):
            if at >= len(body):
                break
            piece = body[at : at + size]
            wire += b"%x\r\n%b\r\n" % (len(piece), piece)
            at += size
        wire += b"0\r\n\r\n"
    else:
        wire += body

    judge = h11.Connection(h11.SERVER)
    judge.receive_data(wire)
    head = judge.next_event()
    judged_body = b""
    while isinstance(event := judge.next_event(), h11.Data):
        judged_body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)

    pieces, at = [], 0
    while at < len(wire):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(wire[at : at + size])
        at += size
    request = only(read(*pieces, limits=Limits(header_bytes_max=8192)))
    assert (request.method, request.target, request.body) == (head.method, head.target, judged_body)
    others = [tuple(pair) for pair in head.headers if pair[0] != b"content-length"]
    assert [(name, value.strip()) for name, value in request.headers.pairs] == others


@given(data=st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_whatever_raise(data: list[bytes]) -> None:
    reader = read(*data)
    for incoming in reader.ready:
        assert isinstance(incoming, Request | BadRequest)


@given(
    wires=st.lists(
        st.sampled_from(
            [
                SIMPLE,
                SIMPLE.replace(b"3\r\n\r\nabc", b"4\r\n\r\nabcd"),
                b"\r\n" + SIMPLE,
                SIMPLE.replace(b"Host", b"Connection: close\r\nHost"),
                SIMPLE.replace(b"Host", b"Expect: 100-continue\r\nHost"),
                SIMPLE.replace(b"1.1", b"1.0"),
                SIMPLE[:-1],
                SIMPLE + SIMPLE,
                CHUNKED,
                SIMPLE.replace(b"3\r\n\r\nabc", b"5000\r\n\r\n" + b"a" * 5000),
                b"BROKEN\r\n\r\n",
            ]
        ),
        max_size=6,
    )
)
def test_a_client_whose_heads_came_before_is_read_as_one_whose_heads_are_new(wires: list[bytes]) -> None:
    known: RecentHeads[Request] = RecentHeads()
    for wire in wires:
        RequestReader(LIMITS, known).feed(wire, 0.0)
    reader, judge = RequestReader(LIMITS, known), RequestReader(LIMITS, RecentHeads())
    for wire in wires:
        reader.feed(wire, 1.0)
        judge.feed(wire[:1], 1.0)  # a message in two reads is parsed
        judge.feed(wire[1:], 1.0)
        assert list(reader.ready) == list(judge.ready)
        assert (reader.reading, reader.stopped) == (judge.reading, judge.stopped)


def test_a_head_is_remembered_without_its_body() -> None:
    known: RecentHeads[Request] = RecentHeads()
    RequestReader(LIMITS, known).feed(SIMPLE, 0.0)
    found = known.find(SIMPLE)
    assert found is not None
    assert (found[0].body, found[1]) == (b"", b"abc")


class Doorkeeper:
    """Lets nobody in, and remembers who was asked about."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bytes]] = []

    def __call__(self, method: bytes, path: bytes, headers: Headers) -> None:
        self.asked.append((method, path))
        raise ApiError(401, "no", "invalid_request_error", "invalid_api_key")


@pytest.mark.parametrize("framing", [b"Content-Length: 3", b"Transfer-Encoding: chunked", b"Content-Length: 999999"])
def test_who_may_not_come_in_is_told_before_the_body_is_read(framing: bytes) -> None:
    doorkeeper = Doorkeeper()
    reader = read(b"PUT http://h/v1/x?a=1 HTTP/1.1\r\nHost: h\r\n%b\r\n\r\n" % framing, limits=Limits(admit=doorkeeper))
    (bad,) = reader.ready
    assert isinstance(bad, BadRequest)
    assert (bad.error.status, bad.method, bad.path, bad.headers.named[b"host"]) == (401, b"PUT", "/v1/x", b"h")
    assert reader.stopped
    assert doorkeeper.asked == [(b"PUT", b"/v1/x")]


@pytest.mark.parametrize("framing", [b"", b"Content-Length: 0\r\n"])
def test_what_has_no_body_is_judged_by_whoever_answers_it(framing: bytes) -> None:
    doorkeeper = Doorkeeper()
    request = only(read(b"GET /v1/x HTTP/1.1\r\nHost: h\r\n%b\r\n" % framing, limits=Limits(admit=doorkeeper)))
    assert (request.path, doorkeeper.asked) == ("/v1/x", [])


def test_a_body_is_read_of_who_may_come_in() -> None:
    assert only(read(SIMPLE, limits=Limits(admit=lambda *_: None))).body == b"abc"
