"""What the admin port may look at; apart from `admin`, so that a worker, which has none, does not load FastAPI."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from breakeven.body import ModelTable
from breakeven.endpoints import EndpointTable
from breakeven.fleet import Drained, Resumed
from breakeven.metrics import Metrics
from breakeven_policies.policy import Policy
from breakeven_policies.snapshot import FleetSnapshot


@dataclass(slots=True)
class Sights:
    """What the admin port may look at, and change by `apply` and `switch`; a reload changes what is here."""

    snapshot: Callable[[], FleetSnapshot]
    policy: Callable[[], Policy]
    ready: Callable[[], bool]
    metrics: Metrics
    models: ModelTable
    endpoints: EndpointTable
    admin_key: str | None
    apply: Callable[[Drained | Resumed], object]
    build: Callable[[str], Policy]
    configured: Callable[[], Policy]
    switch: Callable[[str | None, str], object]
    tables: Callable[[], dict[str, Any]] = dict
