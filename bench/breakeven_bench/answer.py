"""Reads one streamed answer: bytes in, observations out. No I/O and no clock; the caller says when bytes came.

Server-sent events are split on the bytes, and only their JSON is decoded: this loop runs once per engine step and
request and is what bounds how much load one client can offer.
"""

from dataclasses import dataclass, field
from typing import Any

import orjson

EVENT_BYTES_MAX = 16 * 1024 * 1024
"""An unfinished event over this size is not an answer of an engine: one token with logprobs takes a few kB."""

DETAIL_CHARS_MAX = 200
"""How much of an engine's error text a record keeps."""


class MalformedAnswerError(Exception):
    """The stream is not what an OpenAI-compatible engine sends."""


@dataclass(slots=True)
class AnswerReader:
    """The state of one stream.

    `event_s` and `event_tokens` describe the events that carried tokens: when they came, and the tokens up to there
    (0 where the engine does not count along). `error` is the text of an error event inside the stream; `done` tells
    that the stream said [DONE].
    """

    event_s: list[float] = field(default_factory=list)
    event_tokens: list[int] = field(default_factory=list)
    reads: int = 0
    done: bool = False
    error: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    acceptance_length: float | None = None
    _rest: bytes = b""

    def feed(self, data: bytes, now_s: float) -> None:
        """Take the bytes of one socket read; MalformedAnswerError where they are not events of JSON."""
        blocks = self._blocks(data)
        if blocks:
            self.reads += 1
        for block in blocks:
            payload = _payload(block)
            if payload == b"[DONE]":
                self.done = True
            elif payload:
                self._take(_decoded(payload), now_s)

    def _blocks(self, data: bytes) -> list[bytes]:
        """The events that are complete now; the rest waits for the next read."""
        text = self._rest + data
        if b"\r" in text:
            # A carriage return at the very end may be half of a line end: it stays, and is looked at again.
            text = text.replace(b"\r\n", b"\n")
        *blocks, self._rest = text.split(b"\n\n")
        if len(self._rest) > EVENT_BYTES_MAX:
            message = f"an event of more than {EVENT_BYTES_MAX} bytes"
            raise MalformedAnswerError(message)
        return blocks

    def _take(self, event: dict[str, Any], now_s: float) -> None:
        try:
            self._event(event, now_s)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # A field of another type than the protocol's: whose, does not matter to the record.
            message = f"an event of another shape: {error!r}"
            raise MalformedAnswerError(message) from error

    def _event(self, event: dict[str, Any], now_s: float) -> None:
        if event.get("error"):
            self.error = self.error or _error_text(event["error"])
            return
        self._metrics(event.get("metrics"))
        generated = self._usage(event.get("usage"))
        choices = event.get("choices")
        if not choices:
            return
        choice = choices[0]
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        before = self.event_tokens[-1] if self.event_tokens else 0
        # An engine that counts along shows a token even where its text is empty (half of a character, a special token).
        if (generated > before) if generated else _has_text(choice):
            self.event_s.append(now_s)
            self.event_tokens.append(generated)

    def _usage(self, usage: dict[str, Any] | None) -> int:
        """Note the counts; the number of tokens generated so far, 0 where this event does not say."""
        if not usage:
            return 0
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        self.completion_tokens = usage.get("completion_tokens", self.completion_tokens)
        details = usage.get("prompt_tokens_details")
        if details:
            self.cached_tokens = details.get("cached_tokens", self.cached_tokens)
        return int(usage.get("completion_tokens") or 0)

    def _metrics(self, metrics: dict[str, Any] | None) -> None:
        speculative = metrics.get("speculative_decoding") if metrics else None
        if speculative:
            self.acceptance_length = speculative.get("mean_acceptance_length", self.acceptance_length)


def _payload(block: bytes) -> bytes:
    """The data of one event: its data lines joined; comments and other fields are skipped."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = (line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(lines)


def _decoded(payload: bytes) -> dict[str, Any]:
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        message = f"an event that is no JSON: {error}"
        raise MalformedAnswerError(message) from error
    if not isinstance(event, dict):
        message = f"an event that is no JSON object but a {type(event).__name__}"
        raise MalformedAnswerError(message)
    return event


def _has_text(choice: dict[str, Any]) -> bool:
    """Whether a choice carries generated text: chat or completion, reasoning or a tool call."""
    delta = choice.get("delta") or {}
    parts = (choice.get("text"), delta.get("content"), delta.get("reasoning"), delta.get("reasoning_content"))
    return any(parts) or bool(delta.get("tool_calls"))


def _error_text(error: Any) -> str:
    text = error.get("message", error) if isinstance(error, dict) else error
    return str(text)[:DETAIL_CHARS_MAX]
