"""Answers under the name that the client asked for: only the model changes, whatever the cuts of the stream."""

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.rename import LINE_MAX, SEARCHED_MAX, StreamRenamer, rename_answer


def event(message: Any) -> bytes:
    return b"data: " + json.dumps(message, separators=(",", ":")).encode() + b"\n\n"


def chunk(text: str, model: str = "org/real", **members: Any) -> bytes:
    return event({"id": "c-1", "model": model, "choices": [{"delta": {"content": text}}], **members})


def renamed(pieces: Iterable[bytes], alias: str = "fast") -> bytes:
    renamer = StreamRenamer(alias)
    return b"".join([*map(renamer.feed, pieces), renamer.flush()])


def cut(stream: bytes, size: int) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


# --- JSON answers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>model</html>",
        b"{",
        b"\xff",
        b"[]",
        b"null",
        b'[{"model":"m"}]',
        b'{"model":null}',
        b'{"model":5}',
        b'{"model":{"model":"m"}}',
        b'{"x":{"model":"m"}}',
        b'{"response":{"model":"m"}}',
        b'{"error":{"message":"The model `m` does not exist","model":"m"}}',
        b'{"model":"m"',
        b'{"model":"m"}x',
        b'{"model":"m","x":' + b"[" * 100_000,
        b"{" + b'"model":"m",' * 10_001 + b'"x":1}',
    ],
)
def test_an_answer_without_a_model_of_its_own_passes_as_it_is(body: bytes) -> None:
    assert rename_answer([body], "fast") == body


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"m"}', b'{"model":"fast"}'),
        (b' { "id":1.0,\t"model" : "m" ,"x":"\\/" }\n', b' { "id":1.0,\t"model" : "fast" ,"x":"\\/" }\n'),
        (b'{"choices":[{"model":"m"}],"model":"m"}', b'{"choices":[{"model":"m"}],"model":"fast"}'),
        (b'{"model":"m","text":"\\"model\\":\\"m\\""}', b'{"model":"fast","text":"\\"model\\":\\"m\\""}'),
        (b'{"model":"a","mod\\u0065l":"b"}', b'{"model":"a","mod\\u0065l":"fast"}'),
        (b'{"model":"m","x":NaN,"y":"\\ud83d"}', b'{"model":"fast","x":NaN,"y":"\\ud83d"}'),
    ],
)
def test_only_the_model_of_an_answer_changes(body: bytes, expected: bytes) -> None:
    assert rename_answer([body], "fast") == expected


# --- streams


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"data: [DONE]\n\n",
        b': "model":"m"\n\n',
        b'event: {"model":"m"}\n\n',
        b'data: {"model":"m"\n\n',
        b'data: {"choices":[{"model":"m"}],"x":{"model":"m"}}\n\n',
        b'data: {"response":"model","message":["model"]}\n\n',
        b'data: {"message":"the model","model":null}\n\n',
        b'data: "model":"m"\n\n',
        b"\xff\xfe\n\r\r\n",
        b'{"model":"m"}\n',
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_no_event_with_a_model_passes_as_it_is(stream: bytes, size: int) -> None:
    assert renamed(cut(stream, size)) == stream


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 7, 100, 10_000])
def test_b24_the_model_of_every_event_is_renamed_however_the_stream_is_cut(line_end: bytes, size: int) -> None:
    texts = ["The", " said", ' "model":"org/real"\n', "é", "model"]
    stream, expected = (
        b"".join([b": ping\n\n", *(chunk(text, model) for text in texts), b"data: [DONE]\n\n"]).replace(b"\n", line_end)
        for model in ("org/real", "fast")
    )
    assert renamed(cut(stream, size)) == expected


def test_the_model_inside_a_response_or_a_message_is_renamed() -> None:
    for holder in ("response", "message"):
        stream = event({"type": "x", holder: {"model": "m", "output": [{"model": "m"}]}})
        assert renamed([stream]) == stream.replace(b'{"model":"m","o', b'{"model":"fast","o')


def test_a_model_behind_the_text_is_renamed_too() -> None:
    stream = b"".join(event({"choices": [{"text": text}], "model": "m"}) for text in "abc")
    assert renamed([stream]) == stream.replace(b'"m"', b'"fast"')


def test_events_of_one_shape_keep_their_own_texts() -> None:
    stream = b"".join(chunk(f"word {number}") for number in range(20))
    assert renamed([stream]) == stream.replace(b"org/real", b"fast")


def test_an_event_of_another_shape_is_renamed_by_itself() -> None:
    stream = chunk("a") + chunk("b", usage={"model": "x"}) + chunk("c", model="other") + chunk("d", x=[]) + chunk("e")
    assert renamed([stream]) == stream.replace(b"org/real", b"fast").replace(b"other", b"fast")


def test_a_name_that_needs_escapes_is_escaped() -> None:
    assert renamed([chunk("x"), chunk("y")], 'a"\ud83d') == (chunk("x", 'a"\ud83d') + chunk("y", 'a"\ud83d'))


def test_b24_the_last_line_may_lack_its_end() -> None:
    assert renamed([chunk("x").rstrip()]) == chunk("x", "fast").rstrip()
    assert renamed(cut(chunk("x").rstrip(), 3)) == chunk("x", "fast").rstrip()


def test_b37_a_complete_event_is_never_held_back() -> None:
    renamer = StreamRenamer("fast")
    assert renamer.feed(chunk("x")) == chunk("x", "fast")
    assert renamer.feed(chunk("y")[:-1]) == chunk("y", "fast")[:-1]
    assert renamer.feed(b"\n: ping\n") == b"\n: ping\n"
    assert renamer.feed(b"data: {") == b""
    assert renamer.flush() == b"data: {"
    assert renamer.flush() == b""


def sized(size: int) -> bytes:
    """A line of so many bytes, its end not counted."""
    return chunk("x" * (size - len(chunk("")) + 2)).rstrip()


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("head", [0, 1, LINE_MAX - 1, LINE_MAX, LINE_MAX + 1])
def test_a_line_over_the_bound_passes_as_it_is_however_it_is_cut(line_end: bytes, head: int) -> None:
    for size, name in ((LINE_MAX, b"fast"), (LINE_MAX + 1, b"org/real")):
        line = sized(size)
        stream = (line + line_end) * 2 + chunk("y")
        expected = (line + line_end).replace(b"org/real", name) * 2 + chunk("y", "fast")
        assert len(line) == size
        assert renamed([stream[:head], stream[head : head + 3], stream[head + 3 :]]) == expected


def test_of_a_line_over_the_bound_nothing_is_held_back() -> None:
    renamer = StreamRenamer("fast")
    sent = b"".join(renamer.feed(b"x" * 100_000) for _ in range(20))
    assert len(sent) == 2_000_000
    assert renamer.feed(b"y\n" + chunk("z")) == b"y\n" + chunk("z", "fast")


parts = st.sampled_from(
    [
        chunk("x"), chunk("y"), chunk('"'), chunk("é"), chunk("z", model="b"), chunk("", model=""),
        chunk("x", usage=None), b": c\n", b"\n", b"\r", b"\r\n", b"data: ", b'{"model":"m"}', b"data: {",
        b'"model":"m"', b"\xff", b"data: [DONE]\n", chunk("z").replace(b"\n", b"\r\n"), chunk("x")[:-9],
        chunk("q").replace(b"\n", b"\r"), chunk("broken").replace(b"broken", b"a\\b\\q"), event({"model": None}),
        event({"message": {"model": "m"}}),
    ]
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(parts, max_size=12).map(b"".join), st.lists(st.integers(0, 2000), max_size=30))
def test_b24_any_stream_comes_out_the_same_under_any_cut(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    whole = renamed([stream])
    assert renamed(stream[start:end] for start, end in pairwise(edges)) == whole
    assert renamed(cut(stream, 1)) == whole


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes_without_a_model_pass_as_they_are(stream: bytes, size: int) -> None:
    assert renamed(cut(stream, size)) == stream
    assert rename_answer([stream], "fast") == stream


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("model"),
    lambda values: (
        st.lists(values, max_size=3) | st.dictionaries(st.sampled_from(["model", "a", "content"]), values, max_size=3)
    ),
    max_leaves=6,
)
messages = st.dictionaries(st.sampled_from(["model", "response", "message", "content", "a"]), values, max_size=5)


def with_alias(message: dict[str, Any], *holders: str) -> dict[str, Any]:
    """The message as the client is to read it."""
    result = dict(message)
    for holder in holders:
        if isinstance(result.get(holder), dict):
            result[holder] = with_alias(result[holder])
    return result | ({"model": "fast"} if isinstance(result.get("model"), str) else {})


@pytest.mark.slow
@given(st.lists(messages, max_size=4))
def test_every_message_reads_as_it_was_but_for_its_model(sent: list[dict[str, Any]]) -> None:
    lines = renamed(map(event, sent)).split(b"\n\n")[:-1]
    assert [json.loads(line[5:]) for line in lines] == [with_alias(message, "response", "message") for message in sent]
    for message in sent:
        assert json.loads(rename_answer([json.dumps(message).encode()], "fast")) == with_alias(message)


# --- large answers


DATA = b'"data":[%b]' % b",".join([b"0.25"] * (SEARCHED_MAX // 4))


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        (b'{"object":"list", "created" : 1,"ok":true,"model":', b"," + DATA + b',"x":{"model":"inner"}}'),
        (b"{" + DATA + b',"model":', b"}"),
        (b'{"x":{"model":"inner"},"model":', b"," + DATA + b"}"),
        (b'{"a\\"b":1,"model":', b"," + DATA + b"}"),
    ],
    ids=["in the beginning", "at the end", "behind an object", "behind an odd name"],
)
def test_the_model_of_a_large_answer_is_renamed_wherever_it_stands(before: bytes, behind: bytes) -> None:
    assert rename_answer([before + b'"org/real"' + behind], "fast") == before + b'"fast"' + behind


def test_the_model_of_a_large_answer_may_come_in_any_piece() -> None:
    whole = b'{"object":"list","model":"org/real",' + DATA + b"}"
    for cut in (5, 25, 30, 1000):
        assert rename_answer([whole[:cut], whole[cut:]], "fast") == whole.replace(b"org/real", b"fast")


def test_an_answer_in_utf_16_passes_as_it_came_whatever_its_bytes_look_like() -> None:
    look = b'"model":"org/real"'.decode("utf-16-le")
    body = json.dumps({"model": "m", "text": look}, ensure_ascii=False).encode("utf-16-le")
    assert b'"model":"org/real"' in body
    assert rename_answer([body], "fast") == body
