"""What a message of an engine tells, in any dialect, and that no message can break the reader."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.answer import WORD_MAX, Told, Usage, decode, ends, error_of, finish_reason_of, has_text, told, usage_of


def chunk(delta: Any, **members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}], **members}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[DONE]",
        b"[]",
        b'"x"',
        b"null",
        b"5",
        b"{",
        b"\xff",
        b'{"a":1}x',
        b"[" * 100_000,
        b'{"a":NaN,"b":' + b"[" * 9999,
    ],
)
def test_what_is_no_json_object_is_no_message(payload: bytes) -> None:
    assert decode(payload) is None


@pytest.mark.parametrize(
    ("payload", "message"),
    [(b' {"a":1} ', {"a": 1}), (b'{"a":"\\ud83d"}', {"a": "\ud83d"}), (b'{"a":1e400}', {"a": float("inf")})],
)
def test_what_clients_read_is_read(payload: bytes, message: dict[str, Any]) -> None:
    assert decode(payload) == message


FRAGMENTS = (
    b'{"a":', b'"b":', b"1", b"01", b"1e400", b"-1E+999", b"9" * 5000, b"1" * 400 + b".5", b"NaN", b"-Infinity",
    b'"\\ud83d"', b'"\\uDE00"', b'"\\u00e9"', b'"\xed\xa0\x80"', b'"\xff"', b'"\xc3\xa9"', b'"\x01"', b'"\\x"',
    b"null", b"[", b"]", b"{", b"}", b",", b" ", b"x", b"\xef\xbb\xbf", b"\x00",
)  # fmt: skip


def read_by_either(payload: bytes) -> Any:
    for read in (msgspec.json.decode, json.loads):
        try:
            message = read(payload)
        except (ValueError, RecursionError):
            continue
        return message if isinstance(message, dict) else None
    return None


def test_strange_documents_are_read_as_the_standard_library_would() -> None:
    for text in ('{"a":1}', '{"a":"\ud83d"}', '{"a":NaN}'):
        for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"):
            payload = text.encode(encoding, "surrogatepass")
            assert repr(decode(payload)) == repr(read_by_either(payload)) != "None"


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(b"".join))
def test_no_document_is_given_up_that_either_parser_reads(payload: bytes) -> None:
    for document in (payload, b'{"a":' + payload + b"}", payload + b"}"):
        assert repr(decode(document)) == repr(read_by_either(document))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"choices": []},
        {"choices": [], "usage": {"completion_tokens": 5}},
        {"choices": None},
        {"choices": [None, 5]},
        {"choices": {"text": "x"}},
        chunk({"role": "assistant", "content": ""}),
        chunk({"role": "assistant", "content": None}),
        chunk({"content": None, "tool_calls": []}),
        chunk({}),
        chunk(None),
        chunk("x"),
        {"choices": [{"text": ""}]},
        {"type": "message_start", "message": {"content": []}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": ""}},
        {"type": "content_block_delta", "delta": "x"},
        {"type": "ping"},
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "delta": ""},
        {"type": "response.output_text.done", "text": "x"},
        {"type": "other.delta", "delta": "x"},
        {"type": 5, "delta": "x"},
    ],
)
def test_b78_role_empty_and_usage_chunks_carry_no_text(message: dict[str, Any]) -> None:
    assert not has_text(message)


@pytest.mark.parametrize(
    "message",
    [
        chunk({"content": "x"}),
        chunk({"role": "assistant", "content": "x"}),
        chunk({"content": " "}),
        chunk({"reasoning": "x"}),
        chunk({"reasoning_content": "x", "content": None}),
        chunk({"tool_calls": [{"index": 0, "function": {"name": "now", "arguments": ""}}]}),
        chunk({"refusal": "no"}),
        {"choices": [{"text": "x"}]},
        {"choices": [{"delta": {}}, {"delta": {"content": "x"}}]},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "x"}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}},
        {"type": "response.output_text.delta", "delta": "x"},
        {"type": "response.reasoning_text.delta", "delta": "x"},
        {"type": "response.function_call_arguments.delta", "delta": "{"},
    ],
)
def test_b78_content_reasoning_and_tool_calls_are_text(message: dict[str, Any]) -> None:
    assert has_text(message)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"usage": None},
        {"usage": 5},
        {"usage": []},
        {"response": None, "message": "x"},
        {"response": {"usage": None}},
    ],
)
def test_a_usage_that_is_null_is_none(message: dict[str, Any]) -> None:
    assert usage_of(message) is None


@pytest.mark.parametrize(
    ("message", "usage"),
    [
        ({"usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}}, Usage(3, 5)),
        ({"usage": {"prompt_tokens": 3, "total_tokens": 3}}, Usage(3, None)),
        ({"usage": {"completion_tokens": 0}}, Usage(None, 0)),
        ({"usage": {}}, Usage(None, None)),
        ({"usage": {"prompt_tokens": "3", "completion_tokens": -1}}, Usage(None, None)),
        ({"usage": {"prompt_tokens": 10**400, "completion_tokens": 10**12}}, Usage(None, 10**12)),
        ({"usage": {"prompt_tokens": True, "completion_tokens": 5.0}}, Usage(None, None)),
        ({"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}}, Usage(3, 1)),
        ({"type": "message_delta", "usage": {"output_tokens": 5}}, Usage(None, 5)),
        ({"type": "response.completed", "response": {"usage": {"input_tokens": 3, "output_tokens": 5}}}, Usage(3, 5)),
        ({"usage": None, "response": {"usage": {"input_tokens": 3}}}, Usage(3, None)),
    ],
)
def test_b26_usage_is_read_in_every_dialect_and_what_it_leaves_open_is_unknown(
    message: dict[str, Any], usage: Usage
) -> None:
    assert usage_of(message) == usage


def test_later_figures_replace_earlier_ones_and_leave_the_rest() -> None:
    assert Usage(3, 1).updated(Usage(None, 5)) == Usage(3, 5)
    assert Usage(3, 1).updated(Usage(4, None)) == Usage(4, 1)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({}, None),
        (chunk({"content": "x"}), None),
        ({"choices": [{"finish_reason": 5}]}, None),
        ({"choices": [{"finish_reason": "stop"}]}, "stop"),
        ({"choices": [{"finish_reason": None}, {"finish_reason": "length"}]}, "length"),
        ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, "end_turn"),
        ({"type": "message_delta", "delta": {"stop_reason": None}}, None),
        ({"type": "response.incomplete", "response": {"status": "incomplete"}}, "incomplete"),
        ({"type": "response.completed", "response": {}}, None),
        ({"type": "response.in_progress", "response": {"status": "in_progress"}}, None),
    ],
)
def test_why_generation_stopped_is_read_in_every_dialect(message: dict[str, Any], reason: str | None) -> None:
    assert finish_reason_of(message) == reason


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ({}, None),
        ({"error": None}, None),
        ({"error": {}}, None),
        ({"response": {"error": None}}, None),
        ({"error": {"message": "x", "type": "InternalServerError", "code": 500}}, "InternalServerError"),
        ({"error": {"message": "x", "type": None, "code": "overloaded"}}, "overloaded"),
        ({"error": {"message": "secret prompt"}}, "error"),
        ({"error": "Unauthorized"}, "error"),
        ({"error": {"type": "x" * 1000}}, "x" * WORD_MAX),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"type": "error", "code": "server_error", "message": "x"}, "server_error"),
        ({"object": "error", "message": "x", "type": "BadRequestError", "code": 400}, "error"),
        ({"type": "response.failed", "response": {"error": {"code": "server_error"}}}, "server_error"),
    ],
)
def test_b40_an_error_is_named_by_the_engines_word_and_never_by_its_text(
    message: dict[str, Any], word: str | None
) -> None:
    assert error_of(message) == word


@pytest.mark.parametrize("kind", ["message_stop", "response.completed", "response.incomplete", "response.failed"])
def test_each_dialect_has_its_last_event(kind: str) -> None:
    assert ends({"type": kind})
    assert not ends({"type": kind + "."})


@pytest.mark.parametrize("kind", [None, 5, [], "message_delta", "response.output_text.done"])
def test_other_events_are_not_the_last(kind: object) -> None:
    assert not ends({"type": kind})


names = st.sampled_from(
    ["choices", "delta", "text", "content", "usage", "prompt_tokens", "error", "type", "code", "response", "message",
     "object", "finish_reason", "stop_reason", "status"]
)  # fmt: skip
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["error", "response.x.delta"]),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(names, values, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(names, anything, max_size=4))
def test_no_message_breaks_the_reader(message: dict[str, Any]) -> None:
    assert isinstance(has_text(message), bool)
    assert isinstance(ends(message), bool)
    assert isinstance(usage_of(message), Usage | None)
    assert isinstance(error_of(message), str | None)
    assert isinstance(finish_reason_of(message), str | None)


def test_a_chunk_tells_the_text_and_the_end_of_its_choices_and_its_usage() -> None:
    choices = [{"delta": {"content": ""}}, {"text": "x", "finish_reason": "stop"}, {"finish_reason": "length"}, "odd"]
    assert told({"choices": choices, "usage": {"prompt_tokens": 1}}) == Told(
        text=True, ends=False, usage=Usage(1), error=None, finish_reason="stop"
    )
    assert told({"choices": [{"delta": {"role": "assistant", "content": ""}}]}) == Told(
        text=False, ends=False, usage=None, error=None, finish_reason=None
    )


@pytest.mark.slow
@given(st.dictionaries(names, anything, max_size=4))
def test_what_a_message_tells_is_what_its_parts_tell(message: dict[str, Any]) -> None:
    assert told(message) == Told(
        text=has_text(message),
        ends=ends(message),
        usage=usage_of(message),
        error=error_of(message),
        finish_reason=finish_reason_of(message),
    )
