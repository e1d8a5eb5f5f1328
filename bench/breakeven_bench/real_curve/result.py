"""What is kept of a measurement: raw counts and times with their provenance. Figures are derived when shown."""

from dataclasses import dataclass

import msgspec

from breakeven_bench.real_curve.extent import Extent
from breakeven_bench.real_curve.greedy import Divergence

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; a reader refuses what it does not know."""

BASELINE = "baseline"
GREEDY = "eagle3-greedy"
PROBABILISTIC = "eagle3-probabilistic"
"""The engines by name. The last two differ in `draft_sample_method` alone."""

ROUTER = "router"
DIRECT = "direct"
"""The ways to an engine."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the figures come from. `engines`: by name what the engine was started with, in words.

    `load_before`: the machine's load average of one minute before anything was started, so what others did there.
    `prompts_sha256` is over the prompts in their order.
    """

    started_at: str
    took_s: float
    command: str
    seed: int
    versions: dict[str, str]
    machine: str
    cpu: str
    engines: dict[str, str]
    prompts_sha256: str
    load_before: float


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One point of the curve: what one engine counted while it answered the prompts at one temperature.

    `lengths` are the engine's own acceptance lengths of the single answers, in order of the prompts.
    """

    engine: str
    temperature: float
    generated_tokens: int
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_position: tuple[int, ...]
    lengths: tuple[float, ...]

    @property
    def length(self) -> float:
        """Tokens that a verification yields; 1 where nothing is ever accepted."""
        return 1.0 + self.accepted_tokens / self.drafts

    @property
    def rate(self) -> float:
        """Accepted draft tokens of all draft tokens."""
        return self.accepted_tokens / self.draft_tokens

    @property
    def per_position(self) -> tuple[float, ...]:
        """For each draft position, the share of verifications that accepted so far."""
        return tuple(accepted / self.drafts for accepted in self.accepted_per_position)


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one cell: milliseconds per output token of every answer, the first event of each left out."""

    engine: str
    path: str
    temperature: float
    concurrency: int
    round: int
    tpot_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Greedy answers of both pools through the router: how many, of how many tokens, and where they part."""

    prompts: int
    tokens: int
    divergences: tuple[Divergence, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A whole measurement."""

    schema_version: int
    provenance: Provenance
    extent: Extent
    acceptance: tuple[Acceptance, ...]
    comparison: Comparison
    samples: tuple[Sample, ...]


_DECODER = msgspec.json.Decoder(Result)


def encode(result: Result) -> bytes:
    """The file: JSON that a person can read and a diff can compare."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def decode(data: bytes) -> Result:
    """The result in a file; ValueError says why it is none."""
    try:
        result = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        message = f"no result of real-curve: {error}"
        raise ValueError(message) from None
    if result.schema_version != SCHEMA_VERSION:
        message = f"a result of schema version {result.schema_version}, this reader knows {SCHEMA_VERSION}"
        raise ValueError(message)
    return result
