"""What a policy answers, and the closed set of words that say why."""

from enum import StrEnum

from msgspec import Struct


class Reason(StrEnum):
    """Why a request went where it went: the same word in metric label, header, log and explain."""

    TEMPERATURE_ABOVE = "temperature_above_threshold"
    TEMPERATURE_WITHIN = "temperature_within_threshold"
    DEFAULT_ABOVE = "default_temperature_above_threshold"
    DEFAULT_WITHIN = "default_temperature_within_threshold"
    CAPABILITY = "capability"
    MODEL = "model"
    HEALTH = "health"
    CAPACITY = "capacity"
    """Every ready backend of the wanted pool had as many requests as it may have."""
    NO_SUCH_POOL = "no_such_pool"
    """The policy wanted a kind of pool that is not configured, so another one served the request."""
    LEAST_LOADED = "least_loaded"
    PINNED = "pinned"
    NOT_SAMPLED = "not_sampled"
    FAILOVER = "failover"
    """The pool that was chosen failed the request before it answered, and another one served it."""


class Refusal(StrEnum):
    """Why a request goes nowhere."""

    UNKNOWN_MODEL = "unknown_model"
    NO_CAPABLE_POOL = "no_capable_pool"
    NO_READY_BACKEND = "no_backend"
    AT_CAPACITY = "at_capacity"
    """Every ready backend that could serve it has as many requests as it may have: it may wait for a place."""


class Target(Struct, frozen=True):
    """One backend of one pool, by name."""

    pool: str
    backend: str


class Route(Struct, frozen=True):
    """Try the targets in order, the first being the choice; between one and three of them, each eligible and ready."""

    ranking: tuple[Target, ...]
    reason: Reason
    policy: str


class Refuse(Struct, frozen=True):
    """Nothing can serve this request."""

    refusal: Refusal
    policy: str

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later: health and load change, models and capabilities do not."""
        return self.refusal in (Refusal.NO_READY_BACKEND, Refusal.AT_CAPACITY)


Decision = Route | Refuse
