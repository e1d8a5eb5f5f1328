"""Counts of one policy over a journal: agreement, where it differs, regret, and what it predicted. Bounded in size."""

from collections import Counter
from dataclasses import dataclass, field

from breakeven_policies.agreement import Agreement, agreement, regret, wanted_pool
from breakeven_policies.decision import Decision, Reason, Refuse, Route
from breakeven_policies.journal import Entry
from breakeven_policies.snapshot import FleetSnapshot, Health
from breakeven_policies.workload import workload_of

LOADS = (1.0, 4.0, 16.0, 64.0)
"""Borders of the mean number of requests on a ready engine: speculation pays below some ten, and drowns above."""

NONE = "none"

CLOSE = (0.1, 0.25, 0.5)
"""Relative errors of a prediction that are told apart."""

WAYS_MAX = 1000
"""Pairs of pools that are counted; a journal of many fleets has more, and the rest is counted as others."""

OTHERS = ("others", "others")


@dataclass(slots=True)
class Share:
    """How many of some requests had the same engine chosen, and the same pool."""

    requests: int = 0
    same: int = 0
    same_pool: int = 0

    def add(self, word: Agreement) -> None:
        """Count one."""
        self.requests += 1
        self.same += word is Agreement.SAME
        self.same_pool += word.same_pool


@dataclass(slots=True)
class Forecast:
    """Predicted against observed seconds: `within` counts by `CLOSE`."""

    requests: int = 0
    predicted_s: float = 0.0
    observed_s: float = 0.0
    within: list[int] = field(default_factory=lambda: [0] * len(CLOSE))

    def add(self, predicted_s: float, observed_s: float) -> None:
        """Compare one; what took no time cannot be compared."""
        if observed_s <= 0.0:
            return
        self.requests += 1
        self.predicted_s += predicted_s
        self.observed_s += observed_s
        error = abs(predicted_s - observed_s) / observed_s
        for place, most in enumerate(CLOSE):
            self.within[place] += error <= most

    @property
    def bias(self) -> float | None:
        """By which share too much was predicted on average, negative: too little."""
        return None if self.requests == 0 else self.predicted_s / self.observed_s - 1.0


@dataclass(slots=True)
class Forecasts:
    """What a policy predicts of a request: its latency from when it was sent, and its time per token."""

    latency: Forecast = field(default_factory=Forecast)
    token_time: Forecast = field(default_factory=Forecast)

    def add(self, entry: Entry, decision: Decision) -> None:
        """Only a request that went where the prediction says can tell whether it was right."""
        if not isinstance(decision, Route) or decision.prediction is None:
            return
        happened, prediction = entry.happened, decision.prediction
        if happened.outcome != "completed" or happened.attempts != 1 or happened.pool != decision.ranking[0].pool:
            return
        if happened.finished_s is not None and happened.sent_s is not None:
            self.latency.add(prediction.own_s, happened.finished_s - happened.sent_s)
        if happened.token_s is not None:
            self.token_time.add(prediction.step_time_s / prediction.acceptance_length, happened.token_s)


@dataclass(slots=True)
class Tally:
    """`ways` counts differences by (the pool that was chosen, the pool that this policy wants)."""

    total: Share = field(default_factory=Share)
    results: Counter[Agreement] = field(default_factory=Counter)
    by_class: dict[str, Share] = field(default_factory=dict)
    by_load: dict[str, Share] = field(default_factory=dict)
    ways: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    first_failure: str = ""
    regret: float = 0.0
    regret_known: int = 0
    forecasts: Forecasts = field(default_factory=Forecasts)

    def add(self, entry: Entry, decision: Decision) -> None:
        """Compare a decision with the one that was taken, and what it predicts with what came of it."""
        done = entry.considered.decision
        word = agreement(done, decision)
        self.total.add(word)
        self.results[word] += 1
        self.by_class.setdefault(workload_of(entry.considered.request), Share()).add(word)
        self.by_load.setdefault(load_word(entry.considered.fleet), Share()).add(word)
        self.reasons[reason_of(decision)] += 1
        if not word.same_pool:
            way = (wanted_pool(done) or NONE, wanted_pool(decision) or NONE)
            self.ways[way if way in self.ways or len(self.ways) < WAYS_MAX else OTHERS] += 1
        lost = regret(done, decision)
        if lost is not None:
            self.regret += lost
            self.regret_known += 1
        self.forecasts.add(entry, decision)

    def fail(self, why: str) -> None:
        """The policy raised: it has no decision about this line."""
        self.failed += 1
        self.first_failure = self.first_failure or why


def reason_of(decision: Decision) -> str:
    """The word that says why."""
    word: Reason | str = decision.refusal if isinstance(decision, Refuse) else decision.reason
    return str(word)


def load_word(fleet: FleetSnapshot) -> str:
    """How busy the fleet was, as a range of requests per ready engine."""
    loads = [each.load for pool in fleet.pools for each in pool.backends if each.health is Health.READY]
    if not loads:
        return "no engine ready"
    mean = sum(loads) / len(loads)
    low = 0.0
    for border in LOADS:
        if mean < border:
            return f"{low:g} to {border:g}"
        low = border
    return f"{low:g} and more"
