"""How long answers get, by class, and how many tokens a prompt of so many bytes has."""

from breakeven_policies.fading import Fading

REMEMBERED = 200.0
"""Answers of a class that count: lengths differ by their own mean, and the mean of 200 by 7 per cent."""

LEANING = 5.0
"""Answers that the mean of all classes weighs in each."""

PROMPT_TOKENS = 250.0
"""A prompt until one was seen: a chat of some turns."""

TOKENS_PER_BYTE = 0.25
"""English text in JSON, about four bytes to a token, until engines say their own counts."""


class Lengths:
    """Of all pools together: what a model answers does not depend on how it is served."""

    def __init__(self) -> None:
        self._classes: dict[str, Fading] = {}
        self._all = Fading(REMEMBERED)
        self._bytes = Fading(REMEMBERED)
        self._prompts = Fading(REMEMBERED)

    def observe(
        self,
        workload: str,
        completion_tokens: float | None,
        prompt_bytes: int | None,
        prompt_tokens: int | None,
        now_s: float,
    ) -> None:
        """An answer has ended; None: nobody counted."""
        if completion_tokens:
            self._classes.setdefault(workload, Fading(REMEMBERED)).add(completion_tokens, now_s)
            self._all.add(completion_tokens, now_s)
        if prompt_tokens:
            self._prompts.add(float(prompt_tokens), now_s)
        elif prompt_bytes:
            self._prompts.add(prompt_bytes * self.tokens_per_byte, now_s)
        if prompt_bytes and prompt_tokens:
            self._bytes.add(float(prompt_tokens), now_s, float(prompt_bytes))

    @property
    def mean(self) -> float | None:
        """Completion tokens of a request of any class; None: unknown."""
        return self._all.mean

    @property
    def prompt_length(self) -> float:
        """Mean tokens of a prompt."""
        mean = self._prompts.mean
        return PROMPT_TOKENS if mean is None else mean

    @property
    def tokens_per_byte(self) -> float:
        """Prompt tokens per byte of the body, at most one."""
        mean = self._bytes.mean
        return TOKENS_PER_BYTE if mean is None else min(1.0, mean)

    def by_class(self) -> dict[str, float]:
        """Mean completion tokens of each class that was seen."""
        overall = self._all.mean or 0.0
        return {
            workload: (length.weight * (length.mean or overall) + LEANING * overall) / (length.weight + LEANING)
            for workload, length in self._classes.items()
        }
