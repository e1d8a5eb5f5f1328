"""Whether speculative engines answer as plain ones do: greedy answers to the same prompts, compared token by token.

Speculation that is lossless changes no greedy answer but where two tokens are nearly as likely and rounding decides:
a batch of another size adds up in another order (vLLM's documentation calls it lossless "up to hardware numerics"), and
from there on the answers part for good. Of 50 greedy answers of a real pair in 32-bit arithmetic none parted
(docs/real-pair.md); with 16 bits some do. So one divergence means nothing, and what is judged is the share of answers
that differ within a window.

The plain engine is asked twice, as a control: where it does not even agree with itself nothing follows. State without
I/O: `equivalence_guard` asks the engines and does what is decided here.
"""

from collections import deque
from collections.abc import Iterable
from statistics import median

from msgspec import Struct

TOKENS = 32
"""Of each answer: a lossy acceptance shows within a few tokens, while rounding has parted few answers so early."""

PROMPTS = (
    "The capital of Iceland is",
    "In one sentence, a hash table is",
    "def fibonacci(n):\n    ",
    "Translate into French: The train leaves at noon.\n",
    "The first five prime numbers are",
    "SELECT name, price FROM products WHERE",
    "Water boils at 100 degrees Celsius because",
    '{"name": "Ada", "born": 1815, "fields": [',
    "Dear team,\nthe meeting on Thursday",
    "A recipe for pancakes. You need:\n-",
    "The difference between TCP and UDP is that",
    "Once upon a time there was a lighthouse that",
    "Question: What is 17 times 23?\nAnswer:",
    "for (int i = 0; i < n; i++) {",
    "The planets of the solar system, from the sun outwards:",
    "Summary: The article describes how bees",
    "Übersetze ins Englische: Der Zug fährt um zwölf Uhr.\n",
    "import json\n\nwith open(",
    "To change the tyre of a bicycle, first",
    "The opposite of transparent is",
)
"""Ours, so that nobody's prompt is ever sent twice: prose, code, data and other languages. One pass is a window."""


class Answer(Struct, frozen=True):
    """What an engine said; `token_ids` are None where it does not tell them."""

    text: str
    token_ids: tuple[int, ...] | None = None


class Rule(Struct, frozen=True):
    """An engine is judged by its last `window` answers: broken where more than `divergence_max` of them differ."""

    window: int
    divergence_max: float


class Finding(Struct, frozen=True):
    """What is believed of one engine now. `share` of `answers` differed, in the middle at token `parted_at`.

    `broken`: too many, and the plain engine agrees with itself. `parted_at` counts characters where ids are not told.
    """

    share: float
    answers: int
    parted_at: float | None = None
    broken: bool = False


def parted_at(one: Answer, other: Answer) -> int | None:
    """The first token, or character where ids are not told, in which two answers differ; None: they are the same."""
    if one.token_ids is not None and other.token_ids is not None:
        return _first_difference(one.token_ids, other.token_ids)
    return _first_difference(one.text, other.text)


def _first_difference(one: tuple[int, ...] | str, other: tuple[int, ...] | str) -> int | None:
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))


class Equivalence:
    """The last comparisons of every engine; of plain ones with themselves, of speculative ones with a plain one."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._seen: dict[str, deque[int | None]] = {}
        self._broken: dict[str, bool] = {}

    def reconfigure(self, rule: Rule) -> None:
        """Judge by this from now on; the last comparisons count as far as its window reaches."""
        self._rule = rule
        self._seen = {backend: deque(seen, rule.window) for backend, seen in self._seen.items()}

    def compared(self, backend: str, reference: str, parted: int | None, control: int | None) -> Finding:
        """An engine answered beside `reference`, which also answered twice itself (`control`); what follows now."""
        self._note(reference, control)
        self._note(backend, parted)
        share = self._share(backend)
        full = len(self._seen[backend]) == self._rule.window
        limit = self._rule.divergence_max
        self._broken[backend] = full and share > limit >= self._share(reference)
        return self.found(backend)

    def found(self, backend: str) -> Finding:
        """What is believed of an engine that was compared; KeyError for another one."""
        seen = self._seen[backend]
        parted = [place for place in seen if place is not None]
        return Finding(
            share=self._share(backend),
            answers=len(seen),
            parted_at=median(parted) if parted else None,
            broken=self._broken.get(backend, False),
        )

    def findings(self) -> dict[str, Finding]:
        """Of every engine that was compared."""
        return {backend: self.found(backend) for backend in self._seen}

    def forget(self, backends: Iterable[str]) -> None:
        """These begin anew: other engines have their names now, or they were taken out and came back."""
        for backend in backends:
            self._seen.pop(backend, None)
            self._broken.pop(backend, None)

    def _note(self, backend: str, parted: int | None) -> None:
        self._seen.setdefault(backend, deque(maxlen=self._rule.window)).append(parted)

    def _share(self, backend: str) -> float:
        seen = self._seen[backend]
        return sum(place is not None for place in seen) / len(seen)
