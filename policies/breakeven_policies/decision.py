"""What a policy answers, and the closed set of words that say why."""

from enum import StrEnum

from msgspec import Struct


class Reason(StrEnum):
    """Why a request went where it went: the same word in metric label, header, log and explain."""

    __hash__ = str.__hash__  # Enum's is a function in Python, and the word is looked up for every request

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
    COST = "lowest_cost"
    """The cheapest of all pools, by what was measured of each."""
    COST_TIED = "cost_within_error"
    """Two costs differed by less than their error, and the ticket chose between them."""
    EXPLORATION = "exploration"
    """Sent where little is known of such requests, to learn; see `breakeven` for how often."""
    OWN_RULE = "own_rule"
    """The rule of a policy that has no word here: one of your own."""
    UNMEASURED = "unmeasured"
    """Neither a measured table nor enough observations say what a pool would take: the static rule decided."""


class Refusal(StrEnum):
    """Why a request goes nowhere."""

    UNKNOWN_MODEL = "unknown_model"
    NO_CAPABLE_POOL = "no_capable_pool"
    NO_READY_BACKEND = "no_backend"
    AT_CAPACITY = "at_capacity"
    """Every ready backend that could serve it has as many requests as it may have: it may wait for a place."""


class AcceptanceSource(StrEnum):
    """Where an acceptance length comes from, the best first."""

    PLAIN = "plain"
    """The pool drafts nothing: one token per step."""
    REQUESTS = "requests"
    """The engine's own figure for single requests (`metrics.speculative_decoding`)."""
    TIMING = "timing"
    """Tokens per event of the stream, or time per token against the pool's step time."""
    COUNTERS = "counters"
    """The engine's counters: all its requests, whatever their class."""
    TABLE = "table"
    """The measured table."""


class Prediction(Struct, frozen=True):
    """What the policy expects of its choice, and of the next best pool; the terms are those of `cost`.

    `batch` is the number of sequences expected there without this request. `own_s` is the request's own time, `harm_s`
    the delay it causes to the others together, both in seconds; `total` is what was compared, in request-seconds where
    the objective is latency. `runner_up` is the cheapest backend of another pool, None where there is none. `table` is
    the hash of the measured table that the figures of the two began with, several joined by +; None: there was none.
    """

    batch: int
    step_time_s: float
    acceptance_length: float
    acceptance_source: AcceptanceSource
    own_s: float
    harm_s: float
    total: float
    runner_up: "Target | None" = None
    runner_up_total: float | None = None
    table: str | None = None


class Target(Struct, frozen=True):
    """One backend of one pool, by name."""

    pool: str
    backend: str


class Route(Struct, frozen=True):
    """Try the targets in order, the first being the choice; between one and three of them, each eligible and ready.

    `prediction`: where the policy has one.
    """

    ranking: tuple[Target, ...]
    reason: Reason
    policy: str
    prediction: Prediction | None = None


class Refuse(Struct, frozen=True):
    """Nothing can serve this request."""

    refusal: Refusal
    policy: str

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later: health and load change, models and capabilities do not."""
        return self.refusal in (Refusal.NO_READY_BACKEND, Refusal.AT_CAPACITY)


Decision = Route | Refuse
