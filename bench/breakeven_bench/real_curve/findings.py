"""What a result says, in sentences: each is computed, and one that the figures do not carry is not said."""

from collections.abc import Iterable, Sequence
from statistics import median

from breakeven_bench.real_curve.result import (
    BASELINE,
    DIRECT,
    GREEDY,
    PROBABILISTIC,
    ROUTER,
    Acceptance,
    Comparison,
    Result,
    Sample,
)
from breakeven_bench.real_curve.timing import COMPARISONS_MIN, Place, Spread, Word, places, relay_cost, speed_up, word

SPECULATIVE = (GREEDY, PROBABILISTIC)

DRAFTING = {GREEDY: "greedy drafting (vLLM's default)", PROBABILISTIC: "probabilistic drafting"}

_VERB = {Word.PAYS: "pays", Word.COSTS: "does not pay", Word.OPEN: "may pay or not"}

NEAR_TIE_NATS = 0.05
"""Two tokens whose probabilities differ by less than a twentieth: bfloat16 keeps three digits of a logit near 20, and
rounding there moves it by up to 0.06."""


def findings(result: Result) -> tuple[str, ...]:
    """What was found, the most important first."""
    told = (
        *(_where(result.samples, engine) for engine in SPECULATIVE),
        *(_acceptance(result.acceptance, engine) for engine in SPECULATIVE),
        _router(result.samples),
        _greedy(result.comparison),
    )
    return tuple(sentence for sentence in told if sentence is not None)


def verdict(samples: Sequence[Sample], engine: str, place: Place) -> Word:
    """Whether speculation pays there, through the router and without it."""
    return word(*(speed_up(samples, engine, path, place) for path in (ROUTER, DIRECT)))


def _where(samples: Sequence[Sample], engine: str) -> str | None:
    """Where it pays, where it does not, and where nothing can be said."""
    measured = [place for place in places(samples) if speed_up(samples, engine, ROUTER, place)]
    if not measured:
        return None
    by_word = {each: [place for place in measured if verdict(samples, engine, place) is each] for each in Word}
    parts = [f"{_VERB[each]} {_listed(found)}" for each, found in by_word.items() if found]
    return f"With {DRAFTING[engine]}, speculation {'; '.join(parts)}."


def _listed(found: Iterable[Place]) -> str:
    said = [f"at T = {place.temperature:g} with {place.concurrency} at a time" for place in found]
    return ", ".join(said)


def _acceptance(points: Sequence[Acceptance], engine: str) -> str | None:
    """How far acceptance falls over the temperatures."""
    curve = sorted((point for point in points if point.engine == engine), key=lambda point: point.temperature)
    if len(curve) < 2:
        return None
    cold, hot = curve[0], curve[-1]
    kept = (hot.length - 1.0) / (cold.length - 1.0) if cold.length > 1.0 else None
    share = "" if kept is None else f": {kept:.0%} of what drafts yield at T = {cold.temperature:g} is left"
    return (
        f"With {DRAFTING[engine]}, a verification yields {cold.length:.2f} tokens at T = {cold.temperature:g} and "
        f"{hot.length:.2f} at T = {hot.temperature:g}{share}."
    )


def _router(samples: Sequence[Sample]) -> str | None:
    """What the router adds to the time per token, by concurrency, and whether the rounds agree on a sign."""
    costs = [
        (place.concurrency, cost)
        for place in places(samples)
        for engine in (BASELINE, *SPECULATIVE)
        if (cost := relay_cost(samples, engine, place)) is not None
    ]
    if not costs:
        return None
    by_concurrency = [
        (streams, [cost.median - 1.0 for at, cost in costs if at == streams])
        for streams in sorted({streams for streams, _ in costs})
    ]
    said = ", ".join(
        f"{median(shares):+.1%} with {streams} at a time ({min(shares):+.1%} to {max(shares):+.1%})"
        for streams, shares in by_concurrency
    )
    slower, faster = (sum(agree(cost) for _, cost in costs) for agree in (_is_slower, _is_faster))
    return (
        f"Through the router the time per output token differed by {said}: slower in every round in {slower} of "
        f"{len(costs)} cells, faster in every round in {faster}."
    )


def _is_slower(cost: Spread) -> bool:
    return cost.low > 1.0


def _is_faster(cost: Spread) -> bool:
    return cost.high < 1.0


def _greedy(comparison: Comparison) -> str:
    """How many greedy answers part, and whether rounding explains it."""
    parted = comparison.divergences
    said = f"Greedy answers of both pools: {len(parted)} of {comparison.prompts} differ"
    if not parted:
        return f"{said} ({comparison.tokens} tokens compared)."
    ties = sum(is_near_tie(each.plain_lead) for each in parted)
    return (
        f"{said} ({comparison.tokens} tokens compared); in {ties} of these the plain engine's choice led by less than "
        f"{NEAR_TIE_NATS:g} nats, which rounding can turn."
    )


def is_near_tie(lead: float | None) -> bool:
    """Whether rounding can turn a choice with this lead; an unknown lead explains nothing."""
    return lead is not None and abs(lead) < NEAR_TIE_NATS


def words_by_chance(samples: Sequence[Sample]) -> float:
    """How many places would be decided were nothing to be found, if all comparisons were independent.

    All n comparisons of a place fall on one side with probability 2^(1-n).
    """
    expected = 0.0
    for place in places(samples):
        for engine in SPECULATIVE:
            ratios = [speed_up(samples, engine, path, place) for path in (ROUTER, DIRECT)]
            comparisons = sum(ratio.rounds for ratio in ratios if ratio is not None)
            expected += 2.0 ** (1 - comparisons) if comparisons >= COMPARISONS_MIN else 0.0
    return expected


def too_few_comparisons(samples: Iterable[Sample]) -> bool:
    """Whether no verdict can be had, whatever the figures are."""
    return len({(sample.round, sample.path) for sample in samples}) < COMPARISONS_MIN
