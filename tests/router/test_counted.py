"""Events are counted on their way, and nothing of an answer changes by that."""

import gzip

from breakeven.counted import END_KEPT_BYTES, CountedPassage
from breakeven.errors import upstream_error
from breakeven.lessons import Lesson
from breakeven.passage import passage_of
from breakeven.record import RequestRecord
from tests.router.test_passage import DONE, JSON, LAST, SSE, TOKEN, USAGE, event, head, record

ROLE = event(choices=[{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}])


def counted(*kind: tuple[bytes, bytes]) -> tuple[CountedPassage, Lesson]:
    lesson = Lesson("t0/short/free", 100, 1)
    return CountedPassage(passage_of(head(*kind), None, None, must_end=True), lesson), lesson


def test_a_stream_goes_on_as_the_same_object_and_its_steps_are_counted_from_the_first_text_on() -> None:
    way, lesson = counted(SSE)
    for moment, piece in enumerate([ROLE, TOKEN, TOKEN + TOKEN, LAST, USAGE, DONE]):
        assert way.feed(piece, float(moment)) is piece
    assert (lesson.first_event_s, lesson.last_event_s, lesson.events) == (1.0, 4.0, 5)
    assert (way.streams, way.unpacks, way.body_bytes, way.truncated, way.done) == (True, False, None, False, True)


def test_the_end_mark_alone_is_no_step_and_moves_no_time() -> None:
    way, lesson = counted(SSE)
    way.feed(TOKEN, 1.0)
    way.feed(DONE, 9.0)
    assert (lesson.last_event_s, lesson.events) == (1.0, 1)


def test_pieces_of_an_event_count_when_it_is_whole() -> None:
    way, lesson = counted(SSE)
    way.feed(TOKEN[:10], 1.0)
    assert lesson.first_event_s is None
    way.feed(TOKEN[10:], 2.0)
    assert (lesson.first_event_s, lesson.events) == (2.0, 1)


def test_of_an_answer_only_the_end_is_kept() -> None:
    way, lesson = counted(JSON)
    way.feed(b'{"a":"' + b"x" * 2 * END_KEPT_BYTES, 1.0)
    way.feed(b'"}', 2.0)
    assert (way.finish(3.0), way.first_token_s) == (b"", None)
    assert lesson.end == (b"x" * END_KEPT_BYTES, b'"}')


def test_what_is_noted_and_what_is_said_of_a_cut_is_that_of_the_passage_within() -> None:
    way, _ = counted(SSE)
    way.feed(TOKEN, 1.0)
    kept = RequestRecord("id", "chat.completions", 0.0)
    assert not way.note(kept)
    assert kept.first_token_s == 1.0 == way.first_token_s
    assert way.cut(upstream_error()) == upstream_error().event()


def test_a_packed_stream_that_is_unpacked_is_not_counted_and_goes_on() -> None:
    way, lesson = counted(SSE, (b"content-encoding", b"gzip"))
    assert way.unpacks
    assert way.feed(gzip.compress(TOKEN), 1.0) == TOKEN
    assert way.first_token_s == 1.0
    assert not way.note(record())
    assert lesson.events == 0
