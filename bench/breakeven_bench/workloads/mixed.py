"""The mixed workload: six categories and seven temperatures in fixed proportions, evenly spread over a run.

Every stretch of a run holds nearly the same mix. Categories, temperatures and answer lengths are each spread by
themselves, at random within equal strata: a run of a minute then measures the arms, and not whether its second half
happened to hold the long answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from breakeven_bench.planned import PlannedRequest
from breakeven_bench.workloads import prompts

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Category:
    """A kind of request: its weight among 500, the range of its answers in tokens, its texts."""

    name: str
    weight: int
    output_tokens_min: int
    output_tokens_max: int
    texts: tuple[str, ...]


CATEGORIES = (
    Category("short_qa", 150, 50, 100, prompts.SHORT_QA),
    Category("summarization", 100, 150, 300, prompts.SUMMARISATION),
    Category("code_generation", 80, 100, 500, prompts.CODE),
    Category("creative_writing", 50, 300, 800, prompts.CREATIVE),
    Category("translation", 70, 100, 300, prompts.TRANSLATION),
    Category("structured_output", 50, 50, 200, prompts.STRUCTURED),
)
"""The user's document: proportions of its 500 prompts and the expected length of their answers."""

TEMPERATURES = ((0.0, 25), (0.3, 15), (0.5, 12), (0.7, 25), (1.0, 15), (1.2, 5), (1.5, 3))
"""Temperature and its share in percent. The values are the user's; 8 % above 1.0 as in design section 1; the rest is
ours.
"""


def mixed(count: int, seed: int, temperature: float | None = None) -> tuple[PlannedRequest, ...]:
    """The first `count` requests of the workload; with `temperature`, all of them at that one."""
    rng = np.random.default_rng(seed)
    categories = spread([(category, category.weight) for category in CATEGORIES], count, rng)
    temperatures = spread(TEMPERATURES if temperature is None else [(temperature, 1)], count, rng)
    seeds = rng.integers(0, 2**31, count)
    lengths = {category.name: iter(_lengths(category, categories, rng)) for category in CATEGORIES}
    taken = dict.fromkeys(lengths, 0)
    planned = []
    for index, (category, warmth) in enumerate(zip(categories, temperatures, strict=True)):
        which = taken[category.name] % len(category.texts)
        taken[category.name] += 1
        planned.append(
            PlannedRequest(
                index=index,
                prompt_id=f"{category.name}-{which}",
                category=category.name,
                prompt=category.texts[which],
                temperature=warmth,
                max_tokens=category.output_tokens_max,
                output_tokens=next(lengths[category.name]),
                seed=int(seeds[index]),
            )
        )
    return tuple(planned)


def shares(weights: Sequence[tuple[Value, int]], count: int) -> list[tuple[Value, int]]:
    """Whole numbers that add up to `count` in proportion to the weights, by largest remainders."""
    total = sum(weight for _, weight in weights)
    whole = [(value, count * weight // total, count * weight % total) for value, weight in weights]
    missing = count - sum(number for _, number, _ in whole)
    by_remainder = sorted(range(len(whole)), key=lambda index: -whole[index][2])
    lucky = set(by_remainder[:missing])
    return [(value, number + (index in lucky)) for index, (value, number, _) in enumerate(whole)]


def spread(weights: Sequence[tuple[Value, int]], count: int, rng: np.random.Generator) -> list[Value]:
    """`count` values in proportion, each value once in each of as many equal strata as it occurs."""
    placed: list[tuple[float, Value]] = []
    for value, number in shares(weights, count):
        placed += [((stratum + float(rng.random())) / number, value) for stratum in range(number)]
    placed.sort(key=lambda place: place[0])
    return [value for _, value in placed]


def _lengths(category: Category, categories: Sequence[Category], rng: np.random.Generator) -> list[int]:
    """Answer lengths for every occurrence of the category: evenly over its range, in random order."""
    number = sum(member is category for member in categories)
    span = category.output_tokens_max - category.output_tokens_min
    evenly = [category.output_tokens_min + round(span * (place + 0.5) / number) for place in range(number)]
    return [evenly[place] for place in rng.permutation(number)]
