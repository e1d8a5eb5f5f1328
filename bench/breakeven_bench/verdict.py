"""What may be said about one arm against another on the same requests: a word, and the interval behind it.

The order of the questions is fixed: are the figures to be believed, did both arms settle, is there a difference that
its interval does not let pass for chance. A mean of an arm that did not settle grows with the length of the run, so
that no difference is given for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from breakeven_bench.arms import Arm
from breakeven_bench.engine_page import StepCounts
from breakeven_bench.stats import Estimate, paired_ratio
from breakeven_bench.summary import Summary

NO_REFERENCE = "no equal-hardware arm is valid and settled"


class Word(StrEnum):
    """The outcome of a comparison."""

    REFERENCE = "reference"
    NO_DIFFERENCE = "no difference"
    FASTER = "faster by"
    SLOWER = "slower by"
    UNSTABLE = "unstable"
    INVALID = "INVALID"
    UNKNOWN = "not comparable"


@dataclass(frozen=True, slots=True)
class Run:
    """One arm at one rate: its figures and the doubts about them; `steps` of its engines, None for real ones."""

    arm: Arm
    summary: Summary
    doubts: tuple[str, ...] = ()
    steps: StepCounts | None = None

    @property
    def is_sound(self) -> bool:
        """Whether its mean means something: believed, settled, and measured on what was sent."""
        return not self.doubts and self.summary.settled is True and self.summary.latency_mean_s is not None


@dataclass(frozen=True, slots=True)
class Verdict:
    """`difference` is relative: 0.05 says that the mean latency is 5 % longer than the reference's.

    None where no difference may be given; `because` then says why. `reference` is the name of the other arm.
    """

    word: Word
    difference: Estimate | None = None
    reference: str | None = None
    because: str = ""

    @property
    def text(self) -> str:
        """The verdict in words, its interval included: `slower by 12% [8.1, 17]`, `no difference [-2.1, +3.0]%`."""
        if self.difference is None:
            return f"{self.word}: {self.because}" if self.because else str(self.word)
        low, high = self.bounds
        if self.word is Word.NO_DIFFERENCE:
            return f"{self.word} [{_percent(low, '+')}, {_percent(high, '+')}]%"
        nearer, farther = (high, low) if self.word is Word.FASTER else (low, high)
        return f"{self.word} {_size(self.difference.value)}% [{_size(nearer)}, {_size(farther)}]"

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The ends of the interval of the difference."""
        return (None, None) if self.difference is None else (self.difference.low, self.difference.high)


def compare(ours: Run, theirs: Run, seed: int) -> Verdict:
    """The verdict on `ours` against `theirs`."""
    return _why_not(ours) or _why_not_against(theirs) or _compared(ours, theirs, seed)


def best_equal_hardware(runs: Sequence[Run]) -> Run | None:
    """The sound equal-hardware arm with the lowest mean latency: what a split has to beat. None where there is none."""
    return fastest_sound([run for run in runs if run.arm.is_equal_hardware])


def fastest_sound(runs: Sequence[Run]) -> Run | None:
    """The sound run with the lowest mean latency; None where there is none."""
    means = [(run.summary.latency_mean_s, run) for run in runs if run.is_sound]
    known = [(mean_s, run) for mean_s, run in means if mean_s is not None]
    return min(known, key=lambda found: found[0])[1] if known else None


def verdicts(runs: Sequence[Run], seed: int) -> dict[str, Verdict]:
    """Each arm, by name, against the best equal-hardware arm of the same rate."""
    best = best_equal_hardware(runs)
    return {run.arm.name: _verdict(run, best, seed) for run in runs}


def _verdict(run: Run, best: Run | None, seed: int) -> Verdict:
    if run is best:
        return Verdict(Word.REFERENCE)
    if best is None:
        return _why_not(run) or Verdict(Word.UNKNOWN, because=NO_REFERENCE)
    return compare(run, best, seed)


def _why_not(run: Run) -> Verdict | None:
    """What forbids to give a figure for the arm; None where nothing does."""
    summary = run.summary
    if run.doubts:
        return Verdict(Word.INVALID, because="; ".join(run.doubts))
    if summary.settled is None or summary.latency_mean_s is None:
        return Verdict(Word.UNKNOWN, because=f"{len(summary.latencies_s)} answers are too few to tell")
    if summary.backlog is not None and not summary.settled:
        grown = f"{summary.backlog.middle:.0f} to {summary.backlog.last:.0f} in flight"
        return Verdict(Word.UNSTABLE, because=grown)
    return None


def _why_not_against(theirs: Run) -> Verdict | None:
    obstacle = _why_not(theirs)
    if obstacle is None:
        return None
    return Verdict(Word.UNKNOWN, reference=theirs.arm.name, because=f"{theirs.arm.title} is {obstacle.word}")


def _compared(ours: Run, theirs: Run, seed: int) -> Verdict:
    """Both are sound: the paired difference over the requests that both completed."""
    a, b = ours.summary.latencies_s, theirs.summary.latencies_s
    both = sorted(a.keys() & b.keys())
    difference = paired_ratio([a[index] for index in both], [b[index] for index in both], seed)
    if difference is None:
        return Verdict(Word.UNKNOWN, reference=theirs.arm.name, because=f"only {len(both)} requests in common")
    return Verdict(_word(difference), difference, theirs.arm.name)


def _word(difference: Estimate) -> Word:
    """A difference counts only where its interval lies on one side of zero."""
    if difference.low is not None and difference.low > 0.0:
        return Word.SLOWER
    if difference.high is not None and difference.high < 0.0:
        return Word.FASTER
    return Word.NO_DIFFERENCE


def _size(share: float | None) -> str:
    """A share in percent without its sign, which the word before it tells."""
    return _percent(None if share is None else abs(share))


def _percent(share: float | None, sign: str = "") -> str:
    """Two digits, since no interval of a run of a minute carries more; a bound that is not known is a question mark."""
    if share is None:
        return "?"
    percent = 100.0 * share
    return f"{percent:{sign}.{0 if abs(percent) >= 9.95 else 1}f}"
