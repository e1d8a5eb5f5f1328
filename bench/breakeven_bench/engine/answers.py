"""Answers as text: how long one is, how it ends, and what it says.

There is no model. A token of an answer is one word of a fixed book of pseudo-random sentences, read from the place
that a key chooses. Equal keys make equal answers, on a plain and on a speculative engine alike, and answers look like
words on the wire. The last token of an answer that ends by itself is the end-of-text token: it counts, and says
nothing.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from breakeven_bench.engine.acceptance import Workload

BOOK_TOKENS = 8192
"""Long enough that two answers seldom share a stretch, small enough (under 1 MB) to keep whole."""

NATURAL_LENGTHS: dict[Workload, tuple[int, int]] = {
    Workload.NEUTRAL: (50, 370),
    Workload.SHORT_QA: (50, 100),
    Workload.SUMMARIZATION: (150, 300),
    Workload.CODE: (100, 500),
    Workload.CREATIVE: (300, 800),
    Workload.TRANSLATION: (100, 300),
    Workload.STRUCTURED: (50, 200),
}
"""Output tokens, uniform between the two: the user's expectation of each category; NEUTRAL has their mean, 210."""

_VOCABULARY = """
the a this every one another some no such its their our quiet narrow early northern common steady hidden pale
formal brief river engine letter garden market window sentence harbour winter answer teacher signal bridge
valley question pattern morning archive traveller ledger rain copper meadow lantern village orchard carries
follows repeats measures opens keeps explains crosses remembers delays returns gathers balances reaches names
across under before without near toward beyond because while although where when if so that and but or yet
slowly often seldom almost again together café naïve Zürich 강물 번역 川 — “note” x=1 {key} 42 3.14
"""
_WORDS = _VOCABULARY.split()
_SENTENCE_WORDS = (4, 16)
_PARAGRAPH_SENTENCES = 8

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Book:
    """What answers are read from. `escaped[i]` is `words[i]` as it stands inside a JSON string, in UTF-8."""

    words: tuple[str, ...]
    escaped: tuple[bytes, ...]


def write_book() -> Book:
    """The book, the same in every process."""
    numbers = _numbers()
    words: list[str] = []
    while len(words) < BOOK_TOKENS:
        words += _sentence(numbers)
    return _book(words[:BOOK_TOKENS])


@dataclass(frozen=True, slots=True)
class Ending:
    """What the request says about the end of its answer. `natural_tokens` counts the end-of-text token."""

    natural_tokens: int
    tokens_max: int
    tokens_min: int = 0
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """`tokens` is how many the engine generates, the last one without text where the answer is `silent_end`ed.

    `finish_reason` is "stop" or "length"; `stop_reason` the stop string that ended it, None where none did.
    """

    book: Book
    start: int
    tokens: int
    finish_reason: str
    silent_end: bool = False
    stop_reason: str | None = None

    def text(self, first: int, count: int) -> str:
        """The text of `count` tokens from token `first` on."""
        return "".join(_cyclic(self.book.words, self.start + first, self._spoken(first, count)))

    def json_text(self, first: int, count: int) -> bytes:
        """The same as the inside of a JSON string, in UTF-8."""
        return b"".join(_cyclic(self.book.escaped, self.start + first, self._spoken(first, count)))

    def _spoken(self, first: int, count: int) -> int:
        return count - 1 if self.silent_end and first + count >= self.tokens else count


def natural_length(workload: Workload, key: int) -> int:
    """Tokens after which an answer ends by itself, the end-of-text token included; `key` chooses."""
    low, high = NATURAL_LENGTHS[workload]
    return low + (key >> 16) % (high - low + 1)


def answer(book: Book, key: int, ending: Ending) -> Answer:
    """The answer for `key` under the limits of its request, at least one token long."""
    start = key % len(book.words)
    natural_tokens = max(ending.natural_tokens, ending.tokens_min + 1)
    ends_itself = not ending.ignore_eos and natural_tokens <= ending.tokens_max
    tokens = natural_tokens if ends_itself else ending.tokens_max
    whole = Answer(book, start, tokens, "stop" if ends_itself else "length", silent_end=ends_itself)
    return _cut(whole, ending) if ending.stop else whole


def _cut(whole: Answer, ending: Ending) -> Answer:
    """The answer up to the first stop string completed after `tokens_min` tokens; like vLLM, without the string."""
    words = _cyclic(whole.book.words, whole.start, whole.tokens - whole.silent_end)
    text = "".join(words)
    earliest = len("".join(words[: ending.tokens_min]))
    found = [(at + len(stop), at, stop) for stop in ending.stop if (at := text.find(stop, earliest)) >= 0]
    if not found:
        return whole
    end, at, stop = min(found)
    kept: list[str] = []
    read = 0
    while read < end:
        word = words[len(kept)]
        kept.append(word[: max(0, at - read)])
        read += len(word)
    return Answer(_book(kept), 0, len(kept), "stop", stop_reason=stop)


def _book(words: list[str]) -> Book:
    escaped = tuple(json.dumps(word, ensure_ascii=False)[1:-1].encode() for word in words)
    return Book(tuple(words), escaped)


def _cyclic(items: tuple[Item, ...], start: int, count: int) -> tuple[Item, ...]:
    """`count` items from `start` on; after the last one comes the first again."""
    start %= len(items)
    end = start + count
    if end <= len(items):
        return items[start:end]
    turns, rest = divmod(end, len(items))
    return items[start:] + items * (turns - 1) + items[:rest]


def _numbers() -> Iterator[int]:
    """A fixed series that looks random: Knuth's linear congruential generator (MMIX), its better half."""
    state = 1
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def _sentence(numbers: Iterator[int]) -> list[str]:
    fewest, most = _SENTENCE_WORDS
    count = fewest + next(numbers) % (most - fewest + 1)
    words = [" " + _WORDS[next(numbers) % len(_WORDS)] for _ in range(count)]
    words[0] = " " + words[0][1:].capitalize()
    words[-1] += "." if next(numbers) % _PARAGRAPH_SENTENCES else ".\n\n"
    return words
