"""Shapes on the wire: byte for byte what vLLM's models serialize to, and what the official client accepts."""

import json

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from breakeven_bench.engine.errors import GENERATION_FAILED
from breakeven_bench.engine.events import (
    DONE,
    Choice,
    Endpoint,
    Envelope,
    StreamEvents,
    Usage,
    answer_body,
    error_event,
)

CHAT = Envelope(Endpoint.CHAT, "chatcmpl-1", 1796026850, "llama", "vllm-0.33.0-tp2")
TEXT = Envelope(Endpoint.COMPLETION, "cmpl-1", 1796026850, "llama", "vllm-0.33.0-tp2")
CHAT_START = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1796026850,"model":"llama","choices":['
TEXT_START = '{"id":"cmpl-1","object":"text_completion","created":1796026850,"model":"llama","choices":['
FINGERPRINT = '"system_fingerprint":"vllm-0.33.0-tp2"'
METRICS = {"time_to_first_token_ms": None, "speculative_decoding": {"num_spec_steps": 3, "per_step_accepted": None}}


def payload(event):
    text = event.decode()
    assert text.startswith("data: ")
    assert text.endswith("\n\n")
    return text.removeprefix("data: ").removesuffix("\n\n")


def test_an_error_in_a_stream_is_an_event_of_its_own():
    assert payload(error_event(GENERATION_FAILED)) == (
        '{"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}'
    )
    assert DONE == b"data: [DONE]\n\n"


def test_a_chat_stream_opens_with_the_role():
    assert payload(StreamEvents(CHAT, ends_with_usage=False).opening(1, None)) == (
        CHAT_START + '{"index":1,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],'
        '"prompt_token_ids":null,"prompt_text":null}'
    )


def test_a_text_stream_opens_with_its_first_token():
    assert StreamEvents(TEXT, ends_with_usage=False).opening(0, None) == b""


def test_tokens_of_a_chat():
    assert payload(StreamEvents(CHAT, ends_with_usage=False).tokens(0, rb" a\n", None)) == (
        CHAT_START + '{"index":0,"delta":{"content":" a\\n"},"logprobs":null,"finish_reason":null,"token_ids":null}],'
        '"kv_transfer_params":null}'
    )


def test_tokens_of_a_text():
    assert payload(StreamEvents(TEXT, ends_with_usage=False).tokens(2, b" a", None)) == (
        TEXT_START + '{"index":2,"text":" a","logprobs":null,"finish_reason":null,"stop_reason":null,'
        '"prompt_token_ids":null,"token_ids":null,"weight_versions":null}],"kv_transfer_params":null}'
    )


def test_the_last_tokens_of_a_chat_carry_the_reason_and_the_fingerprint():
    last = StreamEvents(CHAT, ends_with_usage=False).last_tokens(0, b" a", None, Choice("", "stop", "END"))
    assert payload(last) == (
        CHAT_START + '{"index":0,"delta":{"content":" a"},"logprobs":null,"finish_reason":"stop","stop_reason":"END",'
        '"token_ids":null,"weight_versions":null}],' + FINGERPRINT + ',"kv_transfer_params":null}'
    )


def test_the_last_tokens_of_a_text_carry_them_too():
    last = StreamEvents(TEXT, ends_with_usage=False).last_tokens(0, b"", None, Choice("", "length", None))
    assert payload(last) == (
        TEXT_START + '{"index":0,"text":"","logprobs":null,"finish_reason":"length","stop_reason":null,'
        '"prompt_token_ids":null,"token_ids":null,"weight_versions":null}],'
        + FINGERPRINT
        + ',"kv_transfer_params":null}'
    )


@pytest.mark.parametrize("envelope", [CHAT, TEXT], ids=["chat", "text"])
def test_the_fingerprint_moves_to_the_usage_event_where_there_is_one(envelope):
    events = StreamEvents(envelope, ends_with_usage=True)
    last = payload(events.last_tokens(0, b" a", None, Choice("", "stop", None)))
    assert "system_fingerprint" not in last
    assert FINGERPRINT in payload(events.closing(Usage(5, 7), None))


@pytest.mark.parametrize(("envelope", "start"), [(CHAT, CHAT_START), (TEXT, TEXT_START)], ids=["chat", "text"])
def test_the_usage_event_has_no_choices_and_no_nulls(envelope, start):
    closing = StreamEvents(envelope, ends_with_usage=True).closing(Usage(5, 7), METRICS)
    assert payload(closing) == (
        start
        + '],"usage":{"prompt_tokens":5,"total_tokens":12,"completion_tokens":7},'
        + FINGERPRINT
        + ',"metrics":{"speculative_decoding":{"num_spec_steps":3}}}'
    )


def test_continuous_usage_stands_between_the_choices_and_the_rest():
    chat = StreamEvents(CHAT, ends_with_usage=True)
    usage = '],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2,"completion_tokens_details":null},'
    assert usage + '"kv_transfer_params":null}' in payload(chat.tokens(0, b" a", Usage(5, 2)))
    assert usage + '"kv_transfer_params":null}' in payload(
        chat.last_tokens(0, b"", Usage(5, 2), Choice("", "stop", None))
    )
    opening = json.loads(payload(chat.opening(0, Usage(5, 0))))
    assert opening["usage"]["total_tokens"] == 5
    text = StreamEvents(TEXT, ends_with_usage=True)
    assert '],"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2},' in payload(
        text.tokens(0, b" a", Usage(5, 2))
    )


def test_a_whole_chat_answer_keeps_every_field_of_vllms():
    body = answer_body(CHAT, [Choice(" hi", "length", None)], Usage(5, 1), None)
    assert body.decode() == (
        '{"id":"chatcmpl-1","object":"chat.completion","created":1796026850,"model":"llama","choices":[{"index":0,'
        '"message":{"role":"assistant","content":" hi","refusal":null,"annotations":null,"audio":null,'
        '"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"length","stop_reason":null,'
        '"token_ids":null,"routed_experts":null,"weight_versions":null}],"service_tier":null,'
        + FINGERPRINT
        + ',"usage":{"prompt_tokens":5,"total_tokens":6,"completion_tokens":1,"prompt_tokens_details":null,'
        '"completion_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,'
        '"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null}'
    )


def test_a_whole_text_answer_keeps_every_field_of_vllms():
    choices = [Choice(" a", "length", None), Choice(" b", "stop", "x")]
    body = answer_body(TEXT, choices, Usage(5, 2), {"queue_time_ms": None})
    assert body.decode() == (
        '{"id":"cmpl-1","object":"text_completion","created":1796026850,"model":"llama","choices":['
        '{"index":0,"text":" a","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null,'
        '"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null,"weight_versions":null},'
        '{"index":1,"text":" b","logprobs":null,"finish_reason":"stop","stop_reason":"x","token_ids":null,'
        '"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null,"weight_versions":null}],'
        '"service_tier":null,' + FINGERPRINT + ',"usage":{"prompt_tokens":5,"total_tokens":7,"completion_tokens":2,'
        '"prompt_tokens_details":null,"completion_tokens_details":null},"kv_transfer_params":null,'
        '"ec_transfer_params":null,"metrics":{"queue_time_ms":null}}'
    )


def test_the_official_client_accepts_every_shape():
    events = StreamEvents(CHAT, ends_with_usage=True)
    end = Choice("", "stop", None)
    for event in (
        events.opening(0, None),
        events.tokens(0, b" a", Usage(5, 1)),
        events.last_tokens(0, b" a", None, end),
        events.closing(Usage(5, 1), METRICS),
    ):
        ChatCompletionChunk.model_validate_json(payload(event), strict=True)
    ChatCompletion.model_validate_json(answer_body(CHAT, [Choice("a", "stop", None)], Usage(5, 1), None), strict=True)
    Completion.model_validate_json(answer_body(TEXT, [Choice("a", "stop", None)], Usage(5, 1), None), strict=True)


def test_a_clients_request_id_cannot_break_the_json():
    hostile = Envelope(Endpoint.CHAT, 'chatcmpl-"}\n', 1, "llama", "f")
    assert json.loads(payload(StreamEvents(hostile, ends_with_usage=False).tokens(0, b"", None)))["id"].endswith('"}\n')
