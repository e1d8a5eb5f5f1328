"""The closing lines of a report, each put together from verdicts and never known before they were."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from breakeven_bench.arms import ALWAYS_SPECULATIVE, LEAST_LOADED, THRESHOLD, TWO_SPECULATIVE, Arm
from breakeven_bench.verdict import NO_REFERENCE, Run, Verdict, Word, best_equal_hardware, compare, fastest_sound


@dataclass(frozen=True, slots=True)
class RateRuns:
    """All arms at one rate: the same requests at the same times."""

    rate_per_s: float
    runs: tuple[Run, ...]

    def run(self, name: str) -> Run | None:
        """The arm of that name, None where it did not take part."""
        return next((run for run in self.runs if run.arm.name == name), None)


Answer = Callable[[RateRuns, int], str | None]
"""What can be said at one rate, with the seed of the resampling; None: nothing."""


def conclusions(rates: Sequence[RateRuns], seed: int) -> tuple[str, ...]:
    """One sentence for each question that the arms present can answer, and one about what is not to be believed."""
    lines = [
        _across("The threshold rule against the best equal-hardware arm", rates, _threshold_against_best, seed),
        _across(
            "The same rule against always speculative on the same two engines",
            rates,
            _against(ALWAYS_SPECULATIVE),
            seed,
        ),
        _across("The same rule against least loaded on the same two engines", rates, _against(LEAST_LOADED), seed),
        _across("The best use of a split pair against two EAGLE-3 engines", rates, _split_against_two, seed),
        _split_tally(rates, seed),
        _saturation(rates),
        _warning(rates),
    ]
    return tuple(line for line in lines if line)


def _across(question: str, rates: Sequence[RateRuns], answer: Answer, seed: int) -> str | None:
    """The answers at all rates in one sentence."""
    found = [(at.rate_per_s, text) for at in rates if (text := answer(at, seed))]
    if not found:
        return None
    return f"{question}: " + "; ".join(f"at {rate:g}/s {text}" for rate, text in found) + "."


def _threshold_against_best(at: RateRuns, seed: int) -> str | None:
    rule, best = at.run(THRESHOLD.name), best_equal_hardware(at.runs)
    if rule is None or not any(run.arm.is_equal_hardware for run in at.runs):
        return None
    if best is None:
        return NO_REFERENCE
    return f"{_said(compare(rule, best, seed))} ({best.arm.title})"


def _against(arm: Arm) -> Answer:
    """What the threshold rule does against another use of its own two engines."""

    def answer(at: RateRuns, seed: int) -> str | None:
        rule, other = at.run(THRESHOLD.name), at.run(arm.name)
        return None if rule is None or other is None else _said(compare(rule, other, seed))

    return answer


def _split_against_two(at: RateRuns, seed: int) -> str | None:
    best, two = _best_split(at), at.run(TWO_SPECULATIVE.name)
    if two is None or all(run.arm.is_equal_hardware for run in at.runs):
        return None
    if best is None:
        return "no split arm is valid and settled"
    return f"{_said(compare(best, two, seed))} ({best.arm.title})"


def _split_tally(rates: Sequence[RateRuns], seed: int) -> str | None:
    """How often two speculative engines beat every way of splitting them."""
    words = [_split_word(at, seed) for at in rates]
    judged = [word for word in words if word is not None]
    if not judged:
        return None
    beaten = sum(word in (Word.SLOWER, Word.UNSTABLE) for word in judged)
    ahead = sum(word is Word.FASTER for word in judged)
    return (
        f"Two EAGLE-3 engines beat every way of splitting the pair at {beaten} of {len(judged)} rates; "
        f"a split beat them at {ahead}."
    )


def _split_word(at: RateRuns, seed: int) -> Word | None:
    """The best split's verdict against two speculative engines; UNSTABLE where they settle and no split does."""
    best, two = _best_split(at), at.run(TWO_SPECULATIVE.name)
    split = [run for run in at.runs if not run.arm.is_equal_hardware]
    if two is None or not two.is_sound or not split or any(run.doubts for run in split):
        return None
    if best is not None:
        return compare(best, two, seed).word
    return Word.UNSTABLE if all(run.summary.settled is False for run in split) else None


def _best_split(at: RateRuns) -> Run | None:
    return fastest_sound([run for run in at.runs if not run.arm.is_equal_hardware])


def _saturation(rates: Sequence[RateRuns]) -> str | None:
    """Which arms fell behind, and from which rate on; None where no arm can be judged."""
    judged = [
        (at.rate_per_s, run) for at in rates for run in at.runs if not run.doubts and run.summary.settled is not None
    ]
    if not judged:
        return None
    first: dict[str, float] = {}
    for rate, run in judged:
        if run.summary.settled is False:
            first.setdefault(run.arm.title, rate)
    if not first:
        return f"Every arm that can be judged kept up, up to {judged[-1][0]:g}/s."
    named = ", ".join(f"{title} at {rate:g}/s" for title, rate in first.items())
    return f"These fell behind their arrivals, so that their means grow with the length of the run: {named}."


def _warning(rates: Sequence[RateRuns]) -> str | None:
    """How many figures are not to be believed; the table says why."""
    doubted = [(at, sum(bool(run.doubts) for run in at.runs)) for at in rates]
    named = [f"{number} of {len(at.runs)} arms at {at.rate_per_s:g}/s" for at, number in doubted if number]
    if not named:
        return None
    return (
        f"Not to be believed: {', '.join(named)}; the table says why. "
        "This computer was too busy for the time scale: a lower one gives it more time."
    )


def _said(verdict: Verdict) -> str:
    """The verdict as part of a sentence; the backlog of an unstable arm stands in the table."""
    return str(verdict.word) if verdict.word in (Word.UNSTABLE, Word.INVALID) else verdict.text
