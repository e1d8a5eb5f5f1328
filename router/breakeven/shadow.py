"""Decides requests under other policies too (`shadow`), to see what they would have done; no request waits for it.

A request goes its way first: what it was decided upon is immutable, so that its shadows decide the same from it in the
next turn of the loop. What goes wrong there is counted and costs no request.

Deciding is bounded. A turn of the loop works on shadows for `TURN_S` and then gives way. A policy whose decisions take
longer than `DECISION_S` is asked about a share of the requests only, so that on average it takes no more than that of
each; the share is drawn by the ticket, so that all kinds of requests are among it.
"""

import logging
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from breakeven.metrics import Metrics
from breakeven_policies.agreement import agreement, regret, wanted_pool
from breakeven_policies.decision import Decision, Refusal, Refuse
from breakeven_policies.journal import is_sampled
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot

LOG = logging.getLogger(__name__)

DECISION_S = 100e-6
"""A decision takes some 10 µs with two engines and may take 60 with 64: only what is dearer than that is sampled."""

TURN_S = 1e-3
"""What shadows may take of one turn of the loop, as long as an ordinary request takes; then relays move."""

WAITING_MAX = 1000
"""Requests whose shadows have not decided yet, each holding its snapshot: a second of a busy router."""

RECENT = 3
"""Decisions whose fastest tells what one takes: a process that was interrupted makes single ones look slow."""

FAILED, SKIPPED = "failed", "skipped"

Considered = tuple[RequestView, FleetSnapshot, Decision]


class Comparison(Struct, frozen=True):
    """How a shadow's decision stands to what was done; None: no pool, or it cannot say."""

    result: str
    wanted: str | None = None
    regret: float | None = None


HAS_FAILED = Comparison(FAILED)


class Shadow:
    """One policy that is only asked."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._recent_s = deque([0.0], maxlen=RECENT)
        self._complained = False

    @property
    def share(self) -> float:
        """Of the requests that it may decide, by how long it takes."""
        return min(1.0, DECISION_S / max(DECISION_S, min(self._recent_s)))

    def compare(self, request: RequestView, fleet: FleetSnapshot, decision: Decision) -> Comparison:
        """How its decision stands to that one; the log hears of its first failure."""
        try:
            other = self.policy.decide(request, fleet)
            return Comparison(agreement(decision, other), wanted_pool(other), regret(decision, other))
        except Exception:  # a policy may be anybody's module: nothing of it may reach traffic
            if not self._complained:
                LOG.exception("shadow policy %s failed; further failures are only counted", self.policy.name)
            self._complained = True
            return HAS_FAILED

    def took(self, seconds: float) -> None:
        """Note how long a decision took."""
        self._recent_s.append(seconds)


class Shadows:
    """All of them. `soon` has a function called in the next turn of the loop."""

    def __init__(
        self,
        policies: tuple[Policy, ...],
        metrics: Metrics,
        now: Callable[[], float],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._shadows = [Shadow(policy) for policy in policies]
        self._metrics = metrics
        self._now = now
        self._soon = soon
        self._waiting: deque[Considered] = deque()
        for policy in policies:
            metrics.shadow_starts(policy.name)

    def consider(self, request: RequestView, fleet: FleetSnapshot, decision: Decision) -> None:
        """Compare this decision with theirs soon. One that waits for a place is not decided yet."""
        if isinstance(decision, Refuse) and decision.refusal is Refusal.AT_CAPACITY:
            return
        if len(self._waiting) >= WAITING_MAX:
            for shadow in self._shadows:
                self._metrics.shadow_decided(shadow.policy.name, SKIPPED)
            return
        self._waiting.append((request, fleet, decision))
        if len(self._waiting) == 1:
            self._soon(self.work)

    def work(self) -> None:
        """Compare what waits, for as long as a turn may take."""
        began_s = now_s = self._now()
        while self._waiting and now_s - began_s < TURN_S:
            now_s = self._compare(*self._waiting[0], now_s)
            self._waiting.popleft()
        if self._waiting:
            self._soon(self.work)

    def _compare(self, request: RequestView, fleet: FleetSnapshot, decision: Decision, now_s: float) -> float:
        """The moment at which all have decided."""
        metrics = self._metrics
        for shadow in self._shadows:
            name = shadow.policy.name
            if not is_sampled(request.ticket, shadow.share):
                metrics.shadow_decided(name, SKIPPED)
                continue
            found = shadow.compare(request, fleet, decision)
            before_s, now_s = now_s, self._now()
            shadow.took(now_s - before_s)
            metrics.shadow_decided(name, found.result, found.wanted, now_s - before_s)
            if found.regret is not None:
                metrics.shadow_regrets(name, found.regret)
        return now_s
