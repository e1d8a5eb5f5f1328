"""Answers watched on their way: what a stream tells is found whatever its cuts, and nothing breaks the observer."""

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven import event_form, sse
from breakeven.answer import Usage
from breakeven.sse import ANSWER_MAX, EVENT_MAX, FORMS_MAX, UNREADABLE_MAX, JsonObserver, StreamObserver

DONE = b"data: [DONE]\n\n"


def event(message: Any) -> bytes:
    return b"data: " + json.dumps(message, separators=(",", ":")).encode() + b"\n\n"


def chunk(delta: dict[str, Any], finish_reason: str | None = None, **members: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return event({"id": "c-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **members})


def text(content: str, **members: Any) -> bytes:
    return chunk({"content": content}, **members)


def usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


ROLE = chunk({"role": "assistant", "content": ""})
STOP = chunk({}, "stop")
USAGE = event({"id": "c-1", "choices": [], "usage": usage(7, 3)})
STREAM = b"".join([b": ping\n\n", ROLE, text("The"), text(" said"), text(' "x"\n'), STOP, USAGE, DONE])


def watched(pieces: Iterable[bytes], now_s: float = 1.0) -> StreamObserver:
    """An observer at the end of a stream whose pieces came one second apart."""
    observer = StreamObserver()
    for piece in pieces:
        observer.feed(piece, now_s)
        now_s += 1.0
    observer.finish(now_s)
    return observer


def findings(observer: StreamObserver) -> tuple[object, ...]:
    """All that does not depend on the time."""
    return (
        observer.first_token_s is not None,
        observer.usage,
        observer.error,
        observer.finish_reason,
        observer.done,
        observer.complete,
        observer.at_boundary,
        observer.event_end,
    )


# --- streams that break


def test_b39_a_stream_that_ends_without_saying_so_is_not_complete() -> None:
    assert not watched([]).complete
    assert not watched([ROLE, text("x")]).complete
    assert not watched([b": ping\n\n"]).complete


@pytest.mark.parametrize("last", [STOP, DONE, chunk({"content": "x"}, "length"), event({"error": {"message": "x"}})])
def test_b39_a_finish_reason_an_end_event_and_an_error_complete_a_stream(last: bytes) -> None:
    assert watched([ROLE, text("x"), last]).complete


@pytest.mark.parametrize(
    ("fed", "event_end"),
    [
        (b"", b""),
        (ROLE, b""),
        (ROLE + b"\n", b""),
        (ROLE.replace(b"\n", b"\r\n"), b""),
        (ROLE.replace(b"\n", b"\r"), b""),
        (ROLE + text("x")[:-1], b"\n"),
        (ROLE + b"data: a\r\n", b"\n"),
        (ROLE + b"data: a\r", b"\n\n"),
        (ROLE + text("x")[:30], b"\n\n"),
        (ROLE + b"d", b"\n\n"),
        (b"data: " + b"x" * (EVENT_MAX + 100), b"\n\n"),
        (b"data: " + b"x" * (EVENT_MAX + 100) + b"\n", b"\n"),
    ],
)
def test_b39_where_a_stream_breaks_off_is_known(fed: bytes, event_end: bytes) -> None:
    observer = StreamObserver()
    observer.feed(fed, 1.0)
    assert observer.event_end == event_end
    assert observer.at_boundary is (event_end == b"")
    own = event({"error": {"type": "own"}})
    observer.feed(event_end + own, 2.0)
    assert observer.error == "own"


def test_b40_an_error_inside_the_stream_is_seen_and_named() -> None:
    error = event({"error": {"message": "x", "type": "InternalServerError", "param": None, "code": 500}})
    for pieces in ([ROLE, error, DONE], [error, DONE], [ROLE, text("x"), text("y"), error]):
        observer = watched(pieces)
        assert (observer.error, observer.complete) == ("InternalServerError", True)


def test_b40_the_word_error_in_a_text_is_none() -> None:
    assert watched([text("error"), text('"error":{"a":1}'), text("x")]).error is None


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xfe",
        b"data: {",
        b"data: {}\n\n",
        b'data: {"choices":5}\n\n',
        b"data: null\n\n",
        b"data:\n\n",
        b"data\n\n",
        b"<html></html>\n\n",
        b"\0" * 100,
        b"retry: 5\n\n",
        b'data: "\xff"\n\n',
    ],
)
def test_b32_what_is_no_event_of_ours_tells_nothing(garbage: bytes) -> None:
    observer = watched([garbage, garbage])
    assert (observer.first_token_s, observer.usage, observer.error, observer.complete) == (None, None, None, False)


# --- the first token


@pytest.mark.parametrize(
    "silent",
    [
        b": ping\n\n",
        ROLE,
        chunk({"role": "assistant", "content": None}),
        chunk({"content": None, "tool_calls": []}),
        USAGE,
        event({"choices": []}),
        event({"type": "message_start", "message": {"content": []}}),
    ],
)
def test_b78_the_first_token_is_not_a_role_a_comment_or_a_usage(silent: bytes) -> None:
    assert watched([silent]).first_token_s is None
    assert watched([silent, silent, text("x"), text("y")]).first_token_s == 3.0


@pytest.mark.parametrize(
    "first",
    [
        text("x"),
        chunk({"reasoning": "x"}),
        chunk({"reasoning_content": "x"}),
        chunk({"tool_calls": [{"index": 0, "function": {"name": "now"}}]}),
        chunk({"content": "all of it"}, "stop"),
        text("x", usage=usage(7, 1)),
        event({"choices": [{"text": "x"}]}),
        event({"type": "response.output_text.delta", "delta": "x"}),
        b"event: content_block_delta\n" + event({"type": "content_block_delta", "delta": {"text": "x"}}),
    ],
)
def test_b78_the_first_token_is_any_generated_text(first: bytes) -> None:
    assert watched([ROLE, first, text("y")]).first_token_s == 2.0


def test_the_first_token_comes_when_its_event_is_complete() -> None:
    assert watched([ROLE, text("x")[:-1], b"\n", text("y")]).first_token_s == 3.0


# --- usage and the end


def test_b26_usage_comes_on_a_chunk_without_choices_together_with_the_end() -> None:
    observer = watched([ROLE, text("x"), STOP + USAGE + DONE])
    assert observer.usage == Usage(7, 3)
    assert (observer.done, observer.finish_reason) == (True, "stop")


def test_b26_of_continuous_usage_the_last_counts() -> None:
    pieces = [text("x", usage=usage(7, number)) for number in range(1, 6)]
    assert watched([ROLE, *pieces, DONE]).usage == Usage(7, 5)


def test_b26_null_usage_is_none() -> None:
    assert watched([text("x", usage=None), text("y", usage=None), DONE]).usage is None
    assert watched([text("x", usage=usage(7, 1)), text("y", usage=None), DONE]).usage == Usage(7, 1)


def test_usage_after_many_events_of_one_shape_is_seen() -> None:
    assert watched([*[text(f"word {number}") for number in range(50)], USAGE]).usage == Usage(7, 3)


def test_messages_tell_their_usage_in_two_halves() -> None:
    observer = watched(
        [
            event({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 0}}}),
            event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}),
            event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "y"}}),
            event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}),
            b"event: message_stop\n" + event({"type": "message_stop"}),
        ]
    )
    assert observer.usage == Usage(7, 3)
    assert (observer.first_token_s, observer.finish_reason, observer.done) == (2.0, "end_turn", True)


def test_responses_tell_everything_in_their_last_event() -> None:
    response = {"status": "completed", "error": None, "usage": {"input_tokens": 7, "output_tokens": 3}}
    observer = watched(
        [
            event({"type": "response.created", "response": {"status": "in_progress", "error": None, "usage": None}}),
            event({"type": "response.output_text.delta", "sequence_number": 4, "delta": "x"}),
            event({"type": "response.output_text.delta", "sequence_number": 5, "delta": "y"}),
            event({"type": "response.completed", "response": response}),
        ]
    )
    assert observer.usage == Usage(7, 3)
    assert (observer.first_token_s, observer.finish_reason, observer.done) == (2.0, "completed", True)
    assert observer.error is None


def test_done_inside_a_text_is_not_the_end() -> None:
    assert not watched([text("x"), text("data: [DONE]"), text("[DONE]\n\n")]).done


def test_b11_a_lone_surrogate_in_a_text_is_a_text() -> None:
    stream = b'data: {"choices":[{"delta":{"content":"\\ud83d"}}],"usage":{"completion_tokens":1}}\n\n'
    observer = watched([stream])
    assert (observer.first_token_s, observer.usage) == (1.0, Usage(None, 1))


def test_data_over_several_lines_is_one_message() -> None:
    assert watched([b'event: x\ndata: {"choices":[{\ndata: "text":"x"}]}\nid: 5\n\n']).first_token_s == 1.0


# --- cuts and bounds


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100, 10_000])
def test_b24_a_stream_tells_the_same_however_it_is_cut(line_end: bytes, size: int) -> None:
    stream = STREAM.replace(b"\n\n", line_end * 2)
    observer = watched(stream[at : at + size] for at in range(0, len(stream), size))
    assert findings(observer) == (True, Usage(7, 3), None, "stop", True, True, True, b"")


def test_b24_cuts_in_the_middle_of_every_blank_line_change_nothing() -> None:
    pieces = STREAM.replace(b"\n\n", b"\n|\n").split(b"|")
    assert findings(watched(pieces)) == findings(watched([STREAM]))


@pytest.mark.parametrize("last", [DONE.rstrip(), DONE[:-1], b"data:[DONE]", STOP.rstrip(), b"data: [DONE]\r\n"])
def test_b24_the_last_event_may_lack_its_line_ends(last: bytes) -> None:
    assert watched([ROLE + text("x"), last]).complete


def test_b24_no_space_is_needed_after_data() -> None:
    observer = watched([STREAM.replace(b"data: ", b"data:")])
    assert findings(observer) == findings(watched([STREAM]))


def test_b24_an_event_of_300_kb_is_read_in_bytes_and_at_once() -> None:
    large = text("x" * 300_000, usage=usage(7, 9))
    assert watched([large]).usage == Usage(7, 9)
    assert watched(large[at : at + 1000] for at in range(0, len(large), 1000)).usage == Usage(7, 9)


def sized(size: int) -> bytes:
    """An event of exactly so many bytes, its blank line not counted, that carries usage."""
    return text("x" * (size - len(text("", usage=usage(7, 9))) + 2), usage=usage(7, 9))


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [EVENT_MAX, 7, EVENT_MAX - 1, EVENT_MAX // 3])
@pytest.mark.parametrize(("over", "seen"), [(0, Usage(7, 9)), (1, None)])
def test_an_event_over_the_bound_is_not_looked_at_however_it_is_cut(
    line_end: bytes, size: int, over: int, seen: Usage | None
) -> None:
    large = sized(EVENT_MAX + over).replace(b"\n", line_end)
    assert len(large) == EVENT_MAX + over + 2 * len(line_end)
    head = len(large) - size % len(large)
    for pieces in ([large], [large[:head], large[head:]], [ROLE + large[:-2], large[-2:-1], large[-1:]]):
        observer = watched(pieces)
        assert observer.usage == seen
        assert observer.at_boundary
        # Unknown is not truncated: what was not looked at may have been the end.
        assert observer.complete is bool(over)


def test_after_an_event_over_the_bound_the_stream_is_watched_again() -> None:
    large = sized(EVENT_MAX + 1000)
    pieces = [large[at : at + 60_000] for at in range(0, len(large), 60_000)]
    for line_end in (b"\n", b"\r\n"):
        observer = watched(piece.replace(b"\n", line_end) for piece in [*pieces, text("x"), STOP, USAGE, DONE])
        assert (observer.usage, observer.finish_reason, observer.done) == (Usage(7, 3), "stop", True)


def test_of_an_event_over_the_bound_next_to_nothing_is_kept() -> None:
    observer = StreamObserver()
    for _ in range(40):
        observer.feed(b"x" * 100_000, 1.0)
        assert len(observer._pending) <= EVENT_MAX + 4
    assert len(observer._pending) == 1
    observer.finish(2.0)
    assert observer.complete


parts = st.sampled_from(
    [
        ROLE, STOP, USAGE, DONE, text("x"), text("y"), text('"'), text("é"), text("[DONE]"),
        text("x", usage=usage(1, 2)), text("y", usage=usage(1, 3)), chunk({"reasoning": "r"}),
        event({"error": {"type": "E"}}), event({"type": "message_stop"}), b'{"choices":[{"text":"x"}]}',
        b": c\n\n", b"\n", b"\r", b"\r\n", b"data: ", b"data", b"data: {\n", b'data: "a":1}\n', b"\xff", b"event: x\n",
        text("z").replace(b"\n", b"\r\n"), text("q").replace(b"\n", b"\r"), text("x")[:-40],
        text("broken").replace(b"broken", b"bro\\ken"),
    ]
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(parts, max_size=12).map(b"".join), st.lists(st.integers(0, 2000), max_size=30))
def test_b24_any_stream_tells_the_same_under_any_cut(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    whole = findings(watched([stream]))
    assert findings(watched(stream[start:end] for start, end in pairwise(edges))) == whole
    assert findings(watched(stream[at : at + 1] for at in range(len(stream)))) == whole


@pytest.mark.slow
@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_are_watched(stream: bytes, size: int) -> None:
    assert watched(stream[at : at + size] for at in range(0, len(stream), size)).usage is None


def stamped(content: str, number: int) -> bytes:
    """An event of an engine that counts behind the text, and writes numbers that are no JSON."""
    return text(content).replace(b"}]}\n", b'}],"at":%05d}\n' % number)


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            parts,
            st.builds(stamped, st.sampled_from(["a", "b", '"', "\\", "\n", "usage", "é", ""]), st.integers(0, 99999)),
            st.builds(text, st.text(max_size=3)),
            st.builds(text, st.text(max_size=3), n=st.integers(0, 20), error=st.sampled_from([None, 0, 7, ""])),
        ),
        max_size=20,
    )
)
def test_passing_over_events_by_their_form_changes_nothing_that_is_told(pieces: list[bytes]) -> None:
    fed = watched(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sse, "FORMS_MAX", 0)
        unaided = watched(pieces)
    assert findings(fed) == findings(unaided)
    assert fed.first_token_s == unaided.first_token_s


def test_an_event_whose_text_is_a_telling_word_is_read_also_where_those_before_it_could_not_be() -> None:
    pieces = [stamped("a", number) for number in range(UNREADABLE_MAX + 2)]
    assert watched(pieces).first_token_s is None
    assert watched([*pieces, stamped("usage", 10000)]).first_token_s is not None


def unjudged(observer: StreamObserver, monkeypatch: pytest.MonkeyPatch) -> StreamObserver:
    """From now on whatever has to be judged fails the test."""
    monkeypatch.setattr(observer, "_may_pass_over", None)
    return observer


@pytest.mark.parametrize(
    "pieces",
    [
        [text("c")],
        [text("d") + text("e")],
        [text("d") + text("e")[:-9], text("e")[-9:]],
        [text("d"), text("e\n"), text("e")],
    ],
)
def test_an_event_of_an_earlier_form_is_not_judged(pieces: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    observer = unjudged(watched([text("a"), text("b")]), monkeypatch)
    for piece in pieces:
        observer.feed(piece, 3.0)
    assert observer.at_boundary


def test_an_event_without_text_does_not_push_out_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    observer = unjudged(watched([text("a"), text("b"), chunk({}), text("c"), chunk({})]), monkeypatch)
    observer.feed(text("d"), 3.0)
    assert observer.at_boundary


def test_no_more_forms_are_learned_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    learned = []
    monkeypatch.setattr(sse, "form_of", lambda event: learned.append(event) or event_form.form_of(event))
    observer = watched(text("a", id=f"c-{chr(97 + n)}") for n in range(FORMS_MAX + 5))
    assert len(learned) == FORMS_MAX
    unjudged(observer, monkeypatch).feed(text("b", id=f"c-{chr(97 + FORMS_MAX)}"), 3.0)


def test_an_event_that_was_only_searched_for_words_gives_no_form_to_those_that_are_read() -> None:
    spaced = text("a").replace(b'"finish_reason":null', b'"finish_reason" : "stop"')
    observer = watched([text("x"), spaced.replace(b'"a"', b'"\\x"'), spaced])
    assert observer.finish_reason == "stop"


def test_what_was_learned_before_the_first_token_is_not_believed_after_it() -> None:
    odd = [text("a").replace(b'"finish_reason":null', b'"finish_reason" : "stop"')] * 2
    observer = watched([b"data: ping\n\n"] * (UNREADABLE_MAX + 1) + odd + [text("b", usage=usage(1, 2)), odd[0]])
    assert (observer.first_token_s is None, observer.finish_reason) == (False, "stop")


def test_an_event_of_a_known_form_over_the_bound_is_overlooked_however_it_is_cut() -> None:
    large = text("x" * EVENT_MAX)
    assert watched([text("a"), text("b"), large]).complete
    assert watched([text("a"), text("b"), large[:999], large[999:]]).complete


# --- answers that are no streams


def answer(*pieces: bytes) -> JsonObserver:
    observer = JsonObserver()
    for piece in pieces:
        observer.feed(piece, 1.0)
    observer.finish(2.0)
    return observer


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b"<html>", b"[" * 100_000, b'{"usage":null}', b"{}"]
)
def test_an_answer_without_usage_leaves_it_unknown(body: bytes) -> None:
    assert answer(body).usage is None


def test_the_usage_of_an_answer_is_read_whatever_its_cuts() -> None:
    body = json.dumps({"choices": [{"text": "x"}], "usage": usage(7, 3)}).encode()
    assert answer(body).usage == Usage(7, 3)
    assert answer(*(body[at : at + 1] for at in range(len(body)))).usage == Usage(7, 3)


def test_an_answer_over_the_bound_is_not_kept() -> None:
    observer = JsonObserver()
    for _ in range(3):
        observer.feed(b" " * (ANSWER_MAX // 2), 1.0)
    assert observer._parts == []
    observer.feed(json.dumps({"usage": usage(7, 3)}).encode(), 1.0)
    observer.finish(2.0)
    assert observer.usage is None


def test_an_answer_of_exactly_the_bound_is_read() -> None:
    body = json.dumps({"usage": usage(7, 3)}).encode()
    assert answer(body + b" " * (ANSWER_MAX - len(body))).usage == Usage(7, 3)


def test_an_answer_is_complete_by_its_framing_and_has_no_first_token() -> None:
    observer = answer(b'{"error":{"type":"x"}}')
    assert (observer.complete, observer.first_token_s, observer.error) == (True, None, None)


def test_an_engine_that_writes_no_json_is_still_heard_when_it_tells_something() -> None:
    broken = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}],"at":007}\n\n'
    observer = watched([broken, broken, USAGE, DONE])
    assert observer.first_token_s is None
    assert (observer.usage, observer.done) == (Usage(7, 3), True)


def test_a_ping_that_is_no_json_does_not_hide_the_first_token() -> None:
    observer = StreamObserver()
    observer.feed(b"data: ping\n\n", 1.0)
    observer.feed(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n', 2.0)
    assert observer.first_token_s == 2.0


def test_an_engine_that_writes_no_json_is_read_by_its_telling_words_in_the_end() -> None:
    observer = StreamObserver()
    for _ in range(UNREADABLE_MAX + 2):
        observer.feed(b"data: no json\n\n", 1.0)
    observer.feed(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":null}]}\n\n', 2.0)
    assert (observer.first_token_s, observer.finish_reason) == (None, None)
    observer.feed(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n', 3.0)
    assert observer.finish_reason == "stop"
