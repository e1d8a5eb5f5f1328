"""Refusals have vLLM's words and shape."""

import json

import pytest

from breakeven_bench.engine.errors import (
    GENERATION_FAILED,
    UNREADABLE_BODY,
    EngineError,
    compact_json,
    invalid_parameter,
    prompt_too_long,
    unknown_model,
)


def test_an_error_has_four_fields_in_vllms_order_and_its_code_is_a_number():
    body = EngineError(404, "Not Found").body()
    assert body == b'{"error":{"message":"Not Found","type":"Not Found","param":null,"code":404}}'


@pytest.mark.parametrize(
    ("param", "value", "message"),
    [
        (None, None, "wrong"),
        ("top_p", None, "wrong (parameter=top_p)"),
        ("top_p", 3.0, "wrong (parameter=top_p, value=3.0)"),
    ],
)
def test_the_engines_own_refusal_repeats_what_it_knows(param, value, message):
    error = invalid_parameter("wrong", param, value)
    assert (error.status, error.message, error.type, error.param) == (400, message, "BadRequestError", param)


def test_an_unknown_model_is_told_the_names_that_are_served():
    error = unknown_model("gpt-9", ("llama-70b", "fast"))
    assert error.message == "The model `gpt-9` does not exist. Valid aliases: llama-70b, fast."
    assert (error.status, error.type, error.param) == (404, "NotFoundError", "model")


def test_a_long_prompt_is_told_both_lengths():
    error = prompt_too_long(9000, 8192)
    assert "maximum context length is 8192 tokens" in error.message
    assert "contains 9000 input tokens" in error.message
    assert error.param == "input_tokens"


def test_a_failure_inside_the_engine_is_a_server_error_and_an_unreadable_body_is_not():
    assert (GENERATION_FAILED.status, GENERATION_FAILED.type) == (500, "InternalServerError")
    assert (UNREADABLE_BODY.status, UNREADABLE_BODY.type) == (400, "Bad Request")


def test_json_is_compact_utf8_as_starlette_writes_it():
    assert compact_json({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()


def test_a_lone_surrogate_in_a_clients_text_breaks_no_answer():
    assert json.loads(EngineError(400, "model \ud83d").body())["error"]["message"] == "model ?"
