"""Step times of one pool's engines by running batch: a curve to begin with, corrected by what is observed.

The correction is a factor at each knot, the mean of observed over expected there and, less and less, at its neighbours.
Where nothing was observed near by, the nearest observations move the curve as a whole, and its shape stays.
"""

from breakeven_policies.curve import KNOTS, Curve, natural_shape
from breakeven_policies.fading import Fading

REMEMBERED = 60.0
"""Observations of a knot that count: a step time moves by some per cent between requests, their mean by half of one."""

BEGINNING = 5.0
"""Observations that a measured table weighs: one that is wrong by a factor of two is corrected within dozens."""

FACTOR_MAX = 4.0
"""How far observations may correct a table, and a single one the mean: what is further off is a stall, not a step."""

NEIGHBOUR = 0.15
"""What an observation counts one knot further: knots are a third of an octave apart where it matters."""

COUNTED_WEIGHT = 0.25
"""Weight of a step time out of counters: the engine may have been idle for a part of the time."""


class StepTimes:
    """`expected` is the table's curve; None: there is none, so the shape is that of nature and the scale unknown."""

    def __init__(self, draft_tokens: int, expected: Curve | None) -> None:
        self._expected = natural_shape(draft_tokens) if expected is None else expected
        self._measured = expected is not None
        self._factors = tuple(Fading(REMEMBERED) for _ in KNOTS)
        self._all = Fading(REMEMBERED)

    def timed(self, step_s: float, batch: float, now_s: float) -> None:
        """A request's steps took so long on average, in so large a batch."""
        self._add(step_s, batch, now_s, 1.0)

    def counted(self, step_s: float, batch: float, now_s: float) -> None:
        """The engine counted steps between two scrapes. Passed over where requests tell it better."""
        if self._all.weight_at(now_s) < REMEMBERED / 2:
            self._add(step_s, batch, now_s, COUNTED_WEIGHT)

    def at(self, batch: float) -> float | None:
        """The step time at that batch; None: unknown."""
        return None if self._all.mean is None and not self._measured else self._expected.at(batch) * self._factor(batch)

    def observations(self, now_s: float) -> float:
        """How many requests it is corrected by."""
        return self._all.weight_at(now_s)

    def curve(self) -> Curve | None:
        """As corrected; None: nothing is known."""
        if self._all.mean is None and not self._measured:
            return None
        values = self._expected.values
        return Curve(tuple([value * self._factor(knot) for value, knot in zip(values, KNOTS, strict=True)]))

    def weights(self) -> tuple[float, ...]:
        """How much is known at each knot, never nothing."""
        return tuple([factor.weight + 0.1 for factor in self._factors])

    def _add(self, step_s: float, batch: float, now_s: float, weight: float) -> None:
        factor = step_s / self._expected.at(batch)
        before = self._all.mean
        if self._measured:
            factor = min(max(factor, 1.0 / FACTOR_MAX), FACTOR_MAX)
        elif before is not None and self._all.weight >= BEGINNING:
            factor = min(max(factor, before / FACTOR_MAX), before * FACTOR_MAX)
        place = _place(batch)
        nearest, share = int(place), place - int(place)
        self._factors[nearest].add(factor, now_s, weight=weight * (1.0 - share) or 1e-9)
        if share:
            self._factors[nearest + 1].add(factor, now_s, weight=weight * share)
        self._all.add(factor, now_s, weight=weight)

    def _factor(self, batch: float) -> float:
        place = _place(batch)
        over = under = 0.0
        if self._measured:  # the table as a whole is moved first, then bent
            everywhere, seen = self._all.mean or 1.0, self._all.weight
            under = BEGINNING
            over = under * (seen * everywhere + BEGINNING) / (seen + BEGINNING)
        for knot, factor in enumerate(self._factors):
            mean = factor.mean
            if mean is not None:
                weight = factor.weight * NEIGHBOUR ** abs(knot - place)
                over += weight * mean
                under += weight
        return over / under if under else 1.0


def _place(batch: float) -> float:
    """Where a batch lies among the knots, as a number of knots."""
    if batch <= KNOTS[0]:
        return 0.0
    for place, knot in enumerate(KNOTS):
        if batch < knot:
            low = KNOTS[place - 1]
            return place - 1 + (batch - low) / (knot - low)
    return float(len(KNOTS) - 1)
