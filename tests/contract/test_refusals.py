"""What an engine refuses because it speculates, and what passes on both kinds: the router's capability rules."""

import pytest

from tests.contract.engine import CHAT, COMPLETIONS, DONE
from tests.contract.targets import MODEL_LEN_MAX

UNSUPPORTED = "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."

ONLY_PLAIN = {
    "min_p": {"temperature": 0.7, "min_p": 0.05},
    "min_p just above its epsilon": {"temperature": 0.7, "min_p": 2e-5},
    "logit_bias": {"temperature": 0.7, "logit_bias": {"50": -5}},
    "logit_bias, greedy": {"temperature": 0, "logit_bias": {"50": -5}},
    "logit_bias that biases nothing": {"temperature": 0.7, "logit_bias": {"50": 0}},
}

BOTH = {
    "min_p of a greedy request": {"temperature": 0, "min_p": 0.05},
    "min_p 0": {"temperature": 0.7, "min_p": 0},
    "min_p below its epsilon": {"temperature": 0.7, "min_p": 1e-6},
    "min_p null": {"temperature": 0.7, "min_p": None},
    "an empty logit_bias": {"temperature": 0.7, "logit_bias": {}},
    "logit_bias null": {"temperature": 0.7, "logit_bias": None},
    "presence_penalty": {"temperature": 0.7, "presence_penalty": 0.5},
    "frequency_penalty": {"temperature": 0.7, "frequency_penalty": 0.5},
    "repetition_penalty": {"temperature": 0.7, "repetition_penalty": 1.1},
    "logprobs": {"temperature": 0.7, "logprobs": True, "top_logprobs": 2},
    "several choices": {"temperature": 0.7, "n": 2},
    # Without our plugin vLLM 0.32.0 on a CPU dies of it at the first step without drafts (`bench/vllm_shims`).
    "top_k": {"temperature": 0.7, "top_k": 20},
    "top_k and top_p": {"temperature": 0.7, "top_k": 20, "top_p": 0.99},
    "top_p": {"temperature": 0.7, "top_p": 0.9},
    "a seed": {"temperature": 0.7, "seed": 7},
    "a stop string": {"temperature": 0.7, "stop": ["the end"]},
    "stop null": {"stop": None},
    "min_tokens": {"min_tokens": 2},
    "ignore_eos": {"ignore_eos": True},
    "a JSON object": {"response_format": {"type": "json_object"}},
    "a JSON schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}
    },
    "a choice of words": {"structured_outputs": {"choice": ["yes", "no"]}},
    "tools without parameters": {"tools": [{"type": "function", "function": {"name": "now"}}], "tool_choice": "none"},
    "tool_choice null": {"tools": [{"type": "function", "function": {"name": "now"}}], "tool_choice": None},
    "a field nobody knows": {"x_future_field": [1, None]},
    "max_completion_tokens": {"max_tokens": ..., "max_completion_tokens": 4},
    "the highest temperature": {"temperature": 2},
}

NEITHER = {
    "temperature above 2": ({"temperature": 2.0000001}, "temperature must be in [0, 2]", "temperature"),
    "a negative temperature": ({"temperature": -1}, "temperature must be non-negative", "temperature"),
    "top_p above 1": ({"temperature": 0.7, "top_p": 1.5}, "top_p must be in (0, 1]", "top_p"),
    "min_p above 1": ({"temperature": 0.7, "min_p": 1.5}, "min_p must be in [0, 1]", None),
    "several greedy choices": ({"n": 2}, "n must be 1 when using greedy sampling", None),
    "no choice": ({"n": 0}, "n must be at least 1", None),
    "no token": ({"max_tokens": 0}, "max_tokens must be at least 1", "max_tokens"),
    "more tokens than the context": (
        {"max_tokens": MODEL_LEN_MAX + 1},
        f"max_tokens={MODEL_LEN_MAX + 1} cannot be greater than max_model_len={MODEL_LEN_MAX}",
        "max_tokens",
    ),
    "a penalty above 2": ({"presence_penalty": 3}, "presence_penalty must be in [-2, 2]", None),
    "a seed over 64 bits": ({"seed": 2**64}, "less than or equal to", "body.seed"),
    "stream_options without a stream": (
        {"stream_options": {"include_usage": True}},
        "Stream options can only be defined when `stream=True`",
        "stream_options",
    ),
    "a choice among no tools": ({"tool_choice": "auto"}, "`tools` must be set", "tool_choice"),
    "an empty list of tools": ({"tools": []}, "`tools` must not be an empty array", "tools"),
}


@pytest.mark.parametrize("fields", ONLY_PLAIN.values(), ids=ONLY_PLAIN)
async def test_a_speculative_engine_refuses_what_its_sampler_cannot_honour(speculative, fields):
    reply = await speculative.ask(**fields)
    assert (reply.status, reply.json()["error"]) == (
        400,
        {"message": UNSUPPORTED, "type": "BadRequestError", "param": None, "code": 400},
    )


@pytest.mark.parametrize("fields", ONLY_PLAIN.values(), ids=ONLY_PLAIN)
async def test_a_plain_engine_takes_the_same(plain, fields):
    assert (await plain.answer(**fields))["choices"][0]["finish_reason"] in {"stop", "length"}


@pytest.mark.parametrize("fields", BOTH.values(), ids=BOTH)
async def test_a_speculative_engine_takes_everything_else(speculative, fields):
    assert len((await speculative.answer(**fields))["choices"]) == fields.get("n", 1)


@pytest.mark.parametrize("fields", BOTH.values(), ids=BOTH)
async def test_so_does_a_plain_engine(plain, fields):
    assert len((await plain.answer(**fields))["choices"]) == fields.get("n", 1)


@pytest.mark.parametrize(("fields", "words", "param"), NEITHER.values(), ids=NEITHER)
async def test_both_refuse_what_no_engine_can_do(plain, speculative, fields, words, param):
    for engine in (plain, speculative):
        reply = await engine.ask(**fields)
        assert (reply.status, reply.json()["error"]["param"]) == (400, param)
        assert words in reply.json()["error"]["message"]


async def test_text_completions_know_the_same_refusal(plain, speculative):
    fields = {"path": COMPLETIONS, "temperature": 0.7, "min_p": 0.05}
    assert (await speculative.ask(**fields)).json()["error"]["message"] == UNSUPPORTED
    assert (await plain.ask(**fields)).status == 200


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS], ids=["chat", "text"])
async def test_a_stream_that_a_speculative_engine_refuses_is_a_200_with_the_refusal_in_an_event(speculative, path):
    """So a router that waits for the 400 to try elsewhere never sees it: it must know before it sends."""
    told, done = await speculative.stream(path=path, temperature=0.7, min_p=0.05)
    assert (told["error"]["message"], told["error"]["code"], done) == (UNSUPPORTED, 400, DONE)


async def test_a_stream_with_a_parameter_that_nobody_takes_is_no_stream(speculative):
    reply = await speculative.ask(stream=True, temperature=9)
    assert (reply.status, reply["content-type"]) == (400, "application/json")
