"""Heads: what ends at this hop, what goes on as it came, what is added."""

import pytest

from breakeven.errors import ApiError, invalid_api_key
from breakeven.headers import (
    HOP_BY_HOP,
    REQUEST_DROPPED,
    WITHOUT_CLIENT_KEY,
    Headers,
    accepts,
    connection_options,
    dropped_headers,
    error_lines,
    read_response_head,
    request_head,
    response_head,
    table_line,
    unbuffered,
    usable_request_id,
    why_lines,
)


def test_a_header_that_is_not_there_has_no_value_and_the_first_of_several_counts() -> None:
    assert Headers([]).named.get(b"x") is None
    assert Headers([(b"x", b"1"), (b"x", b"2")]).named[b"x"] == b"1"


@pytest.mark.parametrize("name", sorted(HOP_BY_HOP))
def test_what_speaks_of_one_connection_only_ends_here(name: bytes) -> None:
    assert Headers([(name, b"x"), (b"accept", b"*/*")]).forwarded(HOP_BY_HOP) == b"accept: */*\r\n"


def test_what_the_connection_header_names_ends_here_too() -> None:
    headers = [
        (b"connection", b"close, X-Secret"),
        (b"connection", b"x-other"),
        (b"x-secret", b"1"),
        (b"x-other", b"2"),
    ]
    assert connection_options(headers) == {b"close", b"x-secret", b"x-other"}
    assert Headers(headers).forwarded(HOP_BY_HOP) == b""


def test_everything_else_goes_on_in_order_repeated_and_unknown() -> None:
    headers = [(b"x-a", b"1"), (b"x-b", b""), (b"x-a", b"\xff")]
    assert Headers(headers).forwarded(REQUEST_DROPPED) == b"x-a: 1\r\nx-b: \r\nx-a: \xff\r\n"


def test_headers_asked_again_answer_for_what_is_dropped_now() -> None:
    headers = Headers([(b"x-a", b"1"), (b"authorization", b"theirs")])
    assert headers.forwarded(REQUEST_DROPPED) is headers.forwarded(REQUEST_DROPPED)
    assert headers.forwarded(WITHOUT_CLIENT_KEY) == b"x-a: 1\r\n"
    assert headers.forwarded(REQUEST_DROPPED) == b"x-a: 1\r\nauthorization: theirs\r\n"


@pytest.mark.parametrize(
    ("headers", "media_type", "coding"),
    [
        ([], b"", b"identity"),
        ([(b"content-type", b"Text/Event-Stream ; charset=utf-8")], b"text/event-stream", b"identity"),
        ([(b"content-encoding", b" GZIP "), (b"content-type", b"a/b")], b"a/b", b"gzip"),
    ],
)
def test_the_kind_of_a_body_is_read_without_case_and_parameters(
    headers: list[tuple[bytes, bytes]], media_type: bytes, coding: bytes
) -> None:
    asked = Headers(headers)
    for _ in range(2):
        assert (asked.media_type, asked.coding) == (media_type, coding)


def test_headers_are_equal_to_the_same_lines_and_to_nothing_else() -> None:
    assert Headers([(b"x", b"1")]) == Headers([(b"x", b"1")])
    assert Headers([(b"x", b"1")]) not in (Headers([(b"x", b"2")]), [(b"x", b"1")])


def test_a_request_gets_a_host_an_id_and_a_length_of_its_own() -> None:
    headers = [
        (b"host", b"evil"), (b"content-length", b"7"), (b"expect", b"100-continue"), (b"transfer-encoding", b"chunked"),
        (b"x-request-id", b"theirs"), (b"authorization", b"Bearer theirs"), (b"content-type", b"application/json"),
    ]  # fmt: skip
    lines = Headers(headers).forwarded(REQUEST_DROPPED)
    assert request_head(b"POST", b"/v1/x?a=1", b"engine:8000", lines, b"ours", 3) == (
        b"POST /v1/x?a=1 HTTP/1.1\r\nhost: engine:8000\r\nauthorization: Bearer theirs\r\n"
        b"content-type: application/json\r\nx-request-id: ours\r\ncontent-length: 3\r\n\r\n"
    )


def test_a_response_head_is_complete() -> None:
    assert response_head(200, b"OK", b"a: b\r\n") == b"HTTP/1.1 200 OK\r\na: b\r\n\r\n"


@pytest.mark.parametrize("offered", [b"abc", b"a" * 128, b"A-b_c.d:9"])
def test_a_harmless_request_id_is_kept(offered: bytes) -> None:
    assert usable_request_id(offered) == offered


@pytest.mark.parametrize("offered", [None, b"", b"a" * 129, b'"', b"a b", b"a%0d%0ab", "😀".encode(), b"a\r\nb"])
def test_a_missing_long_or_strange_request_id_is_not_used(offered: bytes | None) -> None:
    assert usable_request_id(offered) is None


def test_a_stream_is_marked_as_not_to_be_collected_unless_the_engine_has_a_word_on_it() -> None:
    assert unbuffered(Headers([])) == b"cache-control: no-cache\r\nx-accel-buffering: no\r\n"
    assert unbuffered(Headers([(b"cache-control", b"no-store"), (b"x-accel-buffering", b"yes")])) == b""


def test_an_error_says_its_type_when_to_retry_and_what_is_allowed() -> None:
    assert error_lines(ApiError(400, "m", "t")) == b"content-type: application/json\r\n"
    assert b"retry-after: 3\r\n" in error_lines(ApiError(503, "m", "t", retry_after_s=3))
    assert b"www-authenticate: Bearer\r\n" in error_lines(ApiError(401, "m", "t"))
    assert b"allow: POST\r\n" in error_lines(ApiError(405, "m", "t", allow="POST"))


@pytest.mark.parametrize(
    ("status", "headers", "body_bytes", "until_close"),
    [
        (200, [(b"content-length", b"7")], 7, False),
        (200, [(b"transfer-encoding", b"chunked")], None, False),
        (200, [(b"content-length", b"7"), (b"transfer-encoding", b"chunked")], None, False),
        (200, [], None, True),
        (204, [], None, False),
        (304, [], None, False),
    ],
)
def test_an_answer_ends_by_its_length_its_chunks_its_status_or_its_connection(
    status: int, headers: list[tuple[bytes, bytes]], body_bytes: int | None, until_close: bool
) -> None:
    head = read_response_head(status, b"X", headers)
    assert (head.status, head.phrase) == (status, b"X")
    assert head.headers == Headers([pair for pair in headers if pair[0] != b"content-length"])
    assert (head.body_bytes, head.until_close) == (body_bytes, until_close)


@pytest.mark.parametrize(
    ("accepted", "asked"),
    [
        (None, False),
        (b"", False),
        (b"gzip", True),
        (b"br, GZIP ; q=0.5", True),
        (b"*", True),
        (b"gzip;q=0", False),
        (b"*, gzip;q=0", False),
        (b"*;q=0", False),
        (b"gzip; q=0.00", False),
        (b"identity, br", False),
    ],
)
def test_only_what_was_asked_for_is_accepted(accepted: bytes | None, asked: bool) -> None:
    assert accepts(accepted, b"gzip") is asked


def test_an_answer_says_why_and_by_which_policy_if_one_was_asked() -> None:
    assert why_lines("health", "threshold") == b"x-breakeven-reason: health\r\nx-breakeven-policy: threshold\r\n"
    assert why_lines("not_found", None) == b"x-breakeven-reason: not_found\r\n"


def test_the_table_that_took_part_has_a_header() -> None:
    assert table_line("0123456789ab") == b"x-breakeven-table: 0123456789ab\r\n"


def test_a_phrase_loses_what_no_phrase_may_hold() -> None:
    assert read_response_head(200, b"O\x00K\x1b\x7f \xe9\t!", []).phrase == b"OK \xe9\t!"


def test_who_may_not_come_in_is_told_how_to() -> None:
    assert b"www-authenticate: Bearer\r\n" in error_lines(invalid_api_key())


@pytest.mark.parametrize(
    "codings", [[b"gzip"], [b"gzip, chunked"], [b"gzip", b"chunked"], [b"chunked", b"chunked"], [b""]]
)
def test_an_answer_with_another_transfer_coding_is_none(codings: list[bytes]) -> None:
    with pytest.raises(ValueError, match="besides chunked"):
        read_response_head(200, b"OK", [(b"transfer-encoding", coding) for coding in codings])


def test_an_answer_in_chunks_has_no_length_however_the_coding_is_spelled() -> None:
    head = read_response_head(200, b"OK", [(b"transfer-encoding", b"\tChunked ")])
    assert (head.body_bytes, head.until_close) == (None, False)


@pytest.mark.parametrize(("client_key", "dropped"), [(True, REQUEST_DROPPED), (False, WITHOUT_CLIENT_KEY)])
def test_the_header_that_chooses_a_policy_ends_here(client_key: bool, dropped: frozenset[bytes]) -> None:
    assert dropped_headers(b"", client_key=client_key) == dropped
    assert dropped_headers(b"x-policy", client_key=client_key) == dropped | {b"x-policy"}
