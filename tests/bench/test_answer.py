"""The reader of a streamed answer: counts tokens where the engine counts, and names what is no answer."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven_bench.answer import EVENT_BYTES_MAX, AnswerReader, MalformedAnswerError


def event(content=None, *, tokens=None, finish=None, choices=True, **more):
    """One chunk of a chat completion as vLLM writes it."""
    body = {"id": "x", "object": "chat.completion.chunk", "choices": []}
    if choices:
        delta = {} if content is None else {"content": content}
        body["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
    if tokens is not None:
        body["usage"] = {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}
    return b"data: " + orjson.dumps(body | more) + b"\n\n"


ROLE = b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def read(*pieces):
    """A reader fed with each piece one second after the other."""
    reader = AnswerReader()
    for second, piece in enumerate(pieces):
        reader.feed(piece, float(second))
    return reader


@pytest.mark.parametrize(
    "data",
    [
        b"data: {not json\n\n",
        b"data: [1]\n\n",
        b'data: "text"\n\n',
        b'data: {"choices": [3]}\n\n',
        b'data: {"choices": {"a": 1}}\n\n',
        b'data: {"choices": [{"delta": "text"}]}\n\n',
        b'data: {"usage": [1], "choices": []}\n\n',
        b'data: {"metrics": 3, "choices": []}\n\n',
        b'data: {"usage": {"completion_tokens": "many"}, "choices": []}\n\n',
    ],
)
def test_what_no_engine_sends_is_malformed(data):
    with pytest.raises(MalformedAnswerError):
        read(data)


def test_an_event_that_never_ends_is_malformed_before_it_fills_the_memory():
    reader = read(b"x" * EVENT_BYTES_MAX)
    with pytest.raises(MalformedAnswerError, match="more than"):
        reader.feed(b"x", 1.0)


def test_an_error_event_inside_the_stream_is_kept_with_its_first_message():
    reader = read(
        event("a"), b'data: {"error": {"message": "out of memory"}}\n\n', b'data: {"error": "again"}\n\n', DONE
    )
    assert reader.error == "out of memory"


def test_an_error_that_is_no_object_is_kept_as_text_of_bounded_length():
    assert len(read(b'data: {"error": "' + b"x" * 5000 + b'"}\n\n').error) == 200


def test_a_stream_without_its_end_mark_is_not_done():
    assert not read(event("a")).done


def test_the_opening_role_event_and_comments_carry_no_token():
    reader = read(b": keep-alive\n\n", ROLE, event("Hello"), DONE)
    assert reader.event_s == [2.0]
    assert reader.done


def test_with_counts_along_the_stream_each_event_shows_its_tokens():
    reader = read(ROLE, event("He", tokens=3), event("llo", tokens=5), event(tokens=5, choices=False), DONE)
    assert (reader.event_s, reader.event_tokens) == ([1.0, 2.0], [3, 5])
    assert (reader.prompt_tokens, reader.completion_tokens) == (12, 5)


def test_a_token_without_text_counts_where_the_engine_counts_along():
    assert read(event("", tokens=1), event("", tokens=2)).event_tokens == [1, 2]


def test_an_event_that_brings_no_further_token_is_no_token_event():
    reader = read(event("a", tokens=1), event("", tokens=1, finish="stop"))
    assert reader.event_tokens == [1]
    assert reader.finish_reason == "stop"


def test_without_counts_the_text_decides_and_the_total_comes_last():
    reader = read(event("a"), event(""), event("b", finish="length"), event(tokens=9, choices=False))
    assert (reader.event_s, reader.event_tokens, reader.completion_tokens) == ([0.0, 2.0], [0, 0], 9)
    assert reader.finish_reason == "length"


@pytest.mark.parametrize(
    "choice",
    [
        {"text": "a"},
        {"delta": {"content": "a"}},
        {"delta": {"reasoning": "a"}},
        {"delta": {"reasoning_content": "a"}},
        {"delta": {"tool_calls": [{"index": 0}]}},
    ],
)
def test_text_reasoning_and_tool_calls_are_all_tokens(choice):
    assert read(b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\n").event_s == [0.0]


def test_cached_tokens_and_the_engine_s_own_acceptance_length_are_kept():
    usage = {"prompt_tokens": 4, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 3}}
    metrics = {"speculative_decoding": {"mean_acceptance_length": 2.5}}
    reader = read(event(choices=False, usage=usage, metrics=metrics))
    assert (reader.cached_tokens, reader.acceptance_length) == (3, 2.5)


@pytest.mark.parametrize("metrics", [None, {}, {"speculative_decoding": None}])
def test_an_engine_without_own_metrics_leaves_the_acceptance_length_unknown(metrics):
    assert read(event("a", metrics=metrics)).acceptance_length is None


def test_several_events_in_one_read_count_as_one_read():
    reader = read(event("a") + event("b"), event("c"), b": nothing yet")
    assert (len(reader.event_s), reader.reads) == (3, 2)


def test_data_over_several_lines_is_joined():
    assert read(b'event: message\ndata: {"choices":\ndata: [{"text": "a"}]}\n\n').event_s == [0.0]


def test_an_event_without_data_is_skipped():
    assert read(b"event: ping\n\n", b"\n\n").event_s == []


STREAM = ROLE + event("He", tokens=2) + b": note\n\n" + event("llo", tokens=4, finish="stop") + DONE


@settings(max_examples=50)
@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=12), st.booleans())
def test_where_the_network_cuts_the_bytes_changes_nothing(cuts, crlf):
    stream = STREAM.replace(b"\n", b"\r\n") if crlf else STREAM
    edges = [0, *sorted(set(cuts)), len(stream)]
    reader = AnswerReader()
    for start, end in pairwise(edges):
        reader.feed(stream[start:end], 0.0)
    assert (reader.event_tokens, reader.done, reader.finish_reason) == ([2, 4], True, "stop")
