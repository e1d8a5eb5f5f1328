"""Bodies: how vLLM's front reads them, and what it answers to those that it cannot read."""

import json

import pytest

from breakeven_bench.engine.errors import EngineError
from breakeven_bench.engine.protocol import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
    check_media_type,
    parse_json,
    parse_request,
)

HI = [{"role": "user", "content": "hi"}]


def chat(**fields):
    return parse_request(ChatRequest, json.dumps({"messages": HI, **fields}).encode())


def refused(kind, body):
    with pytest.raises(EngineError) as caught:
        parse_request(kind, body if isinstance(body, bytes) else json.dumps(body).encode())
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize("body", [b"{", b'{"a":1,}', b"nope", b'{"a":1} x'])
def test_a_body_that_is_no_json_is_told_where_it_breaks(body):
    error = refused(ChatRequest, body)
    assert error.type == "Bad Request"
    assert error.message.startswith("1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.")
    assert error.param.startswith("body.")


def test_an_empty_body_is_a_missing_field():
    error = refused(ChatRequest, b"")
    assert "Field required" in error.message
    assert error.param == "body"


@pytest.mark.parametrize(
    "body",
    [b"\xff\xfe\x00", b'{"a":"\xe9"}', b'{"a":' + b"1" * 5000 + b"}", b"[" * 100_000 + b"]" * 100_000],
    ids=["not text", "latin-1", "5000 digits", "deeply nested"],
)
def test_a_body_that_pythons_parser_cannot_hold_is_an_error_of_the_client(body):
    error = refused(ChatRequest, body)
    assert error.message == "There was an error parsing the body"


@pytest.mark.parametrize("body", [[], "x", None, 5])
def test_a_body_that_is_no_object_is_refused(body):
    assert "model_attributes_type" in refused(ChatRequest, body).message


def test_missing_messages_are_named():
    error = refused(ChatRequest, {"model": "m"})
    assert error.param == "body.messages"
    assert "'loc': 'body.messages', 'msg': 'Field required'" in error.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", "hot"),
        ("temperature", "1,5"),
        ("temperature", [1.5]),
        ("temperature", {"v": 1}),
        ("stream", 2),
        ("stream", "maybe"),
        ("seed", 2**64),
        ("stream_interval", 0),
        ("n", "many"),
        ("model", 5),
        ("max_tokens", 1.5),
        ("logit_bias", {"5": "much"}),
        ("messages", "hi"),
        ("messages", ["hi"]),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_and_its_field_named(field, value):
    error = refused(ChatRequest, {"messages": HI, field: value})
    assert error.type == "Bad Request"
    assert error.param.startswith(f"body.{field}")


def test_an_error_never_grows_with_the_request():
    many = refused(ChatRequest, {"messages": ["x" * 5000] * 500})
    assert many.message.startswith("500 validation errors:")
    assert many.message.endswith("...and 490 more errors")
    assert len(many.message) < 8000
    assert "<list of 300 items>" in refused(ChatRequest, {"messages": HI, "temperature": [1] * 300}).message


def test_stream_options_without_stream_are_refused():
    error = refused(ChatRequest, {"messages": HI, "stream_options": {"include_usage": True}})
    assert error.message == "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
    assert error.param == "stream_options"


def test_an_empty_list_of_tools_is_refused_and_no_list_is_not():
    assert refused(ChatRequest, {"messages": HI, "tools": []}).param == "tools"
    assert chat(tools=None).tools is None


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "now"}}])
def test_a_choice_among_tools_needs_tools(choice):
    assert refused(ChatRequest, {"messages": HI, "tool_choice": choice}).param == "tool_choice"
    assert chat(tool_choice=choice, tools=[{"type": "function", "function": {"name": "now"}}]).tools


@pytest.mark.parametrize("choice", [None, "none"])
def test_no_choice_needs_none(choice):
    assert chat(tool_choice=choice).tools is None


@pytest.mark.parametrize("fields", [{}, {"prompt": None}, {"prompt": ""}])
def test_a_completion_needs_a_prompt(fields):
    assert refused(CompletionRequest, fields).param == "prompt"


@pytest.mark.parametrize(
    ("given", "streams"), [("true", True), ("yes", True), ("1", True), (1, True), (0, False), ("off", False)]
)
def test_stream_is_read_as_leniently_as_pydantic_reads_it(given, streams):
    assert chat(stream=given).stream is streams


def test_of_two_equal_keys_the_last_one_counts_also_when_escaped():
    body = b'{"messages":[],"temperature":0.2,"temper\\u0061ture":1.5}'
    assert parse_request(ChatRequest, body).temperature == 1.5


@pytest.mark.parametrize("body", [b'{"temperature":NaN,"messages":[]}', b'{"temperature":1e400,"messages":[]}'])
def test_numbers_that_json_does_not_have_pass_the_parser(body):
    temperature = parse_request(ChatRequest, body).temperature
    assert temperature != temperature or temperature == float("inf")


def test_a_byte_order_mark_and_utf16_are_read():
    document = {"messages": HI}
    assert parse_json(json.dumps(document).encode("utf-16")) == document
    assert parse_json(b"\xef\xbb\xbf" + json.dumps(document).encode()) == document


def test_the_name_of_an_unknown_field_must_be_text():
    with pytest.raises(EngineError, match="unable to parse raw data as a unicode string") as caught:
        parse_request(ChatRequest, rb'{"messages":[],"\ud83d":1}')
    assert (caught.value.status, caught.value.type) == (400, "Bad Request")


def test_unknown_fields_are_ignored():
    assert chat(chat_template_kwargs={"x": 1}, x_future_field=[1, None], guided_json={}).messages == HI


def test_max_completion_tokens_goes_before_max_tokens():
    assert chat(max_tokens=5, max_completion_tokens=9).output_limit == 9
    assert chat(max_tokens=5).output_limit == 5
    assert chat().output_limit is None


def test_usage_is_continuous_only_where_it_is_included_at_all():
    both = chat(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    assert (both.reports_usage, both.reports_usage_continuously) == (True, True)
    only = chat(stream=True, stream_options={"continuous_usage_stats": True})
    assert (only.reports_usage, only.reports_usage_continuously) == (False, False)
    assert chat(stream=True, stream_options={"include_usage": None}).reports_usage is False
    assert chat(stream=True).reports_usage is False


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1, 2], [3]], [[1, 2], [3]]),
        ([], []),
    ],
)
def test_a_prompt_is_one_or_several_as_text_or_tokens(prompt, prompts):
    request = parse_request(CompletionRequest, json.dumps({"prompt": prompt}).encode())
    assert request.prompts == prompts


def test_a_completion_has_sixteen_tokens_unless_it_says_otherwise():
    assert parse_request(CompletionRequest, b'{"prompt":"a"}').max_tokens == 16
    assert CompletionRequest().prompts == []


def test_a_hint_is_found_in_metadata_and_then_in_vllm_xargs():
    assert chat(metadata={"workload": "a"}, vllm_xargs={"workload": "b"}).hint("workload") == "a"
    assert chat(metadata={"other": "a"}, vllm_xargs={"workload": "b"}).hint("workload") == "b"
    assert chat(metadata="free text").hint("workload") is None


@pytest.mark.parametrize("kind", ["application/json", "APPLICATION/JSON", "application/json; charset=utf-8"])
def test_json_is_accepted_however_it_is_spelled(kind):
    check_media_type(kind)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json ; charset=utf-8", "application/jsonl"])
def test_another_media_type_is_refused_and_the_type_is_not_stripped(kind):
    with pytest.raises(EngineError, match="Only 'application/json' is allowed"):
        check_media_type(kind)


def test_tokenizing_requests_have_their_own_shapes():
    assert parse_request(TokenizeRequest, b'{"prompt":"a"}').prompt == "a"
    assert refused(DetokenizeRequest, {"tokens": [-1]}).param == "body.tokens.0"
    assert refused(DetokenizeRequest, {"tokens": [2**63]}).param == "body.tokens.0"
