"""Acceptance of one speculative pool by class of request: tokens per engine step.

A class that was seen seldom leans on its band, the band on all requests, these on a measured table or on the engine's
counters. Where an engine drafts less in a larger batch (`num_speculative_tokens_per_batch_size`), what is left of the
acceptance there is learned beside it, as a share; elsewhere it comes out as 1 and is dropped.
"""

from collections.abc import Mapping
from math import sqrt

from breakeven_policies.curve import FLAT, KNOTS, Curve, rising
from breakeven_policies.decision import AcceptanceSource
from breakeven_policies.fading import Fading
from breakeven_policies.learned import Acceptance
from breakeven_policies.workload import band_of

REMEMBERED = 100.0
"""Requests of a class that count: acceptance differs by a fifth from one to the next, their mean by 2 per cent."""

LEANING = 5.0
"""Requests that the next wider class weighs."""

TABLE_WEIGHT = 20.0
"""Requests that a measured table weighs: as many as it takes to be believed without one."""

SHARE_LEANING = 20.0
"""Requests at a knot that weigh as much as the assumption that the engine drafts as much there as elsewhere."""

SHARE_SEEN = 0.85
"""Below this share an engine is taken to draft less in larger batches; noise stays above."""

STEPS_MIN = 8
"""Steps from which on a request tells its acceptance: one that ends sooner tells how it ended."""

SPREAD = 0.2
"""Spread of single requests around their class, as a share, until it is known: six categories at one temperature."""


class _Class:
    """One class or band: tokens beyond the first of each step, over steps."""

    __slots__ = ("beyond", "source")

    def __init__(self) -> None:
        self.beyond = Fading(REMEMBERED)
        self.source = AcceptanceSource.TIMING


class Acceptances:
    """`table` holds a measured table's tokens per step by class, `table_overall` those of all; None: it has none."""

    def __init__(
        self,
        draft_tokens: int,
        table: Mapping[str, float],
        table_overall: float | None,
        table_share: Curve | None = None,
        *,
        dynamic: bool = False,
    ) -> None:
        self._most = draft_tokens + 1.0 if draft_tokens else float("inf")
        self._table = table
        self._table_overall = table_overall
        self._classes: dict[str, _Class] = {}
        self._all = _Class()
        self._counted = Fading(REMEMBERED)
        self._shares = tuple(Fading(REMEMBERED) for _ in KNOTS)
        self._share_leaning = LEANING if dynamic and table_share is None else SHARE_LEANING
        self._share_expected = self._share = FLAT if table_share is None else table_share

    def observe(
        self, workload: str, length: float, steps: float, batch: float | None, source: AcceptanceSource, now_s: float
    ) -> None:
        """A request made so many tokens per step over so many steps."""
        if steps < STEPS_MIN:
            return
        length = min(max(length, 1.0), self._most)
        before = self._classes.get(workload)
        if batch is not None and before is not None:
            self._observe_share(length - 1.0, before.beyond.mean or 0.0, batch, now_s)
        share = 1.0 if batch is None else self._share.at(batch)
        if share < 0.3:  # nearly nothing is drafted: it tells nothing of what would be accepted
            return
        for name in (workload, band_of(workload)):
            known = self._classes.setdefault(name, _Class())
            known.beyond.add((length - 1.0) * steps, now_s, steps * share)
            known.source = source
        self._all.beyond.add((length - 1.0) * steps, now_s, steps * share)
        self._all.source = source

    def counted(self, length: float, batch: float, now_s: float) -> None:
        """The engine's counters between two scrapes: tokens per step of whatever ran there."""
        length = min(max(length, 1.0), self._most)
        overall = self.overall()
        if overall is not None:
            self._observe_share(length - 1.0, overall.length - 1.0, batch, now_s)
        share = self._share.at(batch)
        if share >= 0.3:
            self._counted.add(length - 1.0, now_s, share)

    def of(self, workload: str) -> Acceptance | None:
        """What is known of a class; None: nothing of any."""
        band = self._lean(self._classes.get(band_of(workload)), self._table.get(band_of(workload)), self.overall())
        return self._lean(self._classes.get(workload), self._table.get(workload), band)

    def overall(self) -> Acceptance | None:
        """Of all requests: by themselves, else by the counters, leaning on the table."""
        counted = None
        if self._counted.mean is not None:
            counted = self._acceptance(self._counted, AcceptanceSource.COUNTERS, None)
        return self._lean(self._all, self._table_overall, counted)

    def by_class(self) -> dict[str, Acceptance]:
        """Every class and band that was seen or measured."""
        names = self._classes.keys() | self._table.keys()
        found = {name: self.of(name) for name in names}
        return {name: acceptance for name, acceptance in found.items() if acceptance is not None}

    def draft_share(self) -> Curve:
        """What is left of the acceptance beyond one token in larger batches; `FLAT` where it is all."""
        return self._share

    def settle(self) -> None:
        """Take the shares as observed so far; done when a view is built, since it changes slowly."""
        leaning, shares = self._share_leaning, self._shares
        means = [
            (share.weight * (share.mean or 0.0) + leaning * expected) / (share.weight + leaning)
            for share, expected in zip(shares, self._share_expected.values, strict=True)
        ]
        # Where nothing was seen, in the larger batches, it is no more than where something was.
        falling = rising([-mean for mean in means], [share.weight + 0.1 for share in shares])
        left = tuple([min(1.0, value / falling[0]) if falling[0] else 1.0 for value in falling])
        self._share = Curve(left) if min(left) < SHARE_SEEN else FLAT

    def _observe_share(self, beyond: float, expected: float, batch: float, now_s: float) -> None:
        if expected > 0.05:
            nearest = min(range(len(KNOTS)), key=lambda knot: abs(KNOTS[knot] - batch))
            self._shares[nearest].add(min(2.0, beyond / expected), now_s)

    def _lean(self, known: _Class | None, table: float | None, wider: Acceptance | None) -> Acceptance | None:
        if table is not None:
            lower = max(1.0, table * (1.0 - SPREAD / sqrt(TABLE_WEIGHT)))
            wider = Acceptance(table, lower, TABLE_WEIGHT, AcceptanceSource.TABLE)
        if known is None or known.beyond.mean is None:
            return wider
        return self._acceptance(known.beyond, known.source, wider)

    def _acceptance(self, beyond: Fading, source: AcceptanceSource, wider: Acceptance | None) -> Acceptance:
        own, weight = 1.0 + (beyond.mean or 0.0), beyond.weight
        leaning = 0.0 if wider is None else max(LEANING, TABLE_WEIGHT * (wider.source is AcceptanceSource.TABLE))
        length = own if wider is None else (weight * own + leaning * wider.length) / (weight + leaning)
        length = min(length, self._most)
        spread = (weight * sqrt(beyond.variance) + LEANING * SPREAD * length) / (weight + LEANING)
        lower = length - spread / sqrt(weight + leaning)
        return Acceptance(length, max(1.0, lower), weight, source)
