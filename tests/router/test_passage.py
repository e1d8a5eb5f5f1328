"""What happens to an answer on its way: by its own kind, never by what the request asked for."""

import gzip
import json
import zlib

import pytest

from breakeven import passage
from breakeven.errors import upstream_error
from breakeven.headers import Header, Headers, ResponseHead
from breakeven.passage import JsonPassage, OpaquePassage, Passage, StreamPassage, passage_of
from breakeven.record import RequestRecord

STREAM_CUT = upstream_error().event()

SSE = (b"content-type", b"text/event-stream; charset=utf-8")
JSON = (b"content-type", b"application/json")


def head(*headers: Header, status: int = 200, body_bytes: int | None = None) -> ResponseHead:
    return ResponseHead(status, b"OK", Headers(list(headers)), body_bytes, until_close=False)


def record() -> RequestRecord:
    return RequestRecord("id", "chat.completions", 0.0)


def event(**message: object) -> bytes:
    return b"data: " + json.dumps({"model": "org/m", **message}).encode() + b"\n\n"


TOKEN = event(choices=[{"delta": {"content": "hi"}, "finish_reason": None}])
LAST = event(choices=[{"delta": {}, "finish_reason": "stop"}])
USAGE = event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 5})
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ([SSE], StreamPassage),
        ([(b"content-type", b"TEXT/EVENT-STREAM")], StreamPassage),
        ([JSON], JsonPassage),
        ([(b"content-type", b"application/json;charset=utf-8")], JsonPassage),
        ([(b"content-type", b"text/html")], OpaquePassage),
        ([(b"content-type", b"audio/mpeg")], OpaquePassage),
        ([], OpaquePassage),
        ([SSE, (b"content-encoding", b"gzip")], OpaquePassage),
        ([SSE, (b"content-encoding", b"deflate")], OpaquePassage),
        ([JSON, (b"content-encoding", b"br")], OpaquePassage),
        ([JSON, (b"content-encoding", b"identity")], JsonPassage),
    ],
)
def test_the_kind_is_what_the_engine_says(headers: list[Header], kind: type[Passage]) -> None:
    assert type(passage_of(head(*headers), None, b"gzip, br", must_end=True)) is kind


def test_what_is_not_understood_passes_as_it_is_and_tells_nothing() -> None:
    way, seen = passage_of(head(body_bytes=4), "fast", None, must_end=True), record()
    assert (way.body_bytes, way.streams, way.truncated, way.done) == (4, False, False, False)
    assert way.feed(b"\x00\xff", 1.0) == b"\x00\xff"
    assert way.finish(2.0) == b""
    assert way.cut(upstream_error()) is None
    assert way.note(seen) is False
    assert seen == record()


def test_json_goes_on_at_once_and_its_usage_is_read_at_the_end() -> None:
    body = json.dumps({"model": "org/m", "usage": {"prompt_tokens": 3, "completion_tokens": 5}}).encode()
    way, seen = passage_of(head(JSON, body_bytes=len(body)), None, None, must_end=True), record()
    assert way.body_bytes == len(body)
    assert way.feed(body[:10], 1.0) + way.feed(body[10:], 2.0) + way.finish(3.0) == body
    assert way.note(seen) is False
    assert (seen.prompt_tokens, seen.completion_tokens, seen.first_token_s, seen.stream) == (3, 5, None, False)


def test_json_under_an_alias_is_held_until_it_can_be_renamed_and_its_length_is_open() -> None:
    way = passage_of(head(JSON, body_bytes=100), "fast", None, must_end=True)
    assert way.body_bytes is None
    assert way.feed(b'{"model": "org/m", ', 1.0) == b""
    assert way.feed(b'"a": 1}', 2.0) == b""
    assert way.finish(3.0) == b'{"model": "fast", "a": 1}'


def test_json_too_large_to_be_held_goes_on_under_the_engines_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passage, "RENAMED_ANSWER_BYTES_MAX", 10)
    way = passage_of(head(JSON), "fast", None, must_end=True)
    assert way.feed(b"0123456789", 1.0) == b""
    assert way.feed(b"a", 2.0) == b"0123456789a"
    assert way.feed(b"b", 3.0) == b"b"
    assert way.finish(4.0) == b""


def test_half_a_document_is_cut_without_a_word() -> None:
    way = passage_of(head(JSON), None, None, must_end=True)
    way.feed(b'{"model"', 1.0)
    assert way.cut(upstream_error()) is None


def test_a_stream_goes_on_as_it_comes_and_tells_its_first_token_and_usage() -> None:
    way, seen = passage_of(head(SSE), None, None, must_end=True), record()
    assert way.streams
    for moment, piece in enumerate((TOKEN, TOKEN, LAST, USAGE, DONE), start=1):
        assert way.feed(piece, float(moment)) == piece
    assert way.finish(6.0) == b""
    assert way.done
    assert not way.truncated
    assert way.note(seen) is False
    assert (seen.stream, seen.first_token_s, seen.prompt_tokens, seen.completion_tokens) == (True, 1.0, 3, 5)


def test_a_stream_under_an_alias_is_renamed_event_by_event() -> None:
    way = passage_of(head(SSE), "fast", None, must_end=True)
    assert way.feed(TOKEN, 1.0) == TOKEN.replace(b"org/m", b"fast")
    assert way.feed(DONE, 2.0) + way.finish(3.0) == DONE


def test_an_error_inside_a_success_is_noted() -> None:
    way = passage_of(head(SSE), None, None, must_end=True)
    way.feed(event(error={"message": "x", "code": 500}) + DONE, 1.0)
    way.finish(2.0)
    assert way.note(record()) is True


@pytest.mark.parametrize(
    ("must_end", "status", "truncated"), [(True, 200, True), (False, 200, False), (True, 400, False)]
)
def test_a_stream_without_an_end_is_truncated_where_its_endpoint_has_one(
    must_end: bool, status: int, truncated: bool
) -> None:
    way = passage_of(head(SSE, status=status), None, None, must_end=must_end)
    way.feed(TOKEN, 1.0)
    way.finish(2.0)
    assert way.truncated is truncated


@pytest.mark.parametrize(
    ("sent", "notice"),
    [(TOKEN, STREAM_CUT), (TOKEN + b'data: {"half', b"\n\n" + STREAM_CUT), (TOKEN + b"data: x\n", b"\n" + STREAM_CUT)],
)
def test_a_stream_that_is_cut_says_so_in_an_event_of_its_own(sent: bytes, notice: bytes) -> None:
    way = passage_of(head(SSE), None, None, must_end=True)
    way.feed(sent, 1.0)
    assert way.cut(upstream_error()) == notice


def test_what_the_renamer_still_holds_goes_out_before_the_notice() -> None:
    way = passage_of(head(SSE), "fast", None, must_end=True)
    sent = way.feed(TOKEN + b'data: {"ha', 1.0) + (way.cut(upstream_error()) or b"")
    assert sent == TOKEN.replace(b"org/m", b"fast") + b'data: {"ha\n\n' + STREAM_CUT


# -- packed answers


PACKED = (b"content-encoding", b"gzip")


def packed(*pieces: bytes) -> list[bytes]:
    """The pieces, each flushed, as an engine behind a compressing proxy sends events."""
    squeeze = zlib.compressobj(wbits=31)
    sent = [squeeze.compress(piece) + squeeze.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*sent, squeeze.flush()]


def test_a_packed_stream_for_a_client_that_did_not_ask_is_unpacked_event_by_event() -> None:
    way, seen = passage_of(head(SSE, PACKED, body_bytes=9), None, None, must_end=True), record()
    assert (way.unpacks, way.streams, way.body_bytes) == (True, True, None)
    pieces = (TOKEN, LAST, USAGE, DONE)
    assert [way.feed(piece, 1.0) for piece in packed(*pieces)] == [*pieces, b""]
    assert way.finish(2.0) == b""
    assert way.done
    assert not way.truncated
    assert way.note(seen) is False
    assert seen.completion_tokens == 5


def test_a_packed_answer_is_left_to_a_client_that_asked_for_it() -> None:
    way = passage_of(head(JSON, PACKED, body_bytes=9), None, b"gzip;q=0.5", must_end=True)
    assert (way.unpacks, way.body_bytes) == (False, 9)


def test_several_gzip_members_are_one_answer() -> None:
    way = passage_of(head(JSON, PACKED), None, None, must_end=True)
    assert way.feed(gzip.compress(b"one ") + gzip.compress(b"two"), 1.0) == b"one two"
    way.finish(2.0)
    assert not way.truncated


@pytest.mark.parametrize("sent", [packed(b"{}")[:1], [b"no gzip at all", b"still none"]], ids=["cut", "not gzip"])
def test_packing_that_breaks_off_is_a_truncated_answer(sent: list[bytes]) -> None:
    way = passage_of(head(JSON, PACKED), None, None, must_end=True)
    for piece in sent:
        way.feed(piece, 1.0)
    way.finish(2.0)
    assert way.truncated
    assert not way.done
    assert way.cut(upstream_error()) is None


@pytest.mark.parametrize("packed", [False, True])
def test_when_text_was_first_seen_is_known_on_the_way(packed: bool) -> None:
    coding = [(b"content-encoding", b"gzip")] if packed else []
    way = passage_of(head(SSE, *coding), None, None, must_end=True)
    assert way.first_token_s is None
    way.feed(gzip.compress(TOKEN) if packed else TOKEN, 2.0)
    assert way.first_token_s == 2.0
    assert passage_of(head(JSON), None, None, must_end=True).first_token_s is None
