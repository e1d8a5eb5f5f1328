"""Compares times that were taken round by round: within a round everybody meets the same prompts and the same noise.

A figure of a round is the median of its answers; arms are compared within each round, and it is the rounds that agree
or do not. With so few of them no interval is computed: the smallest and the largest are shown, and a word needs them
all on one side, on both ways to the engines. The ways are timed at different moments and count as comparisons of
their own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from breakeven_bench.real_curve.result import BASELINE, DIRECT, ROUTER, Sample

COMPARISONS_MIN = 4
"""Rounds on all paths together. Fewer agree too easily by chance: four do so once in eight times where nothing is to be
found, ten once in five hundred; more often as far as both ways of a round share its noise."""


class Word(StrEnum):
    """What may be said of speculation in one place."""

    PAYS = "pays"
    COSTS = "does not pay"
    OPEN = "undecided"


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the smallest and the largest of `rounds` rounds; `n` answers are behind it."""

    median: float
    low: float
    high: float
    rounds: int
    n: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where two arms are compared: temperature and concurrency."""

    temperature: float
    concurrency: int


def rounds_of(samples: Iterable[Sample], engine: str, path: str, place: Place) -> Mapping[int, Sequence[float]]:
    """The answers' times of one cell by round; rounds without any are left out."""
    return {
        sample.round: sample.tpot_ms
        for sample in samples
        if (sample.engine, sample.path) == (engine, path)
        and Place(sample.temperature, sample.concurrency) == place
        and sample.tpot_ms
    }


def tpot_ms(samples: Iterable[Sample], engine: str, path: str, place: Place) -> Spread | None:
    """Milliseconds per output token of one cell; None where it was not measured."""
    rounds = rounds_of(samples, engine, path, place)
    medians = {number: median(times) for number, times in rounds.items()}
    return _spread(medians.values(), sum(len(times) for times in rounds.values()))


def speed_up(samples: Sequence[Sample], engine: str, path: str, place: Place) -> Spread | None:
    """The baseline's time per token over this engine's, round by round: above 1, speculation is faster."""
    return _ratio(rounds_of(samples, BASELINE, path, place), rounds_of(samples, engine, path, place))


def relay_cost(samples: Sequence[Sample], engine: str, place: Place) -> Spread | None:
    """Time per token through the router over that without it, round by round."""
    return _ratio(rounds_of(samples, engine, ROUTER, place), rounds_of(samples, engine, DIRECT, place))


def word(*speed_ups: Spread | None) -> Word:
    """What these say together: a side only where every round of each is on it, and there are enough of them."""
    known = [each for each in speed_ups if each is not None]
    if sum(each.rounds for each in known) < COMPARISONS_MIN:
        return Word.OPEN
    if all(each.low > 1.0 for each in known):
        return Word.PAYS
    if all(each.high < 1.0 for each in known):
        return Word.COSTS
    return Word.OPEN


def places(samples: Iterable[Sample]) -> tuple[Place, ...]:
    """All places that were measured, by temperature and then by concurrency."""
    found = {(sample.temperature, sample.concurrency) for sample in samples}
    return tuple(Place(*place) for place in sorted(found))


def _ratio(above: Mapping[int, Sequence[float]], below: Mapping[int, Sequence[float]]) -> Spread | None:
    """Medians over medians in the rounds that both have; `n` counts the answers of the smaller side."""
    both = sorted(above.keys() & below.keys())
    ratios = [median(above[number]) / median(below[number]) for number in both]
    return _spread(ratios, min(sum(len(side[number]) for number in both) for side in (above, below)))


def _spread(values: Iterable[float], n: int) -> Spread | None:
    found = list(values)
    return Spread(median(found), min(found), max(found), len(found), n) if found else None
