"""Why a decision fell as it did: the verdict on every pool, beside the decision itself."""

from dataclasses import dataclass

from breakeven_policies.capability import capable_backends, why_incapable
from breakeven_policies.decision import Decision, Reason
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot, Health, PoolKind, PoolView


@dataclass(frozen=True, slots=True)
class PoolVerdict:
    """What one pool could do with a request.

    `obstacle` is None where it could serve it now; `ready` names the backends that could, `loads` counts the requests
    that run, wait and are on their way there. `draining` names those that are given no requests for the time being.
    """

    pool: str
    kind: PoolKind
    eligible: bool
    obstacle: Reason | None
    ready: tuple[str, ...]
    loads: tuple[float, ...]
    draining: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """One request under one policy on one fleet."""

    request: RequestView
    decision: Decision
    verdicts: tuple[PoolVerdict, ...]


def explain(policy: Policy, request: RequestView, fleet: FleetSnapshot) -> Explanation:
    """Decide the request and show what every pool could have done with it."""
    return Explanation(request, policy.decide(request, fleet), tuple(verdict(pool, request) for pool in fleet.pools))


def verdict(pool: PoolView, request: RequestView) -> PoolVerdict:
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
    )
