"""Statistics that refuse: each figure carries its n, and a figure that the sample cannot carry is None.

Quantiles interpolate linearly and take their interval from order statistics (no distribution is assumed). Arms are
compared on the same requests, so the intervals of a difference come from resampling *pairs*. Pairs are drawn as if
they were independent; latencies in a queue are not, so that a rerun would scatter more than the interval says. Blocks
of neighbours would carry the correlation, but the demo's shortest run has 63 requests: three blocks of 20, from which
no interval can be had. A run that has not settled is named so, because the mean of a growing queue measures only how
long one looked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, lgamma, log, log1p

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 10_000
"""Bootstrap resamples: the ends of a 95 % interval then move by well under a tenth of its width between seeds."""

RESAMPLED_AT_ONCE = 200_000
"""Observations drawn in one numpy call: a few MB, whatever the size of the run."""

PAIRS_MIN = 20
"""Below this a percentile bootstrap of a skewed mean covers visibly less than it says."""

SETTLING_REQUESTS_MIN = 30
"""Ten requests in each third of a run: with fewer, one long answer decides."""

BACKLOG_SHARE_MAX = 0.15
"""A run is unstable where the requests in flight grow by more than this share of the arrivals ..."""

BACKLOG_RATIO_MIN = 1.20
"""... and by at least a fifth, so that one or two requests on a nearly idle fleet are not called a backlog.

Both limits come from simulating the demo's arms at its rates with 16 seeds: of 256 runs of arms that keep up they call
three unstable, of 32 runs of arms offered a tenth more than they carry all.
"""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval and the number of observations behind it; an unknown bound is None."""

    value: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """Mean requests in flight in the middle and in the last third of a run; `arrivals` come in each."""

    middle: float
    last: float
    arrivals: float

    @property
    def growth_share(self) -> float:
        """Growth from third to third as a share of what arrived meanwhile."""
        return (self.last - self.middle) / self.arrivals

    @property
    def settled(self) -> bool:
        """Whether the arm kept up with its arrivals; see BACKLOG_SHARE_MAX and BACKLOG_RATIO_MIN."""
        return self.growth_share <= BACKLOG_SHARE_MAX or self.last < BACKLOG_RATIO_MIN * self.middle


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean; None of nothing."""
    return sum(values) / len(values) if values else None


def quantile_n_min(q: float, confidence: float = 0.95) -> int:
    """The smallest sample whose maximum bounds quantile `q` from above with `confidence`: 59 for p95, 299 for p99."""
    return ceil(log(1.0 - confidence) / log(q))


def quantile(values: Sequence[float], q: float) -> Estimate | None:
    """Quantile `q` by linear interpolation with its order-statistic interval; None below `quantile_n_min`."""
    if len(values) < quantile_n_min(q):
        return None
    ordered = sorted(values)
    low_rank, high_rank = quantile_ranks(len(ordered), q)
    return Estimate(
        value=interpolated(ordered, q),
        low=None if low_rank is None else ordered[low_rank - 1],
        high=None if high_rank is None else ordered[high_rank - 1],
        n=len(ordered),
    )


def interpolated(ordered: Sequence[float], q: float) -> float:
    """The point at `q` of the way through a sorted, non-empty sample (numpy's `linear`, type 7)."""
    position = q * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def quantile_ranks(n: int, q: float, confidence: float = 0.95) -> tuple[int | None, int | None]:
    """1-based ranks (l, u) of the order statistics that bound quantile `q`, each missed with (1 - confidence) / 2.

    The number of observations below the quantile is binomial(n, q): l is the largest rank with P(X < l) within the
    tail, u the smallest with P(X >= u) within it. A rank that the sample does not have is None (u for p95 below n =
    72).
    """
    tail = (1.0 - confidence) / 2.0
    low: int | None = None
    high: int | None = None
    below = 0.0
    for rank in range(1, n + 1):
        below += _binomial(n, rank - 1, q)
        if below <= tail:
            low = rank
        if high is None and 1.0 - below <= tail:
            high = rank
    return low, high


def paired_ratio(ours: Sequence[float], theirs: Sequence[float], seed: int) -> Estimate | None:
    """Ratio of means, minus one: 0.05 says `ours` is 5 % larger. Both means of a resample come from the same requests.

    None below PAIRS_MIN or where `theirs` has no positive mean.
    """
    a, b = _paired(ours, theirs)
    if len(a) < PAIRS_MIN or b.min() <= 0.0:
        return None
    means = _resampled_means(np.stack([a, b]), seed)
    return _estimate(float(a.mean() / b.mean() - 1.0), means[0] / means[1] - 1.0, len(a))


def backlog(starts_s: Sequence[float], ends_s: Sequence[float | None]) -> Backlog | None:
    """Requests in flight over the arrivals of a run; an end of None: never finished. None for a run too short to judge.

    The first third is left out: every arm starts empty and has to fill.
    """
    if len(starts_s) != len(ends_s):
        message = f"{len(starts_s)} starts and {len(ends_s)} ends"
        raise ValueError(message)
    if len(starts_s) < SETTLING_REQUESTS_MIN:
        return None
    begin_s, end_s = min(starts_s), max(starts_s)
    third_s = (end_s - begin_s) / 3.0
    if third_s <= 0.0:
        return None
    return Backlog(
        middle=_in_flight(starts_s, ends_s, begin_s + third_s, end_s - third_s),
        last=_in_flight(starts_s, ends_s, end_s - third_s, end_s),
        arrivals=len(starts_s) / 3.0,
    )


def _binomial(n: int, k: int, q: float) -> float:
    """The probability of k successes in n trials; by logarithms: the coefficient overflows a float from n = 1030."""
    log_ways = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(log_ways + k * log(q) + (n - k) * log1p(-q))


def _in_flight(starts_s: Sequence[float], ends_s: Sequence[float | None], from_s: float, to_s: float) -> float:
    """Mean number in flight between two instants: the time that requests spend there over its length."""
    spent_s = 0.0
    for start_s, end_s in zip(starts_s, ends_s, strict=True):
        until_s = to_s if end_s is None else min(end_s, to_s)
        spent_s += max(0.0, until_s - max(start_s, from_s))
    return spent_s / (to_s - from_s)


def _paired(ours: Sequence[float], theirs: Sequence[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if len(ours) != len(theirs):
        message = f"pairs need equal lengths, got {len(ours)} and {len(theirs)}"
        raise ValueError(message)
    return np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)


def _resampled_means(columns: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Means of RESAMPLES draws with replacement, shape (rows, RESAMPLES); the rows share every draw."""
    rng = np.random.default_rng(seed)
    n = columns.shape[1]
    at_once = max(1, RESAMPLED_AT_ONCE // n)
    sizes = [min(at_once, RESAMPLES - done) for done in range(0, RESAMPLES, at_once)]
    return np.concatenate([columns[:, rng.integers(0, n, (size, n))].mean(axis=2) for size in sizes], axis=1)


def _estimate(value: float, resampled: NDArray[np.float64], n: int) -> Estimate:
    low, high = np.quantile(resampled, (0.025, 0.975))
    return Estimate(value, float(low), float(high), n)
