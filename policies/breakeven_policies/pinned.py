"""Everything to one pool; only what that pool would refuse, or cannot serve at all just now, goes elsewhere."""

from dataclasses import dataclass

from breakeven_policies.decision import Decision, Reason
from breakeven_policies.policy import Policy, route
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True)
class Pinned:
    """`pool` is the name of the pool."""

    pool: str

    @property
    def name(self) -> str:
        """As configured."""
        return f"pinned:{self.pool}"

    def decide(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        """Route to the pool; the reason says where capability or health sent a request elsewhere."""
        return route(request, fleet, self.name, Reason.PINNED, lambda pool: pool.name == self.pool)


def build(argument: str | None, threshold: float) -> Policy:  # noqa: ARG001  # the signature is the contract of `policy`
    """`pinned:POOL`."""
    if not argument:
        message = "pinned needs the name of a pool: pinned:POOL"
        raise ValueError(message)
    return Pinned(argument)
