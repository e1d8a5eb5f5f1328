"""Cells of a study: one arm in one world at one rate, or the rate that it carries at most.

Cells are plain values that go to other processes and come back as outcomes; two pairs of pools that share an arm (the
equal-hardware ones) share its cells.
"""

from collections.abc import Callable
from dataclasses import dataclass

from breakeven_bench.fleet_model.arms import Arm, chooser_of, learning_of
from breakeven_bench.fleet_model.outcome import Outcome, judge, requests_of
from breakeven_bench.fleet_model.simulation import simulate
from breakeven_bench.fleet_model.trace import stretched
from breakeven_bench.fleet_model.traffic import BLOCK, Asked, mixed, traffic
from breakeven_bench.fleet_model.worlds import WORLDS

CAPACITY_STEP = 1.05
"""Rates at which capacity is sought are so far apart: no finer than what another seed would change."""

CAPACITY_RATE_MIN = 0.5
CAPACITY_STEPS = 72
"""0.5 to 16.8 requests/s per two engines: every arm carries the first, none the last."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How long runs are: `part` requests and three times as many are judged, after `warm_up` that are not."""

    part: int = 2 * BLOCK
    warm_up: int = 1000
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm in one world at one rate, in requests per second. `trace`: its requests are those of the trace."""

    arm: Arm
    world: str
    rate: float
    trace: bool = False


@dataclass(frozen=True, slots=True)
class CapacityCell:
    """The highest rate that an arm carries in a world."""

    arm: Arm
    world: str


def run_cell(cell: Cell, extent: Extent, trace: list[Asked] | None = None) -> Outcome:
    """Simulate one cell; the trace is asked for by `Cell.trace`."""
    count = requests_of(extent.part, extent.warm_up)
    if cell.trace and trace is None:
        message = "the cell asks for a trace and none was given"
        raise ValueError(message)
    asked = stretched(trace, count, cell.rate) if cell.trace and trace else mixed(count, cell.rate, extent.seed)
    requests = traffic(asked, WORLDS[cell.world], extent.seed)
    run = simulate(cell.arm.fleet, requests, chooser_of(cell.arm), extent.seed, learning_of(cell.arm))
    pools = tuple(pool.name for pool in cell.arm.fleet.pools for _ in range(pool.backends))
    return judge(run, pools, extent.part, extent.warm_up)


def capacity(cell: CapacityCell, extent: Extent) -> float:
    """The highest rate carried, by bisection over `CAPACITY_STEP`s; 0.0 where not even the lowest is."""
    scale = sum(pool.backends for pool in cell.arm.fleet.pools) / 2
    return highest(lambda rate: run_cell(Cell(cell.arm, cell.world, rate), extent).carried, CAPACITY_RATE_MIN * scale)


def highest(carried: Callable[[float], bool], rate_min: float) -> float:
    """The highest rate of the series that is carried, if what is carried at one rate is carried at all below."""
    low, high = -1, CAPACITY_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if carried(rate_min * CAPACITY_STEP**middle) else (low, middle)
    return 0.0 if low < 0 else float(rate_min * CAPACITY_STEP**low)
