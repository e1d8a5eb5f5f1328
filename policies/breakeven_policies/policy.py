"""The contract of a policy, and the steps that all policies share.

A policy is a frozen value with one method. Every decision is taken in one order: what a pool would refuse
(`capability`), then which backends are ready and have room, then the policy's own preference between the pools left.
Policies in this package state only that preference, as the pools they want; `route` does the rest.

To add one, write `breakeven_policies/mine.py` with a function `build(argument: str | None, threshold: float) -> Policy`
and name it in the configuration: `policy: mine` or `policy: mine:argument`. CONTRIBUTING shows one, and where it goes.
"""

from collections.abc import Callable
from functools import lru_cache
from heapq import nsmallest
from typing import Protocol
from zlib import crc32

from breakeven_policies.capability import capable_backends, why_incapable
from breakeven_policies.decision import Decision, Reason, Refusal, Refuse, Route, Target
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, FleetSnapshot, Health, PoolView

READY = Health.READY
"""Python 3.11 takes 0.2 µs to find a member of an enumeration, and this one is wanted once per backend and request."""

RANKING_MAX = 3
"""The choice and two further attempts: more would repeat one costly prompt over the fleet (field case B49)."""

Candidate = tuple[PoolView, BackendView]


class Policy(Protocol):
    """Decides where a request is served. Same inputs, same answer; it never fails and never does I/O."""

    @property
    def name(self) -> str:
        """The name as configured, the argument included: `pinned:spec`."""

    def decide(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        """Route the request or refuse it."""


def route(
    request: RequestView, fleet: FleetSnapshot, policy: str, reason: Reason, wanted: Callable[[PoolView], bool]
) -> Decision:
    """Send the request to the least loaded ready backend of the wanted pools, or say by which rule that is impossible.

    A backend that has as many requests as it may have is not eligible now, as if it were not ready.
    Where no wanted pool can take it, the other pools do, and the reason names what stood in the way: it is the policy's
    own only where a wanted pool serves the request. The ranking
    lists up to two backends of the wanted pools and then the best of the others, so that a pool that dies meanwhile
    loses nothing.
    """
    first: list[Candidate] = []
    others: list[Candidate] = []
    obstacle: Reason | None = None
    capable_anywhere = False
    full_pool: PoolView | None = None
    for pool in fleet.pools:
        candidates = first if wanted(pool) else others
        known = len(candidates)
        for backend in capable_backends(pool, request):
            capable_anywhere = True
            if backend.health is READY:
                if backend.in_flight_max and backend.full:  # no call where there is no limit
                    full_pool = pool
                else:
                    candidates.append((pool, backend))
        if candidates is first and len(first) == known:
            stopped = Reason.CAPACITY if full_pool is pool else Reason.HEALTH
            obstacle = obstacle or why_incapable(pool, request) or stopped
    if not first and not others:
        if full_pool is not None:
            return Refuse(Refusal.AT_CAPACITY, policy)
        return _refuse(request, fleet, policy, capable_anywhere=capable_anywhere)
    if not first:
        return Route(_ranking(others, [], request.ticket), obstacle or Reason.NO_SUCH_POOL, policy)
    return Route(_ranking(first, others, request.ticket), reason, policy)


def _refuse(request: RequestView, fleet: FleetSnapshot, policy: str, *, capable_anywhere: bool) -> Refuse:
    if capable_anywhere or not any(pool.backends for pool in fleet.pools):
        return Refuse(Refusal.NO_READY_BACKEND, policy)
    if all(why_incapable(pool, request) is Reason.MODEL for pool in fleet.pools if pool.backends):
        return Refuse(Refusal.UNKNOWN_MODEL, policy)
    return Refuse(Refusal.NO_CAPABLE_POOL, policy)


def _ranking(first: list[Candidate], others: list[Candidate], ticket: float) -> tuple[Target, ...]:
    if others:
        best = least_loaded(first, RANKING_MAX - 1, ticket)
        best += least_loaded(others, RANKING_MAX - len(best), ticket)
    else:
        best = least_loaded(first, RANKING_MAX, ticket)
    return tuple([Target(pool.name, backend.name) for pool, backend in best])


def least_loaded(candidates: list[Candidate], most: int, ticket: float) -> list[Candidate]:
    """The `most` least loaded candidates in rising load; the ticket orders equals, so that replicas do not herd."""
    if len(candidates) <= 1:
        return list(candidates)
    return nsmallest(most, candidates, key=lambda candidate: (candidate[1].load, lot(candidate[1].name, ticket)))


def lot(name: str, ticket: float) -> int:
    """A number drawn for this name by this ticket: rendezvous hashing, so that the order of backends does not matter.

    The multiplier is the golden-ratio constant of splitmix64; the shift mixes its high bits into the comparison.
    """
    mixed = ((digest(name) ^ int(ticket * 2**53)) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF


@lru_cache(maxsize=4096)  # names are configured; an idle fleet of 64 draws a lot for each at every request
def digest(name: str) -> int:
    """What a lot is drawn from for this name, the same in every process."""
    return crc32(name.encode("utf-8", "replace"))
