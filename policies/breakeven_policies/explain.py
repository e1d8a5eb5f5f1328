"""Why a decision fell as it did: the verdict on every pool, beside the decision itself.

A policy that weighs pools against each other has a method `weigh` beside `decide`, and every verdict then says what it
expects of that pool.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from breakeven_policies.breakeven import PoolCost
from breakeven_policies.capability import capable_backends, why_incapable
from breakeven_policies.decision import AcceptanceSource, Decision, Reason
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot, Health, PoolKind, PoolView


@dataclass(frozen=True, slots=True)
class Expected:
    """What a policy expects of one pool for one request, at its least loaded `backend`; the terms are those of `cost`.

    None: unknown to the policy, never zero. `batch` is the number of sequences there without this request; `own_s` what
    the request itself takes (waiting, prefill, decoding), `harm_s` what the others there lose together; `total` is what
    was compared, request-seconds where the objective is latency; `error` is relative to it.
    """

    backend: str
    sequences: float
    batch: int | None = None
    step_time_s: float | None = None
    token_time_s: float | None = None
    acceptance_length: float | None = None
    acceptance_source: AcceptanceSource | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    own_s: float | None = None
    harm_s: float | None = None
    total: float | None = None
    error: float | None = None
    measured: bool | None = None


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """What one pool could do with a request.

    `obstacle` is None where it could serve it now; `ready` names the backends that could, `loads` counts the requests
    that run, wait and are on their way there. `draining` names those that are given no requests for the time being.
    `expected`: by a policy that weighs pools.
    """

    pool: str
    kind: PoolKind
    eligible: bool
    obstacle: Reason | None
    ready: tuple[str, ...]
    loads: tuple[float, ...]
    draining: tuple[str, ...] = ()
    expected: Expected | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One request under one policy on one fleet."""

    request: RequestView
    decision: Decision
    verdicts: tuple[PoolVerdict, ...]


def explain(policy: Policy, request: RequestView, fleet: FleetSnapshot) -> Explanation:
    """Decide the request and show what every pool could have done with it."""
    costs = expectations(policy, request, fleet)
    verdicts = tuple(verdict(pool, request, costs.get(pool.name)) for pool in fleet.pools)
    return Explanation(request, policy.decide(request, fleet), verdicts)


def expectations(policy: Policy, request: RequestView, fleet: FleetSnapshot) -> Mapping[str, Expected]:
    """What the policy expects of each pool that could take the request now; empty where it does not weigh pools."""
    weigh = getattr(policy, "weigh", None)
    if weigh is None or not request.sampled:
        return {}
    return {cost.pool.name: _expected(cost) for cost in weigh(request, fleet)}


def _expected(cost: PoolCost) -> Expected:
    terms, acceptance, profile = cost.terms, cost.acceptance, cost.profile
    backend, measured = cost.target.backend, None if profile is None else profile.measured
    if terms is None or acceptance is None:
        return Expected(backend, cost.sequences, measured=measured)
    return Expected(
        backend=backend,
        sequences=cost.sequences,
        batch=terms.batch,
        step_time_s=terms.step_s,
        token_time_s=terms.token_s,
        acceptance_length=terms.acceptance_length,
        acceptance_source=acceptance.source,
        queue_s=terms.queue_s,
        prefill_s=terms.prefill_s,
        decode_s=terms.decode_s,
        own_s=terms.own_s,
        harm_s=terms.harm_s,
        total=cost.total,
        error=cost.error,
        measured=measured,
    )


def verdict(pool: PoolView, request: RequestView, expected: Expected | None = None) -> PoolVerdict:
    """What stands in the way of this request on this pool: capability first, then health, then room."""
    ready = [backend for backend in capable_backends(pool, request) if backend.health is Health.READY]
    able = [backend for backend in ready if not backend.full]
    obstacle = why_incapable(pool, request)
    if obstacle is None and not able:
        obstacle = Reason.CAPACITY if ready else Reason.HEALTH
    return PoolVerdict(
        pool=pool.name,
        kind=pool.kind,
        eligible=obstacle is None,
        obstacle=obstacle,
        ready=tuple(backend.name for backend in able),
        loads=tuple(backend.load for backend in able),
        draining=tuple(backend.name for backend in pool.backends if backend.draining),
        expected=expected,
    )
