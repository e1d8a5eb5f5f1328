"""Refusals have vLLM's words and shape."""

import json

import pytest

from breakeven_bench.engine.errors import (
    CORE_DEAD,
    GENERATION_FAILED,
    EngineError,
    compact_json,
    invalid_parameter,
    no_text,
    prompt_too_long,
    too_many_tokens,
    unknown_model,
    unreadable_body,
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


def test_a_limit_beyond_the_context_is_told_by_its_own_name():
    error = too_many_tokens("max_completion_tokens", 9000, 8192)
    assert error.message == (
        "max_completion_tokens=9000 cannot be greater than max_model_len=8192. Please request fewer output tokens. "
        "(parameter=max_completion_tokens, value=9000)"
    )
    assert (error.status, error.param) == (400, "max_completion_tokens")


def test_a_prompt_that_is_no_text_is_refused_in_the_words_of_the_tokenizer():
    error = no_text()
    assert error.message.startswith("TextEncodeInput must be Union")
    assert (error.status, error.type, error.param) == (400, "BadRequestError", None)


def test_a_failure_inside_the_engine_is_a_server_error_and_an_unreadable_body_is_not():
    for failure in (GENERATION_FAILED, CORE_DEAD):
        assert (failure.status, failure.type) == (500, "InternalServerError")
    assert unreadable_body().status == 400


def test_an_error_of_the_framework_is_told_in_its_own_shape():
    assert unreadable_body().body() == b'{"detail":"There was an error parsing the body"}'


def test_json_is_compact_utf8_as_starlette_writes_it():
    assert compact_json({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()


def test_a_lone_surrogate_in_a_clients_text_breaks_no_answer():
    assert json.loads(EngineError(400, "model \ud83d").body())["error"]["message"] == "model ?"
