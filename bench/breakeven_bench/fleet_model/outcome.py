"""What a run says: mean latency, share within the targets, and whether it says anything at all.

The first requests of a run are warm-up: caches of knowledge fill, batches grow. What follows is judged in a part of `n`
requests and in the whole of three times as many. Where seconds grow by a tenth or more from the one to the other the
queue is growing, and the mean measures only how long one looked (design section 1, point 4). They are counted per token
of the answers: those of a production trace get longer or shorter, whoever serves them. A fall is no sign of a queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from breakeven_bench.fleet_model.simulation import Run, Served

TTFT_MAX_S = 2.0
TOKEN_MAX_S = 0.050
"""The targets of design section 1: time to first token, and time per token after it."""

WITHIN_SHARE_MIN = 0.95
GROWTH_MAX = 0.10
PARTS = 3


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one arm at one rate. `mean_s` over the whole, None where the fleet drowned before anything was judged.

    `growth` is how many more seconds per token the whole took than its first part. `share_by_pool` is where the
    requests went.
    """

    mean_s: float | None
    within: float
    growth: float
    drowned: bool
    preemptions: int
    share_by_pool: dict[str, float]

    @property
    def stable(self) -> bool:
        """Whether the mean is a property of the arm and not of the length of the run."""
        return self.mean_s is not None and not self.drowned and self.growth < GROWTH_MAX

    @property
    def carried(self) -> bool:
        """Whether the rate is within what the arm carries."""
        return self.stable and self.within >= WITHIN_SHARE_MIN


def requests_of(part: int, warm_up: int) -> int:
    """How many requests a run needs."""
    return warm_up + PARTS * part


def judge(run: Run, pool_of_engine: tuple[str, ...], part: int, warm_up: int) -> Outcome:
    """The outcome of a run of `requests_of(part, warm_up)` requests."""
    whole = [served for served in run.served if served.index >= warm_up]
    first = [served for served in whole if served.index < warm_up + part]
    shares = dict.fromkeys(pool_of_engine, 0.0)
    for served in whole:
        shares[pool_of_engine[served.engine]] += 1.0 / len(whole)
    mean_s = sum(served.latency_s for served in whole) / len(whole) if whole else None
    growth = _token_s(whole) / _token_s(first) - 1.0 if first else 0.0
    within = sum(map(_within, whole)) / len(whole) if whole else 0.0
    return Outcome(mean_s, within, growth, run.drowned, run.preemptions, shares)


def _token_s(served: Sequence[Served]) -> float:
    return sum(each.latency_s for each in served) / sum(each.output_tokens for each in served)


def _within(served: Served) -> bool:
    if served.ttft_s > TTFT_MAX_S:
        return False
    return served.latency_s - served.ttft_s <= TOKEN_MAX_S * (served.output_tokens - 1)
