"""When requests are sent: absolute schedules in seconds from the start of a run, drawn from a seed.

A schedule is fixed before the run begins and never looks at answers (open loop), so that a slow engine cannot slow
its own load down. Every schedule holds exactly `count` arrivals in `count / rate_per_s` seconds, so that two arms, or
two seeds, offer the same load and differ only in how it is bunched.
"""

from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class Arrivals(StrEnum):
    """How the gaps between arrivals are distributed."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"


def count_in(seconds: float, rate_per_s: float) -> int:
    """How many arrivals a window of this length holds: at least one."""
    return max(1, round(rate_per_s * seconds))


def constant(count: int, rate_per_s: float) -> tuple[float, ...]:
    """One arrival every `1 / rate_per_s` seconds, the first at 0."""
    _check(count, rate_per_s)
    return tuple(index / rate_per_s for index in range(count))


def poisson(count: int, rate_per_s: float, seed: int, block: int | None = None) -> tuple[float, ...]:
    """A Poisson process under the condition that its window holds `count` arrivals: these are uniform in it.

    With `block`, every successive `block` arrivals fill exactly their share of the window: bunched as a Poisson
    process is at short range, but without its slow swings, which in a run of a minute would look like a backlog that
    grows.
    """
    _check(count, rate_per_s)
    size = count if block is None else block
    if size < 1:
        message = f"a block holds at least one arrival, got {block}"
        raise ValueError(message)
    rng = np.random.default_rng(seed)
    times: list[float] = []
    for first in range(0, count, size):
        members = min(size, count - first)
        times += ((first + np.sort(rng.random(members)) * members) / rate_per_s).tolist()
    return tuple(times)


def gamma(count: int, rate_per_s: float, shape: float, seed: int) -> tuple[float, ...]:
    """Gaps of a gamma distribution: `shape` 1 is Poisson, below it bursts, above it regular (vLLM's `--burstiness`)."""
    _check(count, rate_per_s)
    if shape <= 0.0:
        message = f"the shape of a gamma distribution is positive, got {shape}"
        raise ValueError(message)
    # One gap more than arrivals, so that the last arrival is not pinned to the end of the window.
    gaps: NDArray[np.float64] = np.random.default_rng(seed).gamma(shape, size=count + 1)
    ends = np.cumsum(gaps)
    return tuple((ends[:count] / ends[-1] * (count / rate_per_s)).tolist())


def schedule(
    arrivals: Arrivals, count: int, rate_per_s: float, seed: int, *, shape: float = 1.0, block: int | None = None
) -> tuple[float, ...]:
    """The schedule of the named process; `shape` belongs to gamma, `block` to Poisson."""
    if arrivals is Arrivals.CONSTANT:
        return constant(count, rate_per_s)
    if arrivals is Arrivals.POISSON:
        return poisson(count, rate_per_s, seed, block)
    return gamma(count, rate_per_s, shape, seed)


def _check(count: int, rate_per_s: float) -> None:
    if count < 1 or not 0.0 < rate_per_s < float("inf"):
        message = f"a schedule needs at least one arrival and a positive, finite rate, got {count} at {rate_per_s}/s"
        raise ValueError(message)
