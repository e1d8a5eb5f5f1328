"""An event that tells something is never taken for mere text, whatever its dialect or its shape."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.answer import decode, ends, error_of, finish_reason_of, usage_of
from breakeven.glance import is_mere_text, lacks_telling_words, usage_member


def data(**message: Any) -> bytes:
    return json.dumps(message).encode()


def choice(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": reason}


TELLING = {
    "usage": data(choices=[], usage={"prompt_tokens": 1}),
    "usage beside text": data(choices=[choice(content="a")], usage={"prompt_tokens": 1}),
    "error": data(error={"message": "x"}),
    "error as text": data(error="Unauthorized"),
    "object error": data(object="error", message="x"),
    "finish reason": data(choices=[choice("stop")]),
    "second choice finishes": data(choices=[choice(content="a"), choice("length")]),
    "message_delta": data(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 3}),
    "message_stop": data(type="message_stop"),
    "message_start": data(type="message_start", message={"usage": {"input_tokens": 1}}),
    "response.completed": data(type="response.completed", response={"usage": {"input_tokens": 1}}),
    "an unknown type": data(type="response.novelty"),
    "not msgspec's JSON": b'{"choices":[{"finish_reason": "stop"}],"x":NaN}',
    "not msgspec's JSON with usage": b'{"x":NaN,"usage":{"prompt_tokens":1}}',
    "choices of another shape": b'{"choices":{"a":1},"usage":{"prompt_tokens":1}}',
}

MERE_TEXT = {
    "chat": data(choices=[choice(content="a")], usage=None),
    "completions": data(choices=[{"index": 0, "text": "a", "finish_reason": None}]),
    "content_block_delta": data(type="content_block_delta", delta={"type": "text_delta", "text": "a"}),
    "response text": data(type="response.output_text.delta", delta="a"),
    "the words inside text": data(choices=[choice(content='"usage" "error" "finish_reason": "stop"')]),
    "a number with leading zeros": b'{"choices":[{"delta":{"content":"a"},"finish_reason":null}],"at":007}',
    "no object": b"[1]",
    "nested beyond reason": b'{"a":' + b"[" * 100_000,
}


@pytest.mark.parametrize("payload", TELLING.values(), ids=TELLING.keys())
def test_what_tells_something_is_decoded_whole(payload: bytes) -> None:
    assert not is_mere_text(payload)


@pytest.mark.parametrize("payload", MERE_TEXT.values(), ids=MERE_TEXT.keys())
def test_what_carries_text_only_is_passed_over(payload: bytes) -> None:
    assert is_mere_text(payload)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
members = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(st.dictionaries(st.sampled_from(["finish_reason", "delta", "text"]), json_values))
        | json_values,
        "usage": st.none() | st.fixed_dictionaries({"prompt_tokens": st.integers(0, 9)}) | json_values,
        "error": json_values,
        "type": st.sampled_from(["message_stop", "content_block_delta", "response.completed", "error"]) | json_values,
        "object": st.sampled_from(["error", "chat.completion.chunk"]),
    },
)


@given(message=members)
def test_whatever_the_full_reading_finds_the_glance_did_not_pass_over(message: dict[str, Any]) -> None:
    payload = json.dumps(message).encode()
    mere_text = is_mere_text(payload)
    whole = decode(payload)
    assert whole is not None
    found = usage_of(whole) or error_of(whole) or finish_reason_of(whole) or ends(whole)
    assert not (found and mere_text)


@pytest.mark.parametrize(
    "payload", [TELLING["usage"], TELLING["error"], TELLING["finish reason"], TELLING["message_stop"]]
)
def test_a_telling_word_is_found_where_nothing_can_be_decoded(payload: bytes) -> None:
    assert not lacks_telling_words(payload + b",,,")


@pytest.mark.parametrize(
    ("document", "usage"),
    [
        (b'{"usage":{"prompt_tokens":1}}', {"prompt_tokens": 1}),
        (b'{"x":NaN,"usage":{"prompt_tokens":1}}', {"prompt_tokens": 1}),
        (b'{"usage":null}', None),
        (b'{"inner":{"usage":{"prompt_tokens":1}}}', None),
        (b"[1]", None),
        (b"no json", None),
    ],
)
def test_the_usage_of_a_document_is_its_own_member(document: bytes, usage: object) -> None:
    assert usage_member(document) == usage
