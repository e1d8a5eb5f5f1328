"""The cost of the design, written down a second time and told the truth: what a policy could do that knew everything.

The policy `breakeven` has to learn step times, acceptances and lengths; this one is given those of the simulation, and
nothing else: it sees load as every policy does, in the snapshot. Where the policy comes close to it there is nothing
left to learn, and where both lose to something simpler it is the cost that is wrong.

    n     requests there                        B = min(n, M - 1)
    tau   s(B+1) / tokens per step of this request at B+1
    h     B * (1 - T(B) / T(B+1)), at least 0   T: time per token of the mean request, non-decreasing
    Q     backlog of prompt tokens * t + max(0, n + 1 - M) * L_mean * T(M) / M
    cost  Q + P * t * (1 + B) + L * tau * (1 + h)

Source: design section 1. Without `harm`, h and the delay of the others by the prompt are left out: what a request that
thinks of itself alone would choose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from breakeven_bench.fleet_model.engine import Engine
from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, EngineKind
from breakeven_bench.fleet_model.traffic import Arrival
from breakeven_bench.fleet_model.worlds import tokens_per_step
from breakeven_policies.decision import Decision, Reason, Route, Target
from breakeven_policies.snapshot import BackendView, FleetSnapshot


@dataclass(frozen=True, slots=True)
class Curve:
    """One kind of engine by batch, 0 to M: seconds of a step, harm h of one more, k; with t and M's time per token."""

    step_s: tuple[float, ...]
    harm: tuple[float, ...]
    drafts: tuple[int, ...]
    prompt_token_s: float
    full_token_s: float


@dataclass(frozen=True, slots=True)
class Means:
    """What the load is like in the mean: answer and context in tokens, and the acceptances that occur."""

    output_tokens: float
    context_tokens: float
    acceptances: tuple[float, ...]


SAMPLE = 200
"""Requests from which a mean acceptance length is taken: within 2 % of that of all."""


def means_of(arrivals: Sequence[Arrival]) -> Means:
    """The means over the requests of a run."""
    count = len(arrivals)
    output = sum(each.output_tokens for each in arrivals) / count
    # What is in the cache in the mean step: long answers are there for longer.
    weighted = sum(each.output_tokens * (each.prompt_tokens + each.output_tokens / 2) for each in arrivals)
    sample = tuple(each.acceptance for each in arrivals[:: max(1, count // SAMPLE)])
    return Means(output, weighted / sum(each.output_tokens for each in arrivals), sample)


def curve_of(kind: EngineKind, means: Means) -> Curve:
    """The true curve of a kind under this load."""
    batches = range(SEQUENCES_MAX + 1)
    step_s = tuple(kind.decode_step_s(batch, batch * means.context_tokens) for batch in batches)
    lengths = {
        drafts: sum(tokens_per_step(acceptance, drafts) for acceptance in means.acceptances) / len(means.acceptances)
        for drafts in set(kind.drafts_by_batch)
    }
    token_s: list[float] = []
    for batch in batches:
        here = step_s[batch] / lengths[kind.drafts_by_batch[batch]]
        token_s.append(max(here, token_s[-1]) if batch > 1 else here)
    harm = [batch * (1.0 - token_s[batch] / token_s[batch + 1]) for batch in range(SEQUENCES_MAX)]
    return Curve(
        step_s, tuple(max(0.0, h) for h in (0.0, *harm[1:])), kind.drafts_by_batch, kind.prompt_token_s, token_s[-1]
    )


@dataclass(frozen=True, slots=True)
class TrueCost:
    """The rule with everything known. `engines` are in the order of the pools' backends; `replicas` routers send."""

    curves: tuple[Curve, ...]
    engines: Sequence[Engine]
    means: Means
    replicas: int
    harm: bool
    name: str

    def decide(self, arrival: Arrival, fleet: FleetSnapshot) -> Decision:
        """The backend where the request costs least, the last one breaking no tie."""
        best, chosen = inf, None
        index = 0
        for pool, curve in zip(fleet.pools, self.curves, strict=True):
            for backend in pool.backends:
                cost = self._cost(arrival, backend, curve, self.engines[index].backlog_tokens)
                if cost < best:
                    best, chosen = cost, Target(pool.name, backend.name)
                index += 1
        assert chosen is not None  # noqa: S101  # a fleet of this simulation has engines
        return Route((chosen,), Reason.LEAST_LOADED, self.name)

    def _cost(self, arrival: Arrival, backend: BackendView, curve: Curve, backlog_tokens: int) -> float:
        there = requests_there(backend, self.replicas)
        batch = min(int(there + 0.5), SEQUENCES_MAX - 1)
        length = tokens_per_step(arrival.acceptance, curve.drafts[batch + 1])
        decode_s = arrival.output_tokens * curve.step_s[batch + 1] / length
        prompt_s = arrival.prompt_tokens * curve.prompt_token_s
        beyond = max(0.0, there + 1 - SEQUENCES_MAX)
        wait_s = backlog_tokens * curve.prompt_token_s
        wait_s += beyond * self.means.output_tokens * curve.full_token_s / SEQUENCES_MAX
        if not self.harm:
            return wait_s + prompt_s + decode_s
        return wait_s + prompt_s * (1 + batch) + decode_s * (1.0 + curve.harm[batch])


def requests_there(backend: BackendView, replicas: int) -> float:
    """The design's n: our own, or what was scraped and what all routers have sent since, if they send as we do."""
    load = None if backend.signals is None else backend.signals.load
    if load is None:
        return float(backend.in_flight * replicas)
    since = backend.in_flight - backend.in_flight_at_scrape
    return max(float(backend.in_flight), load + replicas * since)
