"""The default policy: temperature above a threshold goes to the plain pools, everything else to the speculative ones.

The rule knows nothing of load. It is right where drafting is greedy (vLLM's default), whose acceptance falls with
temperature, and while the speculative pool has room; see ARCHITECTURE, "What the threshold rule costs".
"""

from dataclasses import dataclass
from math import isfinite

from breakeven_policies.capability import PLAIN
from breakeven_policies.decision import Decision, Reason
from breakeven_policies.policy import Policy, route
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot, PoolView


@dataclass(frozen=True, slots=True)
class Threshold:
    """`temperature_max` is the highest temperature that is still served with speculation."""

    temperature_max: float = 1.0
    name: str = "threshold"

    def decide(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        """Route by the effective temperature; what samples nothing goes to the least loaded backend of any pool."""
        if not request.sampled:
            return route(request, fleet, self.name, Reason.NOT_SAMPLED, lambda _: True)
        if request.temperature > self.temperature_max:
            reason = Reason.DEFAULT_ABOVE if request.temperature_defaulted else Reason.TEMPERATURE_ABOVE
            return route(request, fleet, self.name, reason, _is_plain)
        reason = Reason.DEFAULT_WITHIN if request.temperature_defaulted else Reason.TEMPERATURE_WITHIN
        return route(request, fleet, self.name, reason, _is_speculative)


def _is_plain(pool: PoolView) -> bool:
    return pool.kind is PLAIN


def _is_speculative(pool: PoolView) -> bool:
    return pool.kind is not PLAIN


def build(argument: str | None, threshold: float) -> Policy:
    """`threshold` or `threshold:0.8`; the argument overrides the configured threshold."""
    if argument is None:
        return Threshold(threshold)
    temperature_max = float(argument)
    if not (isfinite(temperature_max) and temperature_max >= 0):  # below 0 lies no request: nothing would be speculated
        message = f"threshold needs a finite temperature of 0 or more, got {argument!r}"
        raise ValueError(message)
    return Threshold(temperature_max, f"threshold:{temperature_max:g}")
