"""The shapes of answers and stream events, byte for byte as vLLM 0.33.0 serializes its models.

Sources: `entrypoints/openai/chat_completion/{protocol,serving}.py` and `completion/{protocol,serving}.py`. vLLM
leaves out what was never set, keeps what was set to null, and orders fields as its models declare them; a client may
rely on any of it. Everything that the events of one stream share is rendered once, so that an event costs one join of
bytes.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from breakeven_bench.engine.errors import EngineError, compact_json

DONE = b"data: [DONE]\n\n"


class Endpoint(Enum):
    """The two generating endpoints; the value is the prefix of request ids."""

    CHAT = "chatcmpl"
    COMPLETION = "cmpl"


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every part of one answer repeats. `created_s` is whole seconds since 1970."""

    endpoint: Endpoint
    request_id: str
    created_s: int
    model: str
    fingerprint: str

    def start(self, kind: str) -> bytes:
        """The fields before the choices, without the closing brace."""
        fields = {"id": self.request_id, "object": kind, "created": self.created_s, "model": self.model}
        return compact_json(fields)[:-1]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of a request so far."""

    prompt_tokens: int
    completion_tokens: int

    def fields(self) -> dict[str, Any]:
        """In vLLM's order: the total stands in the middle."""
        total_tokens = self.prompt_tokens + self.completion_tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": total_tokens,
            "completion_tokens": self.completion_tokens,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """One finished choice of an answer that is not streamed."""

    text: str
    finish_reason: str
    stop_reason: str | None


_CHAT_END = b',"token_ids":null}]'
_CHAT_LAST_END = b',"token_ids":null,"weight_versions":null}]'
_COMPLETION_END = b',"prompt_token_ids":null,"token_ids":null,"weight_versions":null}]'
_CLOSE = b',"kv_transfer_params":null}\n\n'
_NO_DETAILS: dict[str, Any] = {"prompt_tokens_details": None, "completion_tokens_details": None}


class StreamEvents:
    """Renders the events of one stream; `usage` is given to those that carry it (`continuous_usage_stats`).

    `ends_with_usage` tells that a usage event follows the last token, and then carries the fingerprint in its stead.
    """

    def __init__(self, envelope: Envelope, *, ends_with_usage: bool) -> None:
        self._envelope = envelope
        self._chat = envelope.endpoint is Endpoint.CHAT
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        self._start = b"data: " + envelope.start(kind) + b',"choices":['
        self._before_text = b',"delta":{"content":"' if self._chat else b',"text":"'
        running = b'"' + (b"}" if self._chat else b"") + b',"logprobs":null,"finish_reason":null'
        running += _CHAT_END if self._chat else b',"stop_reason":null' + _COMPLETION_END
        self._after_text = running
        self._after_last_text = b'"' + (b"}" if self._chat else b"") + b',"logprobs":null,"finish_reason":'
        fingerprint = b',"system_fingerprint":' + compact_json(envelope.fingerprint)
        self._last_close = _CLOSE if ends_with_usage else fingerprint + _CLOSE

    def opening(self, choice: int, usage: Usage | None) -> bytes:
        """The event that names the role, before the first token of a chat answer; nothing on /v1/completions."""
        if not self._chat:
            return b""
        delta = b'{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]' % choice
        return b"".join((self._start, delta, self._usage(usage), b',"prompt_token_ids":null,"prompt_text":null}\n\n'))

    def tokens(self, choice: int, text: bytes, usage: Usage | None) -> bytes:
        """The event of one engine step. `text` is the inside of a JSON string."""
        index = b'{"index":%d' % choice
        counts = self._usage(usage)
        return b"".join((self._start, index, self._before_text, text, self._after_text, counts, _CLOSE))

    def last_tokens(self, choice: int, text: bytes, usage: Usage | None, end: Choice) -> bytes:
        """The event that ends a choice; of `end` only the reasons count."""
        reasons = compact_json(end.finish_reason) + b',"stop_reason":' + compact_json(end.stop_reason)
        return b"".join(
            (
                self._start,
                b'{"index":%d' % choice,
                self._before_text,
                text,
                self._after_last_text,
                reasons,
                _CHAT_LAST_END if self._chat else _COMPLETION_END,
                self._usage(usage),
                self._last_close,
            )
        )

    def closing(self, usage: Usage, metrics: dict[str, Any] | None) -> bytes:
        """The event without choices that ends a stream whose client asked for usage; nulls are left out of it."""
        tail: dict[str, Any] = {"usage": usage.fields(), "system_fingerprint": self._envelope.fingerprint}
        if metrics is not None:
            tail["metrics"] = _without_nulls(metrics)
        return self._start + b"]," + compact_json(tail)[1:] + b"\n\n"

    def _usage(self, usage: Usage | None) -> bytes:
        if usage is None:
            return b""
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        counts = b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d'
        details = b',"completion_tokens_details":null}' if self._chat else b"}"
        return counts % (prompt, prompt + completion, completion) + details


def answer_body(envelope: Envelope, choices: list[Choice], usage: Usage, metrics: dict[str, Any] | None) -> bytes:
    """The whole answer of a request that does not stream; nulls are kept."""
    chat = envelope.endpoint is Endpoint.CHAT
    shape = _chat_choice if chat else _completion_choice
    tail: dict[str, Any] = {
        "choices": [shape(index, choice) for index, choice in enumerate(choices)],
        "service_tier": None,
        "system_fingerprint": envelope.fingerprint,
        "usage": {**usage.fields(), **_NO_DETAILS},
    }
    if chat:
        tail |= {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
    tail |= {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": metrics}
    start = envelope.start("chat.completion" if chat else "text_completion")
    return start + b"," + compact_json(tail)[1:]


def error_event(error: EngineError) -> bytes:
    """How vLLM tells of an error once the head has gone out; `DONE` follows it."""
    return b"data: " + error.body() + b"\n\n"


def _chat_choice(index: int, choice: Choice) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": choice.text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "token_ids": None,
        "routed_experts": None,
        "weight_versions": None,
    }


def _completion_choice(index: int, choice: Choice) -> dict[str, Any]:
    return {
        "index": index,
        "text": choice.text,
        "logprobs": None,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
        "weight_versions": None,
    }


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in fields.items() if value is not None}
    return {name: _without_nulls(value) if isinstance(value, dict) else value for name, value in kept.items()}
