"""The policy without a preference: the least loaded ready backend of all pools that accept the request."""

from dataclasses import dataclass

from breakeven_policies.decision import Decision, Reason
from breakeven_policies.policy import Policy, route
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True)
class LeastLoaded:
    """The arm that every comparison needs: what a plain load balancer would do with the same engines."""

    name: str = "least_loaded"

    def decide(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        """Route by load alone."""
        return route(request, fleet, self.name, Reason.LEAST_LOADED, lambda _: True)


def build(argument: str | None, threshold: float) -> Policy:  # noqa: ARG001  # the signature is the contract of `policy`
    """`least_loaded` takes no argument."""
    if argument is not None:
        message = f"least_loaded takes no argument, got {argument!r}"
        raise ValueError(message)
    return LeastLoaded()
