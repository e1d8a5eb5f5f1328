"""Heads that came before: found by equal bytes, whatever the length of the body, and never by anything less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.recent_heads import (
    FAILURES_MAX,
    HEAD_BYTES_MAX,
    HEADER_LINES_MAX,
    HEADS_MAX,
    LAST_BYTES_MAX,
    TRIED_THEN,
    RecentHeads,
)

HEAD = b"POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nX-A: b\r\n\r\n"


def message(body: bytes, head: bytes = HEAD) -> bytes:
    return head % len(body) + body


def remembering(*messages: bytes) -> RecentHeads[str]:
    recent: RecentHeads[str] = RecentHeads()
    for number, data in enumerate(messages):
        recent.remember(data, f"head {number}")
    return recent


def found_last(data: bytes) -> RecentHeads[str]:
    """One message, found as well, so that the next one is compared with it before anything is looked up."""
    recent = remembering(data)
    assert recent.find(data) is not None
    return recent


def test_a_head_that_never_came_is_not_found() -> None:
    assert remembering().find(message(b"abc")) is None


@pytest.mark.parametrize(
    "data",
    [
        message(b"abc", HEAD.replace(b"X-A: b", b"X-A: c")),
        message(b"abc", HEAD.replace(b"/v1/x", b"/v1/y")),
        message(b"abc", HEAD.replace(b"Content-Length", b"content-length")),
        message(b"abc", HEAD.replace(b"X-A: b\r\n", b"")),
        message(b"abc", HEAD.replace(b"X-A", b"Transfer-Encoding: chunked\r\nX-A")),
        message(b"abc", HEAD.replace(b"X-A: b", b"X-A: b\r\nContent-Length: 3")),
    ],
)
def test_a_head_that_differs_in_a_byte_is_another_one(data: bytes) -> None:
    assert remembering(message(b"abc")).find(data) is None
    assert found_last(message(b"abc")).find(data) is None


@pytest.mark.parametrize(
    "data",
    [
        message(b"abcd")[:-1],
        message(b"abc") + b"G",
        message(b"abc") + message(b"abc"),
        HEAD % 3,
        (HEAD % 3)[:-2],
        message(b"abc").replace(b": 3", b": +3"),
        message(b"abc").replace(b": 3", b":3"),
        message(b"abc").replace(b": 3", b": "),
        message(b"abc").replace(b": 3", b": 3 "),
        message(b"abc").replace(b": 3", b": " + b"0" * 9 + b"3"),
        b"",
    ],
    ids=["cut", "more", "two", "no body", "no end", "sign", "no space", "no digits", "space after", "long", "nothing"],
)
def test_what_is_not_exactly_one_whole_message_is_for_the_parser(data: bytes) -> None:
    assert remembering(message(b"abc")).find(data) is None
    assert found_last(message(b"abc")).find(data) is None


@pytest.mark.parametrize(
    "data",
    [
        b"GET /v1/x HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET /?\r\n\r\ncontent-length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nX-Content-Length: 3\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nCONTENT-LENGTH: 3\r\n\r\nabc",
        message(b"abc") + b"more",
        message(b"abc", HEAD.replace(b"X-A: b", b"X-A: " + b"b" * HEAD_BYTES_MAX)),
        message(b"abc", HEAD.replace(b"X-A: b", b"X-A: b\r\n" + b"A:\r\n" * HEADER_LINES_MAX + b"A:")),
    ],
    ids=[
        "no length",
        "length after the head",
        "another name",
        "a rare spelling",
        "two messages",
        "too large",
        "too many lines",
    ],
)
def test_what_could_not_be_found_again_is_not_remembered(data: bytes) -> None:
    assert remembering(data).find(data) is None


@given(first=st.binary(max_size=50), second=st.binary(max_size=5000))
def test_the_same_head_is_found_before_any_body(first: bytes, second: bytes) -> None:
    recent = remembering(message(b"other", HEAD.replace(b"b", b"c")), message(first))
    assert recent.find(message(second)) == ("head 1", second)


@given(
    bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=6),
    which=st.lists(st.integers(0, 2), min_size=6, max_size=6),
    cut=st.integers(0, 12),
    put=st.binary(max_size=6),
    at=st.integers(0, 100),
)
def test_comparing_with_the_last_head_finds_what_a_look_up_finds(
    bodies: list[bytes], which: list[int], cut: int, put: bytes, at: int
) -> None:
    heads = [HEAD, HEAD.replace(b"X-A: b", b"X-A: c"), HEAD.replace(b"/v1/x", b"/v1/x/y")]
    remembered = [message(b"", head) for head in heads]
    recent = remembering(*remembered)
    for body, number in zip(bodies, which, strict=False):
        whole = message(body, heads[number])
        for data in (whole, whole[:at] + put + whole[at + cut :]):
            assert recent.find(data) == remembering(*remembered).find(data)


@pytest.mark.parametrize("rest", [b"0", b"00001x", b"000000001" + b"x", b"x", b"", b"\r\n\r\n", b"0\r", b"3\r\n"])
def test_a_message_that_breaks_off_at_its_length_is_for_the_parser(rest: bytes) -> None:
    before, _, _ = HEAD.partition(b"%d")
    assert found_last(message(b"abc")).find(before + rest) is None


@pytest.mark.parametrize("size", [LAST_BYTES_MAX - 100, LAST_BYTES_MAX, LAST_BYTES_MAX + 1, 3 * LAST_BYTES_MAX])
def test_large_bodies_are_found_too(size: int) -> None:
    body = b"x" * size
    assert found_last(message(b"abc")).find(message(body)) == ("head 0", body)


def test_both_usual_spellings_are_known() -> None:
    lower = HEAD.replace(b"Content-Length", b"content-length")
    assert remembering(message(b"abc", lower)).find(message(b"", lower)) == ("head 0", b"")


def test_the_oldest_heads_are_forgotten_first() -> None:
    heads = [HEAD.replace(b"/v1/x", b"/%d" % number) for number in range(HEADS_MAX + 1)]
    recent = remembering(*(message(b"abc", head) for head in heads))
    assert recent.find(message(b"", heads[0])) is None
    assert [recent.find(message(b"", head)) for head in heads[1:]] == [
        (f"head {number}", b"") for number in range(1, HEADS_MAX + 1)
    ]


def read(recent: RecentHeads[str], data: bytes) -> bool:
    """What a reader does with a message; whether its head was found."""
    if recent.find(data) is not None:
        return True
    recent.remember(data, "head")
    return False


def test_where_every_head_is_another_one_few_are_tried_until_one_is_found_again() -> None:
    recent = remembering(*(message(b"abc", HEAD.replace(b"/v1/x", b"/%d" % n)) for n in range(FAILURES_MAX + 1)))
    found = [read(recent, message(b"abc")) for _ in range(2 * TRIED_THEN)]
    assert 1 < found.index(True) <= TRIED_THEN
    assert all(found[found.index(True) :])
    other = message(b"abc", HEAD.replace(b"/v1/x", b"/y"))
    assert [read(recent, other), read(recent, other)] == [False, True]


STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx-a: b\r\n\r\n"


def starting(*messages: bytes) -> RecentHeads[str]:
    recent: RecentHeads[str] = RecentHeads()
    for number, data in enumerate(messages):
        recent.remember_start(data, f"head {number}")
    return recent


def test_the_head_of_a_stream_is_found_whatever_follows() -> None:
    recent = starting(STREAM + b"1\r\na\r\n")
    assert recent.find_start(STREAM) == ("head 0", b"")
    assert recent.find_start(STREAM + b"\r\n\r\nx") == ("head 0", b"\r\n\r\nx")


@pytest.mark.parametrize(
    "data", [b"", STREAM[:-1], STREAM.replace(b"x-a", b"x-b"), STREAM.replace(b"\r\n", b"\n"), b" " + STREAM]
)
def test_a_start_that_differs_in_a_byte_is_another_one(data: bytes) -> None:
    assert starting(STREAM).find_start(data) is None


@pytest.mark.parametrize(
    "data",
    [
        STREAM.replace(b"\r\nx-a: b\r\n\r\n", b"\n\n1\r\na\r\n\r\n"),
        b"no head",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * HEADER_LINES_MAX + b"\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * HEAD_BYTES_MAX + b"\r\n\r\n",
    ],
    ids=["its end may lie in the body", "without an end", "many lines", "large"],
)
def test_a_start_that_is_odd_or_large_is_not_remembered(data: bytes) -> None:
    assert starting(data).find_start(data) is None


def test_where_every_start_is_another_one_few_are_tried_until_one_is_found_again() -> None:
    recent = starting(*(STREAM.replace(b"x-a: b", b"x-a: %d" % n) for n in range(FAILURES_MAX + 1)))
    found = []
    for _ in range(2 * TRIED_THEN):
        found.append(recent.find_start(STREAM) is not None)
        if not found[-1]:
            recent.remember_start(STREAM, "head")
    assert 1 < found.index(True) <= TRIED_THEN
    assert all(found[found.index(True) :])
