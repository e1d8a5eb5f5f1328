"""What one decoded JSON message of an engine tells: generated text, usage, an error, the end.

One message is a whole answer or one event of a stream, in any of the three dialects that the engines speak: chat and
completions (`choices`), responses (`type` "response...."), messages (`type` as Anthropic names it). The members are
those of vLLM 0.33.0, `entrypoints/openai/*/protocol.py` and `entrypoints/anthropic/protocol.py`. Nothing here raises: a
member of an unforeseen type is as good as absent.
"""

import json
from typing import Any

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode as decode_strictly

Message = dict[str, Any]

WORD_MAX = 80
"""Characters kept of an engine's word for an error, which goes to logs."""

TOKENS_MAX = 10**12
"""A count beyond this is no count: sums of such numbers would not fit into a float."""

_ONLY_LENIENTLY = (b"NaN", b"Infinity", b"\\ud", b"\\uD", b"\xed", b"\x00", b"\xef\xbb\xbf")
"""What a document holds that the standard library reads and msgspec does not: its literals for numbers that are none,
lone surrogates (escaped, or as three bytes), the other Unicode encodings and their mark. Beside these there are only
numbers beyond a float, for which msgspec raises an error of its own kind.
"""

_DELTA_TEXT = ("content", "reasoning", "reasoning_content", "tool_calls", "refusal", "function_call")
_BLOCK_TEXT = ("text", "thinking", "partial_json")
_NOT_IN_CHUNKS = frozenset(("type", "delta", "response", "message", "error"))
_ENDS = frozenset(
    {"message_stop", "response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)


class Usage(Struct, frozen=True):
    """Tokens as the engine counts them; None: it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None

    def updated(self, later: "Usage") -> "Usage":
        """The later figures, and of these what the later ones leave open."""
        return Usage(
            self.prompt_tokens if later.prompt_tokens is None else later.prompt_tokens,
            self.completion_tokens if later.completion_tokens is None else later.completion_tokens,
        )


class Told(Struct, frozen=True):
    """What one message tells: whether it carries text, whether it is the last of its dialect; None: it does not say."""

    text: bool
    ends: bool
    usage: Usage | None
    error: str | None
    finish_reason: str | None


def told(message: Message) -> Told:
    """All that a message tells.

    A chunk of chat or completions, which has none of the members of the other dialects, is looked through once: 1.5 µs
    instead of 4.4 for a text, 2.4 instead of 5.1 for a usage.
    """
    if not _NOT_IN_CHUNKS.isdisjoint(message) or message.get("object") == "error":
        return Told(has_text(message), ends(message), usage_of(message), error_of(message), finish_reason_of(message))
    text, finish_reason = False, None
    for choice in _choices(message):
        text = text or _has_text(choice)
        if finish_reason is None and isinstance(reason := choice.get("finish_reason"), str):
            finish_reason = reason
    return Told(text, False, read_usage(message.get("usage")), None, finish_reason)


def decode(payload: bytes) -> Message | None:
    """The JSON object, or None where there is none; NaN and lone surrogates are let pass, as clients let them."""
    try:
        message = decode_strictly(payload)
    except RecursionError:
        return None
    except ValidationError:
        message = _decode_leniently(payload)
    except DecodeError:
        # That the standard library refuses a document too is known at a tenth of the time in which it would say so.
        hopeless = max(map(payload.find, _ONLY_LENIENTLY)) < 0
        message = None if hopeless else _decode_leniently(payload)
    return message if isinstance(message, dict) else None


def _decode_leniently(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def has_text(message: Message) -> bool:
    """Whether an event carries generated text: content, reasoning, a tool call, however short (field case B78)."""
    if any(map(_has_text, _choices(message))):
        return True
    kind = message.get("type")
    if kind == "content_block_delta":
        return _any_of(message.get("delta"), _BLOCK_TEXT)
    is_delta = isinstance(kind, str) and kind.startswith("response.") and kind.endswith(".delta")
    return is_delta and bool(message.get("delta"))


def usage_of(message: Message) -> Usage | None:
    """The usage that is no null: of the message itself, or of the response or message inside an event."""
    usage = message.get("usage")
    for holder in (message.get("response"), message.get("message")):
        if not isinstance(usage, dict) and isinstance(holder, dict):
            usage = holder.get("usage")
    return read_usage(usage)


def read_usage(usage: object) -> Usage | None:
    """What a member `usage` says, None where it is no object."""
    if not isinstance(usage, dict):
        return None
    return Usage(_count(usage, "prompt_tokens", "input_tokens"), _count(usage, "completion_tokens", "output_tokens"))


def finish_reason_of(message: Message) -> str | None:
    """Why generation stopped, in the word of the dialect, or None while it goes on."""
    for choice in _choices(message):
        if isinstance(reason := choice.get("finish_reason"), str):
            return reason
    if isinstance(delta := message.get("delta"), dict) and isinstance(reason := delta.get("stop_reason"), str):
        return reason
    if ends(message) and isinstance(response := message.get("response"), dict):
        status = response.get("status")
        return status if isinstance(status, str) else None
    return None


def error_of(message: Message) -> str | None:
    """The engine's own word for an error that it reports in a message (field case B40), or None."""
    error = message.get("error")
    if not error and isinstance(response := message.get("response"), dict):
        error = response.get("error")
    if not error and message.get("type") != "error" and message.get("object") != "error":
        return None
    words = (error.get("type"), error.get("code")) if isinstance(error, dict) else (message.get("code"),)
    return next((word for word in words if isinstance(word, str) and word), "error")[:WORD_MAX]


def ends(message: Message) -> bool:
    """Whether the message is the last event of its dialect."""
    kind = message.get("type")
    return isinstance(kind, str) and kind in _ENDS


def _has_text(choice: Message) -> bool:
    return bool(choice.get("text")) or _any_of(choice.get("delta"), _DELTA_TEXT)


def _choices(message: Message) -> list[Message]:
    choices = message.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _any_of(members: object, names: tuple[str, ...]) -> bool:
    return isinstance(members, dict) and any(map(members.get, names))


def _count(usage: Message, *names: str) -> int | None:
    for name in names:
        value = usage.get(name)
        if type(value) is int and 0 <= value <= TOKENS_MAX:
            return value
    return None
