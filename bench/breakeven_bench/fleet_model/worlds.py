"""What decides whether a draft is accepted: five worlds, of which a policy is told nothing.

An acceptance is the conditional probability that a draft token is accepted, given that all before it were. Each
request's own differs from that of its kind by chance (`SCATTER`): published per-request acceptance varies widely (arXiv
2601.11580), and no router can know it beforehand.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi

from breakeven_policies.prior import expected_acceptance_length, prior_at

ACCEPTANCE_MIN = 0.02
ACCEPTANCE_MAX = 0.95

SCATTER = 0.04
"""Standard deviation between requests of one kind: at k=3 some 5 % of acceptance length (assumption)."""

FLAT = 0.68
"""The table's mean over the temperatures of the load: the worlds differ in shape, not in level."""

DOMAIN = {
    "short_qa": 0.68,
    "summarization": 0.74,
    "code": 0.86,
    "creative": 0.5,
    "translation": 0.6,
    "structured": 0.84,
}
"""By the kind of text. AMD's EAGLE-3 lengths at k=3, coding 3.32 and role-play 2.01, are .86 and .55."""

DRIFT_REQUESTS = 1000
"""Requests from best to worst and back: as many as one judged part of a run, so that all parts see the same mean."""

DRIFT_DEPTH = 0.35
"""Share of the acceptance that is lost at the worst moment."""

LONG_PROMPT_TOKENS = 3000
LONG_PROMPT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class World:
    """`acceptance` of a temperature, a category and the number of the request; share of prompts that are long."""

    name: str
    title: str
    acceptance: Callable[[float, str, int], float]
    long_prompt_share: float = 0.0


def _falls(temperature: float, category: str, index: int) -> float:  # noqa: ARG001  # all worlds are asked alike
    return prior_at(temperature).acceptance


def _flat(temperature: float, category: str, index: int) -> float:  # noqa: ARG001
    return FLAT


def _domain(temperature: float, category: str, index: int) -> float:  # noqa: ARG001
    return DOMAIN.get(category, FLAT)


def _drifts(temperature: float, category: str, index: int) -> float:
    phase = 2.0 * pi * index / DRIFT_REQUESTS
    return _falls(temperature, category, index) * (1.0 - DRIFT_DEPTH * (1.0 - cos(phase)) / 2.0)


WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        World("falls", "acceptance falls with temperature", _falls),
        World("flat", "acceptance does not depend on temperature", _flat),
        World("domain", "acceptance depends on the kind of text", _domain),
        World("drifts", "acceptance drifts during the run", _drifts),
        World("long", "a quarter of prompts of 3,000 tokens", _falls, LONG_PROMPT_SHARE),
    )
}


def scattered(acceptance: float, normal: float) -> float:
    """A request's own acceptance, by one number drawn from the standard normal distribution."""
    return min(ACCEPTANCE_MAX, max(ACCEPTANCE_MIN, acceptance + SCATTER * normal))


def tokens_per_step(acceptance: float, drafts: int) -> float:
    """Expected tokens of a verify step with so many drafts."""
    return expected_acceptance_length(acceptance, drafts)
