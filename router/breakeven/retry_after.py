"""When a client that nothing could serve should come again: when the next look at the engines may have changed that."""

from math import ceil

from breakeven_policies.snapshot import FleetSnapshot, Health

LOADING_S = 10.0
"""A model takes minutes to load; a client that comes every second meanwhile gains nothing."""

EJECTED_S = 5.0
"""An ejected engine is asked for a token after pauses of up to half a minute."""


def retry_after_s(fleet: FleetSnapshot, probe_interval_s: float) -> int:
    """The soonest that a backend which is not ready may be so, in whole seconds, at least one."""
    waits = {Health.LOADING: max(LOADING_S, probe_interval_s), Health.EJECTED: max(EJECTED_S, probe_interval_s)}
    soonest = min(
        (
            waits.get(backend.health, probe_interval_s)
            for pool in fleet.pools
            for backend in pool.backends
            if backend.health is not Health.READY
        ),
        default=probe_interval_s,
    )
    return max(1, ceil(soonest))
