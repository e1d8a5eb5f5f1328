"""Curves over the running batch: knots, the shape that step times have by nature, and the tables that policies look up.

A curve is a value for each of `KNOTS`, dense where batches are small, linear in between. `profile_of` turns the curves
of a pool into a `PoolProfile`.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from breakeven_policies.learned import BATCH_MAX, Acceptance, PoolProfile

KNOTS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
"""Batches at which curves have a value: step times bend where the engine becomes bound by compute, and the distance
between two knots is never more than half of what a published break-even differs by from one class to the next.
"""

RIDGE_TOKENS = 150.0
"""Tokens in a step from which on an engine is bound by compute and no longer by reading its weights: operations per
byte of a GPU, 153 on an A100 (312 TFLOP/s over 2.04 TB/s) and 295 on an H100, for weights of 16 bits; half of that for
8.
"""

DRAFTING_SHARE = 0.04
"""What drafting one token ahead adds to a step: 0.8 of 20 ms in published figures for a 70B model (engine facts)."""

CONTEXT_SHARE = 0.003
"""What reading the context of one more sequence adds to a step, about 1,000 tokens of it."""


class Curve(Struct, frozen=True):
    """A value at each of `KNOTS`."""

    values: tuple[float, ...]

    def at(self, batch: float) -> float:
        """Linear between the knots; beyond them the outermost value holds."""
        if batch <= 1.0:
            return self.values[0]
        above = bisect_right(KNOTS, batch)
        if above == len(KNOTS):
            return self.values[-1]
        low, high = KNOTS[above - 1], KNOTS[above]
        share = (batch - low) / (high - low)
        return self.values[above - 1] * (1.0 - share) + self.values[above] * share

    def table(self, most: int = BATCH_MAX) -> tuple[float, ...]:
        """The value for each batch from 0 (as 1) to `most`."""
        values = [self.values[0]]
        for place in range(len(KNOTS) - 1):
            first, last, start = self.values[place], self.values[place + 1], KNOTS[place]
            if start > most:
                break
            span = KNOTS[place + 1] - start
            slope = (last - first) / span
            values += [first + slope * step for step in range(span)]
        values.append(self.values[-1])
        return tuple(values[: most + 1])


FLAT = Curve((1.0,) * len(KNOTS))


def curve_of(points: Sequence[tuple[float, float]]) -> Curve:
    """The curve through measured points (batch, value); outside of them the shape of nature goes on from the outermost.

    ValueError where there are none.
    """
    if not points:
        message = "a curve needs at least one point"
        raise ValueError(message)
    ordered = sorted(points)
    return Curve(tuple(_through(ordered, float(knot)) for knot in KNOTS))


def natural_shape(draft_tokens: int) -> Curve:
    """How step times grow with the batch where nobody has measured them, 1.0 for one sequence without drafts.

    The longer of reading the weights and computing, rounded at the corner as measured ones are, with what drafting and
    context add. The absolute time is unknown.
    """
    return Curve(tuple(_natural(float(knot), draft_tokens) / _natural(1.0, 0) for knot in KNOTS))


def rising(values: Sequence[float], weights: Sequence[float]) -> tuple[float, ...]:
    """The nearest sequence that never falls: pool adjacent violators (Ayer et al. 1955), weights above 0."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, count = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, heavy, many = blocks.pop()
            mean = (before * heavy + mean * total) / (heavy + total)
            total += heavy
            count += many
        blocks.append((mean, total, count))
    return tuple([mean for mean, _, count in blocks for _ in range(count)])


def profile_of(
    step_s: Curve,
    draft_share: Curve,
    overall: Acceptance | None,
    prefill_s: float | None,
    *,
    weights: Sequence[float] = (1.0,) * len(KNOTS),
    slots: int | None = None,
    acceptance: Mapping[str, Acceptance] | None = None,
    observations: float = 0.0,
    measured: bool = False,
    table: str | None = None,
    visits: Mapping[str, float] | None = None,
) -> PoolProfile:
    """A pool's figures with everything precomputed that no request changes.

    `weights` say how much is known at each knot. A pool whose acceptance is unknown is taken to gain nothing by its
    drafts. Where the time of prefill is unknown, one token of a prompt takes its share of a step that is at the ridge
    (`RIDGE_TOKENS`): never nothing.
    """
    beyond_one = 0.0 if overall is None else overall.length - 1.0
    steps = step_s.values
    if draft_share is FLAT:  # the engine drafts as much in any batch, so a larger one takes no less time
        steps = rising(steps, weights)
    tokens = [step / (1.0 + beyond_one * share) for step, share in zip(steps, draft_share.values, strict=True)]
    most = BATCH_MAX if slots is None else min(slots, BATCH_MAX)  # a tenth of the work where engines have few slots
    token_s = Curve(rising(tokens, weights)).table(most)
    return PoolProfile(
        step_s=Curve(steps).table(most),
        draft_share=draft_share.table(most),
        token_s=token_s,
        harm=_harm(token_s),
        prefill_s=steps[0] / RIDGE_TOKENS if prefill_s is None else prefill_s,
        slots=slots,
        acceptance={} if acceptance is None else acceptance,
        overall=overall,
        observations=observations,
        measured=measured,
        table=table,
        visits={} if visits is None else visits,
    )


def _harm(token_s: Sequence[float]) -> tuple[float, ...]:
    """`h` of `cost` for each batch, made so that a request's time with its harm never falls as the batch grows.

    Between two knots the curve is a line, at a knot its slope may drop: without the latter a fuller engine could look
    cheaper by a trifle.
    """
    harm: list[float] = []
    dearest = 0.0
    for batch in range(len(token_s) - 1):
        after = token_s[batch + 1]
        here = after + batch * (after - token_s[batch])
        if here > dearest:
            dearest = here
        harm.append(dearest / after - 1.0)
    return (*harm, harm[-1])


def _natural(batch: float, draft_tokens: int) -> float:
    compute = batch * (draft_tokens + 1) / RIDGE_TOKENS
    return float((1.0 + compute**4) ** 0.25) + DRAFTING_SHARE * draft_tokens + CONTEXT_SHARE * batch


def _through(points: Sequence[tuple[float, float]], batch: float) -> float:
    first, last = points[0], points[-1]
    if batch <= first[0]:
        return first[1] * _natural(batch, 0) / _natural(first[0], 0)
    if batch >= last[0]:
        return last[1] * _natural(batch, 0) / _natural(last[0], 0)
    above = bisect_right(points, batch, key=_batch_of)
    (low, before), (high, after) = points[above - 1], points[above]
    return before + (after - before) * (batch - low) / (high - low)


_batch_of: Callable[[tuple[float, float]], float] = lambda point: point[0]  # noqa: E731  # a key, typed
