"""The adaptive policy: the request goes where it costs the fleet least, by what was measured of its engines.

`cost` is the formula, `learned` what is known of the pools. In this order:

- what samples nothing goes to the least loaded backend, as under every policy;
- while a pool is not known, neither by a measured table nor by `ENOUGH` observations, the static rule decides
  (`threshold`), and the reason is `unmeasured`; one request in five goes where little is known instead;
- else the cheapest backend of all pools is chosen. Acceptance counts with its lower confidence bound, so that thin data
  promise nothing, and one request in fifty goes to a pool that its class would not choose, so that a class that was
  shut out can come back;
- where two costs differ by less than their error, the ticket picks between the two: replicas do not herd.

Chance is the ticket alone. Which backends stand close together and which pool is explored is settled by their names,
never by their load: more load never makes anybody more likely.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import exp, inf, isfinite

from msgspec import Struct

from breakeven_policies.capability import PLAIN, capable_backends, pool_can_sample, why_incapable
from breakeven_policies.cost import Job, Objective, Terms, terms
from breakeven_policies.decision import Decision, Prediction, Reason, Route, Target
from breakeven_policies.learned import ENOUGH, PLAIN_ACCEPTANCE, Acceptance, Learned, PoolProfile
from breakeven_policies.policy import RANKING_MAX, READY, Policy, digest, lot, route
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, FleetSnapshot, PoolView
from breakeven_policies.workload import band_of, workload_of

EXPIRY_S = 2 * 3600.0
"""What was learned is no fact any more after two hours without a request: four half-lives of an observation. A measured
table has a date of expiry of its own.
"""

EXPLORED_THIN = 0.2
"""Share of a class that may go where it was seen fewer than `ENOUGH` times: 20 there cost it 100 requests."""

EXPLORED = 0.02
"""Share afterwards: where the other pool takes twice as long this costs two per cent."""

EXPLORED_COST_MAX = 2.5
"""Nothing is explored that would cost this many times the best: enough for an idle pair of plain and k=5."""

EXPLORED_LOAD_MAX = 8.0
"""Nor, while costs are unknown, where a backend holds so many more than the emptiest: it may be drowning."""

ERROR_MIN = 0.01
"""Relative error of a cost whose parts are known well: the length of this very answer is not among them."""

ERROR_MAX = 0.15
"""However little is known: a pool that would take a sixth longer is not picked by lot."""

FRESH_S = 2.0
"""Age up to which a scrape tells the load: two of the usual intervals."""

STALE_ERROR_PER_S = 0.02
"""What each second of age beyond it adds to the error: a backend that ends a request every five seconds of 50 there."""

LENGTH_UNKNOWN = 200.0
"""Completion tokens of a request until answers were counted: published chat traces lie between 150 and 350."""

REPLICAS_MAX = 16.0
"""More routers in front of the same engines are not taken for true: somebody else uses them."""

OWN_SHARE = 0.1
"""Under `throughput` the request's own time counts only so much: between places where the others lose nothing."""

MISS_SOFTNESS = 0.1
"""A prediction this share beside a target is right in three of four cases, so that close calls count as such."""


class PoolCost(Struct, frozen=True):
    """What one eligible pool would take for a request, at its least loaded backends, the best first.

    `terms`, `acceptance` and `total` are None where the pool is unknown. `error` is relative. `thin`: it was given too
    few such requests to be known.
    """

    pool: PoolView
    backends: tuple[BackendView, ...]
    sequences: float
    profile: PoolProfile | None = None
    acceptance: Acceptance | None = None
    terms: Terms | None = None
    total: float | None = None
    error: float = 0.0
    thin: bool = True

    @property
    def target(self) -> Target:
        """Its best backend."""
        return Target(self.pool.name, self.backends[0].name)


@dataclass(frozen=True, slots=True)
class Breakeven:
    """`temperature_max` is that of the static rule; the targets matter to the objective `goodput` only."""

    temperature_max: float = 1.0
    objective: Objective = Objective.LATENCY
    ttft_target_s: float = 2.0
    token_target_s: float = 0.05
    explores: bool = True
    name: str = "breakeven"
    learns: bool = field(default=True, init=False)
    """Whoever makes snapshots for it has to learn (`learning`)."""

    def decide(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        """Route by cost, by lot where that is needed, by the static rule where nothing is known."""
        if not request.sampled:
            return route(request, fleet, self.name, Reason.NOT_SAMPLED, lambda _: True)
        learned = fleet.learned
        if learned is None:
            return self._by_rule(request, fleet)
        costs = self.weigh(request, fleet)
        if len(costs) < 2:  # nothing to choose between: the shared steps say why
            return self._only(request, fleet, costs)
        costs.sort(key=_total_or_load)
        explored = self._explored(costs, request.ticket) if self.explores else None
        if explored is not None:
            return self._route(explored, costs, Reason.EXPLORATION)
        if costs[-1].total is None:
            return self._by_rule(request, fleet)
        best, second = costs[0], costs[1]
        if _total(second) - _total(best) <= _total(best) * (best.error + second.error):
            if lot(second.pool.name, request.ticket) < lot(best.pool.name, request.ticket):
                best = second
            return self._route(best, costs, Reason.COST_TIED)
        return self._route(best, costs, Reason.COST)

    def weigh(self, request: RequestView, fleet: FleetSnapshot) -> list[PoolCost]:
        """The cost of every pool that could take the request now, in the order of the fleet."""
        learned = fleet.learned or Learned(fleet.now_s)
        workload = workload_of(request)
        mean = learned.length or LENGTH_UNKNOWN
        output = learned.lengths.get(workload, mean)
        if request.max_output_tokens is not None:
            output = min(output, float(request.max_output_tokens))
        job = Job(request.prompt_bytes * learned.tokens_per_byte, output, mean)
        found = []
        for pool in fleet.pools:
            backends, loads = least_loaded(pool, request, fleet.replicas)
            if backends:
                found.append(self._cost(pool, tuple(backends), loads[0], learned, workload, job, request, fleet.now_s))
        return found

    def _cost(
        self,
        pool: PoolView,
        backends: tuple[BackendView, ...],
        there: float,
        learned: Learned,
        workload: str,
        job: Job,
        request: RequestView,
        now_s: float,
    ) -> PoolCost:
        profile = learned.pools.get(pool.name)
        if profile is None:
            return PoolCost(pool, backends, there)
        acceptance = PLAIN_ACCEPTANCE if pool.kind is PLAIN else acceptance_of(profile, workload)
        thin = not profile.measured and _seen(pool, profile, workload) < ENOUGH
        expired = now_s - learned.now_s > EXPIRY_S and not profile.measured
        if acceptance is None or not profile.known or expired:
            return PoolCost(pool, backends, there, profile, acceptance, thin=thin)
        signals = backends[0].signals
        backlog = 0.0 if signals is None or not signals.waiting else signals.waiting * learned.prompt_length
        found = terms(profile, acceptance.lower, job, there, backlog, request.sequences)
        error = _error(profile, acceptance, backends[0].signals_age_s(now_s))
        return PoolCost(pool, backends, there, profile, acceptance, found, self._total(profile, found), error, thin)

    def _total(self, profile: PoolProfile, found: Terms) -> float:
        """What is compared."""
        if self.objective is Objective.LATENCY:
            return found.total_s
        batch = found.batch
        if self.objective is Objective.THROUGHPUT:
            return (found.harm_s + found.queue_s) / profile.token_s[batch] + found.own_s * OWN_SHARE / profile.token_s[
                1
            ]
        ttft_s = found.queue_s + found.prefill_s + found.step_s
        missed = 1.0 - (1.0 - _miss(ttft_s, self.ttft_target_s)) * (1.0 - _miss(found.token_s, self.token_target_s))
        before, after = profile.token_s[batch], profile.token_s[batch + 1]
        pushed = batch * (_miss(after, self.token_target_s) - _miss(before, self.token_target_s))
        return missed + max(0.0, pushed) + found.total_s * OWN_SHARE / 60.0

    def _explored(self, costs: list[PoolCost], ticket: float) -> PoolCost | None:
        """The pool that this ticket explores, if any: each has its own interval, whoever else is busy."""
        thin = [cost for cost in costs if cost.thin]
        share = EXPLORED_THIN if thin else EXPLORED
        if ticket >= share:
            return None
        among = sorted(thin or costs, key=lambda cost: cost.pool.name)
        cost = among[int(ticket / share * len(among))]
        if cost.total is not None and all(other.total is not None for other in costs):
            cheapest = min(map(_total, costs))
            return cost if cheapest < cost.total <= cheapest * EXPLORED_COST_MAX else None
        emptiest = min(other.sequences for other in costs)
        return cost if cost.sequences <= emptiest * 2 + EXPLORED_LOAD_MAX else None

    def _route(self, chosen: PoolCost, costs: list[PoolCost], reason: Reason) -> Route:
        """The chosen pool's two best, then the best of the others, so that a pool that dies meanwhile loses nothing.

        `costs` are in rising order.
        """
        others = [cost for cost in costs if cost is not chosen]
        name = chosen.pool.name
        ranking = [Target(name, backend.name) for backend in chosen.backends[: RANKING_MAX - 1]]
        for depth in range(RANKING_MAX):
            ranking += [Target(cost.pool.name, cost.backends[depth].name) for cost in others
                        if depth < len(cost.backends)]  # fmt: skip
            if len(ranking) >= RANKING_MAX:
                break
        if len(ranking) < RANKING_MAX:
            ranking += [Target(name, backend.name) for backend in chosen.backends[RANKING_MAX - 1 :]]
        return Route(tuple(ranking[:RANKING_MAX]), reason, self.name, prediction(chosen, others))

    def _only(self, request: RequestView, fleet: FleetSnapshot, costs: list[PoolCost]) -> Decision:
        """At most one pool could take it: the rule by which the others cannot is the reason."""
        if not costs:
            return route(request, fleet, self.name, Reason.COST, lambda _: True)
        only = costs[0]
        reason = Reason.COST if only.total is not None else Reason.UNMEASURED
        obstacles = [_obstacle(pool, request) for pool in fleet.pools if pool is not only.pool]
        for obstacle in (Reason.CAPABILITY, Reason.MODEL, Reason.HEALTH, Reason.CAPACITY):
            if obstacle in obstacles:
                reason = obstacle
                break
        return self._route(only, costs, reason)

    def _by_rule(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        """The static rule, for want of knowledge."""
        plain = request.temperature > self.temperature_max
        return route(request, fleet, self.name, Reason.UNMEASURED, lambda pool: (pool.kind is PLAIN) is plain)


def acceptance_of(profile: PoolProfile, workload: str) -> Acceptance | None:
    """What is known of a class in a pool: of itself, its band, or all requests."""
    known = profile.acceptance
    return known.get(workload) or known.get(band_of(workload)) or profile.overall


def prediction(chosen: PoolCost, others: Iterable[PoolCost]) -> Prediction | None:
    """What is expected of the choice, and of the cheapest other pool; None: the chosen one is unknown."""
    found, acceptance, total = chosen.terms, chosen.acceptance, chosen.total
    if found is None or acceptance is None or total is None:
        return None
    runner_up = next((cost for cost in others if cost.total is not None), None)
    return Prediction(
        batch=found.batch,
        step_time_s=found.step_s,
        acceptance_length=found.acceptance_length,
        acceptance_source=acceptance.source,
        own_s=found.own_s,
        harm_s=found.harm_s,
        total=total,
        runner_up=None if runner_up is None else runner_up.target,
        runner_up_total=None if runner_up is None else runner_up.total,
        table=_tables(chosen.profile, None if runner_up is None else runner_up.profile),
    )


def _tables(chosen: PoolProfile | None, runner_up: PoolProfile | None) -> str | None:
    """The measured tables that took part."""
    first, second = (None if profile is None else profile.table for profile in (chosen, runner_up))
    if second is None or second == first:
        return first
    return second if first is None else f"{first}+{second}"


def least_loaded(pool: PoolView, request: RequestView, replicas: float) -> tuple[list[BackendView], list[float]]:
    """Up to three backends of a pool that could take the request now, in rising number of sequences there (`n`).

    `n` is the larger of our own count and the scraped load, corrected by what all replicas have sent since, who are
    taken to send as this one does. Equals are ordered by lot. This meets every backend at every request, hence a loop.
    """
    best: list[BackendView] = []
    loads: list[float] = []
    if not pool_can_sample(pool, request):
        return best, loads
    model, drawn, fullest = request.model, int(request.ticket * 2**32), inf
    for backend in pool.backends:
        if backend.health is not READY or (backend.in_flight_max and backend.full):
            continue
        models = backend.models
        if models is not None and model is not None and model not in models:  # `serves_model` without the call
            continue
        there: float = backend.in_flight
        signals = backend.signals
        if signals is not None and ((running := signals.running) is not None or signals.waiting is not None):
            scraped = (running or 0.0) + (signals.waiting or 0.0)
            sent = backend.in_flight - backend.in_flight_at_scrape
            scraped += sent * (replicas or _replicas_seen(scraped, backend.in_flight_at_scrape))
            if scraped > there:
                there = scraped
        if there > fullest:
            continue
        place = len(loads)
        while place and (
            there < loads[place - 1]
            or (there == loads[place - 1] and _draw(backend.name, drawn) < _draw(best[place - 1].name, drawn))
        ):
            place -= 1
        best.insert(place, backend)
        loads.insert(place, there)
        if len(loads) >= RANKING_MAX:
            del best[RANKING_MAX:], loads[RANKING_MAX:]
            fullest = loads[-1]
    return best, loads


def _draw(name: str, drawn: int) -> int:
    """As `policy.lot`, in 32 bits: half of its time, where an idle fleet needs it for every backend.

    Of two names each wins for exactly half of all tickets: the ticket with their difference flipped swaps them.
    """
    return ((digest(name) ^ drawn) * 0x9E3779B1) & 0xFFFFFFFF


def _replicas_seen(scraped: float, own: int) -> float:
    """How many routers like this one must be sending there, where nobody said: what runs is all of theirs."""
    return min(max(scraped / own, 1.0), REPLICAS_MAX) if own else 1.0


def _obstacle(pool: PoolView, request: RequestView) -> Reason:
    """Why a pool without an eligible backend has none."""
    obstacle = why_incapable(pool, request)
    if obstacle is not None:
        return obstacle
    ready = any(backend.health is READY for backend in capable_backends(pool, request))
    return Reason.CAPACITY if ready else Reason.HEALTH


def _seen(pool: PoolView, profile: PoolProfile, workload: str) -> float:
    """Requests that tell what such a one takes there: of a plain pool any does."""
    return profile.observations if pool.kind is PLAIN else profile.visits.get(workload, 0.0)


def _error(profile: PoolProfile, acceptance: Acceptance, age_s: float | None) -> float:
    """Relative error of a cost. Load has no part in it: more of it must not make anything more likely."""
    error = ERROR_MIN + (acceptance.length - acceptance.lower) / acceptance.length / 2
    if age_s is not None and age_s > FRESH_S:
        error += (age_s - FRESH_S) * STALE_ERROR_PER_S
    if not profile.measured:
        error += 0.1 / (1.0 + profile.observations)
    return min(error, ERROR_MAX)


def _miss(predicted_s: float, target_s: float) -> float:
    """How likely a target is missed."""
    distance = (predicted_s / target_s - 1.0) / MISS_SOFTNESS
    return 1.0 / (1.0 + exp(-distance)) if distance > -50.0 else 0.0


def _total(cost: PoolCost) -> float:
    return float("inf") if cost.total is None else cost.total


def _total_or_load(cost: PoolCost) -> tuple[float, float]:
    return _total(cost), cost.sequences


def build(argument: str | None, threshold: float) -> Policy:
    """`breakeven`, `breakeven:OBJECTIVE`, or `breakeven:goodput:TTFT_S:TOKEN_S` with targets in seconds."""
    if argument is None:
        return Breakeven(threshold)
    word, *targets = argument.split(":")
    try:
        objective = Objective(word)
        seconds = [float(target) for target in targets]
    except ValueError:
        seconds = [-1.0]
    if len(seconds) not in {0, 2} or not all(isfinite(second) and second > 0.0 for second in seconds):
        message = f"breakeven takes {', '.join(Objective)} or goodput:TTFT_S:TOKEN_S, got {argument!r}"
        raise ValueError(message)
    ttft_s, token_s = seconds or (2.0, 0.05)
    return Breakeven(threshold, objective, ttft_s, token_s, name=f"breakeven:{argument}")
