"""Compares greedy answers token by token, and says of the first difference what it was about.

Speculation may not change a greedy answer: a draft is accepted where it is what the target itself would say. Where the
two leading tokens are all but equally likely, rounding decides, and rounding depends on how many tokens a step
computes. So a difference is explained by the lead that the plain engine's choice had there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SHOWN_TOKENS = 8
"""Of each continuation: enough to see whether two sentences or two spellings part."""


class NoAnswerError(Exception):
    """An answer without a choice and the log-probabilities of its tokens."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token of an answer, its log-probability, and that of the strongest other; None: not told."""

    text: str
    logprob: float
    other: str | None
    other_logprob: float | None


@dataclass(frozen=True, slots=True)
class Divergence:
    """`position` tokens agree, then the answers part. The continuations begin with the differing token.

    `plain_lead`: by how much, in nats, the plain engine preferred its token to the strongest other; None: not told.
    `is_runner_up`: whether the speculative engine's token is that other one. A continuation that is empty: the answer
    had ended.
    """

    prompt_id: str
    position: int
    plain: str
    speculative: str
    plain_lead: float | None
    is_runner_up: bool


def tokens_of(answer: Any) -> tuple[Token, ...]:
    """The tokens of a chat completion that was asked for `top_logprobs` of 2. Raises NoAnswerError."""
    try:
        return tuple(_token(entry) for entry in answer["choices"][0]["logprobs"]["content"])
    except (IndexError, KeyError, TypeError) as error:
        message = f"an answer without the log-probabilities of its tokens: {error!r}"
        raise NoAnswerError(message) from error


def _token(entry: Any) -> Token:
    others = [other for other in entry["top_logprobs"] if other["token"] != entry["token"]]
    strongest = max(others, key=lambda other: other["logprob"], default=None)
    return Token(
        text=entry["token"],
        logprob=entry["logprob"],
        other=None if strongest is None else strongest["token"],
        other_logprob=None if strongest is None else strongest["logprob"],
    )


def divergence(prompt_id: str, plain: Sequence[Token], speculative: Sequence[Token]) -> Divergence | None:
    """Where two answers to the same prompt part; None where they do not."""
    shorter = min(len(plain), len(speculative))
    position = next((at for at in range(shorter) if plain[at].text != speculative[at].text), shorter)
    if position == len(plain) == len(speculative):
        return None
    here = plain[position] if position < len(plain) else None
    there = speculative[position] if position < len(speculative) else None
    return Divergence(
        prompt_id=prompt_id,
        position=position,
        plain=_shown(plain, position),
        speculative=_shown(speculative, position),
        plain_lead=None if here is None or here.other_logprob is None else here.logprob - here.other_logprob,
        is_runner_up=here is not None and there is not None and here.other == there.text,
    )


def _shown(tokens: Sequence[Token], position: int) -> str:
    return "".join(token.text for token in tokens[position : position + SHOWN_TOKENS])
