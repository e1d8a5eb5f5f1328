"""What a measured table says about one pool: step time over running requests, tokens per step by workload.

Cells are points; between them everything is linear, and step time is made to rise with the batch first (pooled adjacent
violators, weighted by observations), since a step with more requests in it is never faster and noise must not say so.
Nothing is extrapolated silently: a `Reading` tells whether it lies among the measured points. Below the smallest batch
the smallest one's value holds. Above the largest one a step time goes on as it rose last, because a value that stayed
would make a full engine look cheap; an acceptance length stays.
"""

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct

from breakeven_policies.measured import ANY_WORKLOAD, Cell, Setup, Table, short_hash
from breakeven_policies.snapshot import PoolKind


class Reading(Struct, frozen=True):
    """A value read from a table; `inside`: it lies among measured points, else it is the nearest, or goes on from them.

    `n` counts the observations of the thinner of the two points it lies between; None: the table does not say.
    """

    value: float
    inside: bool
    n: int | None = None


class Point(Struct, frozen=True):
    """One measured value at `x`."""

    x: float
    value: float
    n: int | None = None


class Measurement(Struct, frozen=True):
    """What one table says about pools of one setup.

    `steps` are points (running requests, milliseconds per step), rising; `cells` are those of the setup.
    """

    table: str
    hash: str
    setup: Setup
    steps: tuple[Point, ...]
    cells: tuple[Cell, ...]

    def step_time_ms(self, running: float) -> Reading | None:
        """Milliseconds of a decode-only step with so many requests in it; None where the table has no step times."""
        if not self.steps:
            return None
        reading = _nearest(self.steps, running)
        if reading.inside or running < self.steps[0].x or len(self.steps) == 1:
            return reading
        before, last = self.steps[-2:]
        slope = (last.value - before.value) / (last.x - before.x)
        return Reading(last.value + slope * (running - last.x), inside=False, n=last.n)

    def acceptance_length(self, workload: str, temperature: float, running: float) -> Reading | None:
        """Tokens per step of a request of this class, 1 on a plain pool; None where no cell speaks of it.

        Cells of the workload itself come first, then those over any. Between cells it is linear in the temperature and
        then in the batch; cells without a temperature hold at each.
        """
        if self.setup.kind is PoolKind.PLAIN:
            return Reading(1.0, inside=True)
        for name in (workload, ANY_WORKLOAD):
            found = _acceptance([cell for cell in self.cells if cell.workload == name], temperature, running)
            if found is not None:
                return found
        return None

    @property
    def prefill_s_per_prompt_token(self) -> float | None:
        """Seconds; None: not measured."""
        prefill = self.setup.prefill_ms_per_prompt_token
        return None if prefill is None else prefill.mean / 1000.0


def measurement_of(table: Table, setup: Setup) -> Measurement:
    """What the table says about that setup of its."""
    cells = tuple(cell for cell in table.cells if cell.setup == setup.name)
    points = [Point(cell.running, *step) for cell in cells if (step := _step_of(cell, setup, cells)) is not None]
    return Measurement(table.name, short_hash(table), setup, rising(points), cells)


def _step_of(cell: Cell, setup: Setup, cells: tuple[Cell, ...]) -> tuple[float, int | None] | None:
    """Milliseconds per step, and how often that was seen; where it was not, the time per token times tokens per step.

    Tokens per step do not depend on the batch unless k does, so those of another batch at the same temperature will do.
    """
    if cell.step_time_ms is not None:
        return cell.step_time_ms.mean, cell.step_time_ms.n
    token, length = cell.time_per_output_token_ms, cell.acceptance_length
    if token is None:
        return None
    if setup.kind is PoolKind.PLAIN:
        return token.mean, token.n
    if length is not None:
        return token.mean * length.mean, token.n
    if setup.speculative_tokens_per_batch_size:
        return None
    alike = [each for each in cells if each.workload == cell.workload and each.temperature == cell.temperature]
    found = _acceptance(alike, cell.temperature or 0.0, cell.running)
    return None if found is None else (token.mean * found.value, token.n)


def rising(points: Iterable[Point]) -> tuple[Point, ...]:
    """One point for each x, in rising x, with values that never fall: the weighted least-squares fit that does so.

    Pooled adjacent violators (Barlow et al. 1972): neighbours that fall are replaced by their weighted mean. A point
    without a count weighs as one observation.
    """
    pooled: list[tuple[list[float], float, float, int | None]] = []
    for point in _one_for_each_x(points):
        block: tuple[list[float], float, float, int | None] = ([point.x], point.value, float(point.n or 1), point.n)
        while pooled and pooled[-1][1] > block[1]:
            xs, value, weight, n = pooled.pop()
            total = weight + block[2]
            mean = (value * weight + block[1] * block[2]) / total
            block = (xs + block[0], mean, total, _together(n, block[3]))
        pooled.append(block)
    return tuple(Point(x, value, n) for xs, value, _, n in pooled for x in xs)


def _one_for_each_x(points: Iterable[Point]) -> list[Point]:
    by_x: dict[float, list[Point]] = {}
    for point in points:
        by_x.setdefault(point.x, []).append(point)
    return [_mean(x, by_x[x]) for x in sorted(by_x)]


def _mean(x: float, points: list[Point]) -> Point:
    weights = [float(point.n or 1) for point in points]
    value = sum(point.value * weight for point, weight in zip(points, weights, strict=True)) / sum(weights)
    n: int | None = points[0].n
    for point in points[1:]:
        n = _together(n, point.n)
    return Point(x, value, n)


def _together(first: int | None, second: int | None) -> int | None:
    """What is known of a sum of counts: nothing where one is unknown."""
    return None if first is None or second is None else first + second


def _acceptance(cells: Iterable[Cell], temperature: float, running: float) -> Reading | None:
    by_batch: dict[float, list[Point]] = {}
    for cell in cells:
        length = cell.acceptance_length
        if length is not None:
            at = temperature if cell.temperature is None else cell.temperature
            by_batch.setdefault(cell.running, []).append(Point(at, length.mean, length.n))
    points, inside = [], True
    for batch in sorted(by_batch):
        reading = _nearest(_one_for_each_x(by_batch[batch]), temperature)
        points.append(Point(batch, reading.value, reading.n))
        inside = inside and reading.inside
    if not points:
        return None
    found = _nearest(points, running)
    return Reading(found.value, found.inside and inside, found.n)


def _nearest(points: list[Point] | tuple[Point, ...], x: float) -> Reading:
    """Linear between the neighbours of x; outside them the nearest point. There is at least one."""
    above = bisect_right(points, x, key=lambda point: point.x)
    if above == 0:
        return Reading(points[0].value, inside=False, n=points[0].n)
    low = points[above - 1]
    if low.x == x:
        return Reading(low.value, inside=True, n=low.n)
    if above == len(points):
        return Reading(low.value, inside=False, n=low.n)
    high = points[above]
    share = (x - low.x) / (high.x - low.x)
    thinner = None if low.n is None or high.n is None else min(low.n, high.n)
    return Reading(low.value + share * (high.value - low.value), inside=True, n=thinner)
