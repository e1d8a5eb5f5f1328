"""The only writer of what the router believes about its engines."""

from dataclasses import dataclass

from breakeven_policies.snapshot import EngineSignals


@dataclass(frozen=True, slots=True)
class Started:
    """A request was given to the backend (before its connection exists)."""

    backend: str


@dataclass(frozen=True, slots=True)
class Finished:
    """That request ended there, in whatever way."""

    backend: str


@dataclass(frozen=True, slots=True)
class ConnectRefused:
    """The engine's port refused a connection: out at once."""

    backend: str


@dataclass(frozen=True, slots=True)
class ProbeSucceeded:
    """GET /health answered 200 (or 401/404: the process lives; `warning` then says what is misconfigured)."""

    backend: str
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """`loading`: the engine answered 503; `refused`: nothing listens; else a time-out or another failure."""

    backend: str
    error: str
    refused: bool = False
    loading: bool = False


@dataclass(frozen=True, slots=True)
class Scraped:
    """A metrics page was read at `now_s`."""

    backend: str
    signals: EngineSignals
    now_s: float


@dataclass(frozen=True, slots=True)
class ModelsListed:
    """The ids that the engine's /v1/models listed."""

    backend: str
    models: frozenset[str]


FleetEvent = Started | Finished | ConnectRefused | ProbeSucceeded | ProbeFailed | Scraped | ModelsListed
