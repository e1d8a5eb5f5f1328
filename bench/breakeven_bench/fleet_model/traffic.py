"""The requests of a run, drawn from a seed: when they come, what they ask, and what only the engine will know.

All arms of a comparison get the same requests with the same luck: a request's accepted drafts are read from one long
row of random numbers at a place of its own, wherever it is served.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from breakeven_bench.fleet_model.worlds import LONG_PROMPT_TOKENS, World, scattered
from breakeven_policies.request import RequestView

Value = TypeVar("Value")

MODEL = "model"
ENDPOINT = "/v1/chat/completions"

MAX_TOKENS = 1024
"""What clients allow: a round number far above what they get, so that it tells a policy nothing about the length."""

BYTES_PER_TOKEN = (3.2, 4.8)
"""A router sees bytes; how many make a token differs from prompt to prompt."""

USAGE_SHARE = 0.5
"""Clients that ask for `usage`, or for an answer in one piece, which has it (assumption)."""

DRAWS = 1 << 18
"""Numbers in the row of luck: neighbours rarely share a stretch of it."""


@dataclass(frozen=True, slots=True)
class Category:
    """A kind of request: its weight among 500, and the ranges of prompts and answers in tokens."""

    name: str
    weight: int
    prompt_tokens: tuple[int, int]
    output_tokens: tuple[int, int]


CATEGORIES = (
    Category("short_qa", 150, (20, 60), (50, 100)),
    Category("summarization", 100, (700, 1400), (150, 300)),
    Category("code", 80, (60, 200), (100, 500)),
    Category("creative", 50, (40, 100), (300, 800)),
    Category("translation", 70, (60, 300), (100, 300)),
    Category("structured", 50, (100, 300), (50, 200)),
)
"""Weights and answers are the user's; prompts follow his words ("one or two sentences", "500 to 1,000 words")."""

BLOCK = sum(category.weight for category in CATEGORIES)
"""The user's 500 prompts."""

TEMPERATURES = ((0.0, 25), (0.3, 15), (0.5, 12), (0.7, 25), (1.0, 15), (1.2, 5), (1.5, 3))
"""Temperature and its share in percent: 8 % above 1.0 as in design section 1, the rest is ours."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a run: `place` is where its luck begins, `view` all that a policy may know of it beforehand.

    `tells_usage`: its answer says how many tokens it has.
    """

    index: int
    at_s: float
    category: str
    prompt_tokens: int
    output_tokens: int
    acceptance: float
    place: int
    view: RequestView
    tells_usage: bool = True


@dataclass(frozen=True, slots=True)
class Traffic:
    """The requests in order of arrival, and the luck: exponential numbers of mean 1."""

    arrivals: tuple[Arrival, ...]
    luck: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request is about, before chance and world have their say."""

    at_s: float
    category: str
    prompt_tokens: int
    output_tokens: int


def mixed(count: int, rate_per_s: float, seed: int) -> list[Asked]:
    """`count` requests of the six categories, bunched as a Poisson process is.

    Every `BLOCK` requests are the user's prompts once, in another order, and fill exactly their share of the time: two
    parts of a run then hold the same work, and only its order and bunching differ.
    """
    rng = np.random.default_rng((seed, 1))
    asked: list[Asked] = []
    while len(asked) < count:
        gaps = rng.exponential(1.0, BLOCK)
        times = (np.cumsum(gaps) / gaps.sum() * BLOCK + len(asked)) / rate_per_s
        prompts = [
            (category, (place + 0.5) / category.weight) for category in CATEGORIES for place in range(category.weight)
        ]
        lengths = rng.random(BLOCK)
        for index, which in enumerate(rng.permutation(BLOCK).tolist()):
            category, share = prompts[which]
            prompt = _between(category.prompt_tokens, float(lengths[index]))
            asked.append(Asked(float(times[index]), category.name, prompt, _between(category.output_tokens, share)))
    return asked[:count]


def traffic(asked: Sequence[Asked], world: World, seed: int) -> Traffic:
    """Give every request its temperature, its acceptance in this world, its luck, and what a policy will see of it."""
    rng = np.random.default_rng((seed, 2))
    count = len(asked)
    temperatures = _dealt(TEMPERATURES, count, rng)
    normals, tickets, per_token = rng.standard_normal(count), rng.random(count), rng.uniform(*BYTES_PER_TOKEN, count)
    long_percent = round(100 * world.long_prompt_share)
    is_long = _dealt(((True, long_percent), (False, 100 - long_percent)), count, rng)
    places = rng.integers(0, DRAWS, count)
    tells_usage = rng.random(count) < USAGE_SHARE
    longest = max(each.output_tokens for each in asked)
    luck = rng.exponential(1.0, DRAWS + longest)
    arrivals = []
    for index, each in enumerate(asked):
        temperature = temperatures[index]
        prompt_tokens = LONG_PROMPT_TOKENS if is_long[index] else each.prompt_tokens
        acceptance = scattered(world.acceptance(temperature, each.category, index), float(normals[index]))
        prompt_bytes = round(prompt_tokens * float(per_token[index]))
        view = _view(temperature, prompt_bytes, float(tickets[index]))
        arrivals.append(
            Arrival(
                index,
                each.at_s,
                each.category,
                prompt_tokens,
                each.output_tokens,
                acceptance,
                int(places[index]),
                view,
                bool(tells_usage[index]),
            )
        )
    return Traffic(tuple(arrivals), luck)


def _dealt(shares: Sequence[tuple[Value, int]], count: int, rng: np.random.Generator) -> list[Value]:
    """`count` values, dealt so that every hundred of them have exactly these shares, which are percentages."""
    hundred = [value for value, share in shares for _ in range(share)]
    dealt: list[Value] = []
    while len(dealt) < count:
        dealt += [hundred[which] for which in rng.permutation(len(hundred)).tolist()]
    return dealt[:count]


def _between(bounds: tuple[int, int], share: float) -> int:
    low, high = bounds
    return low + int((high - low + 1) * share)


def _view(temperature: float, prompt_bytes: int, ticket: float) -> RequestView:
    return RequestView(
        model=MODEL,
        endpoint=ENDPOINT,
        stream=True,
        temperature=temperature,
        temperature_defaulted=False,
        top_p=1.0,
        top_k=0,
        min_p=0.0,
        has_logit_bias=False,
        prompt_bytes=prompt_bytes,
        max_output_tokens=MAX_TOKENS,
        sequences=1,
        ticket=ticket,
    )
