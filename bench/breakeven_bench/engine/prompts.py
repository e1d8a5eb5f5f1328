"""Prompts as text: how a conversation becomes one prompt, what it counts in tokens, and how inputs are told apart.

There is no tokenizer. A token is four bytes of the prompt's UTF-8 form, about what English costs in a real
vocabulary; the mapping is reversible, so that /tokenize, /detokenize and `usage.prompt_tokens` agree with one
another.
"""

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from breakeven_bench.engine.errors import no_text

BYTES_PER_TOKEN = 4

PART_TOKENS = 256
"""An image, sound or file in a message counts this much (assumption: a small image of a common vision model)."""


def render_chat(messages: Iterable[dict[str, Any]], tools: object = None) -> bytes:
    """One prompt out of a conversation, like a chat template: a mark per message, and one that asks for the answer."""
    parts = [f"<|tools|>{json.dumps(tools)}<|end|>\n" if tools else ""]
    parts += [f"<|{message.get('role')}|>\n{_content(message)}<|end|>\n" for message in messages]
    parts.append("<|assistant|>\n")
    return encode("".join(parts))


def render_prompt(prompt: str | list[int]) -> bytes:
    """The bytes of a text completion's prompt, given as text or as token ids."""
    return encode(prompt if isinstance(prompt, str) else detokenize(prompt))


def encode(text: str) -> bytes:
    """UTF-8. EngineError (400) for half a surrogate pair, which JSON can spell: vLLM's tokenizer refuses it, too."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise no_text() from None


def count_tokens(prompt: bytes) -> int:
    """How many tokens a prompt counts, at least one: the begin-of-text token."""
    return max(1, -(-len(prompt) // BYTES_PER_TOKEN))


def tokenize(prompt: bytes) -> list[int]:
    """The tokens of a prompt: its bytes in groups of four, each behind a one that keeps leading zeros."""
    groups = (prompt[at : at + BYTES_PER_TOKEN] for at in range(0, len(prompt), BYTES_PER_TOKEN))
    return [int.from_bytes(b"\x01" + group, "big") for group in groups]


def detokenize(tokens: Iterable[int]) -> str:
    """The text of such tokens, each below 2^63; bytes that are no text show as replacement characters."""
    groups = (token.to_bytes(8, "big").lstrip(b"\0")[1:] for token in tokens)
    return b"".join(groups).decode("utf-8", "replace")


def digest(*parts: bytes) -> int:
    """64 bits that tell inputs apart; each part's length goes in, so that ("ab", "c") is not ("a", "bc")."""
    state = blake2b(digest_size=8)
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return int.from_bytes(state.digest(), "big")


def _content(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return content if isinstance(content, str) else ""


def _part(part: object) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return "#" * (PART_TOKENS * BYTES_PER_TOKEN)
