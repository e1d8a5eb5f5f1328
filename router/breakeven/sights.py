"""What the admin port may look at; apart from `admin`, so that a worker, which has none, does not load FastAPI."""

from collections.abc import Callable
from dataclasses import dataclass

from breakeven.body import ModelTable
from breakeven.endpoints import EndpointTable
from breakeven.metrics import Metrics
from breakeven_policies.policy import Policy
from breakeven_policies.snapshot import FleetSnapshot


@dataclass(frozen=True, slots=True)
class Sights:
    """What the admin port may look at."""

    snapshot: Callable[[], FleetSnapshot]
    policy: Callable[[], Policy]
    ready: Callable[[], bool]
    metrics: Metrics
    models: ModelTable
    endpoints: EndpointTable
    admin_key: str | None
