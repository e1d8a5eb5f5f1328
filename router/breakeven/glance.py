"""Tells at a glance the event that carries nothing but text, as nearly all events of a stream do.

msgspec decodes only the members named here and skips the rest: a third of the work of decoding the event whole and
looking at its members (8,000 against 24,000 instructions for an event of 200 bytes, 1 against 4 µs).
"""

from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from breakeven.answer import decode

_TEXT_TYPES = frozenset(
    {
        "content_block_delta",
        "response.function_call_arguments.delta",
        "response.output_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
    }
)
"""Events of the typed dialects that carry text; of all others only the whole tells what they mean."""

_TELLING_WORDS = (b'"usage"', b'"error"', b'_reason":"', b'_reason": "', b'"type"')
"""A type makes an event one of a dialect in which only the whole tells. Five searches take 1.4 µs with
`find`, 2.1 with `in`: CPython 3.11 tries there first whether the bytes are a number.
"""


class _Choice(Struct):
    finish_reason: Any = None


class _Event(Struct):
    choices: list[_Choice] = []
    usage: Any = None
    error: Any = None
    type: Any = None
    object: Any = None


class _Answer(Struct):
    usage: Any = None


_decode = Decoder(_Event).decode
_decode_answer = Decoder(_Answer).decode


def is_mere_text(payload: bytes) -> bool:
    """Whether the data of an event tells neither usage nor error nor finish reason nor end; False: decode it whole."""
    try:
        event = _decode(payload)
    except (DecodeError, RecursionError):
        return lacks_telling_words(payload)
    if event.usage is not None or event.error or event.object == "error":
        return False
    if event.type is not None and not (isinstance(event.type, str) and event.type in _TEXT_TYPES):
        return False
    for choice in event.choices:  # noqa: SIM110  # a generator would cost as much as the decoding
        if choice.finish_reason is not None:
            return False
    return True


def lacks_telling_words(payload: bytes) -> bool:
    """The same for what msgspec refuses (NaN, lone surrogates, leading zeros) and clients may still read."""
    return max(map(payload.find, _TELLING_WORDS)) < 0


def usage_member(document: bytes) -> Any:
    """The top-level `usage` of an answer that is one JSON document, None where it has none or cannot be read."""
    try:
        return _decode_answer(document).usage
    except (DecodeError, RecursionError):
        message = decode(document)
        return None if message is None else message.get("usage")
