"""What was measured, and where: one sample for each peer, load and round."""

from statistics import median

import msgspec

SCHEMA_VERSION = 1

DIRECT = "direct"
"""The peer that is none: the engine itself."""

OURS = "breakeven"


class Visit(msgspec.Struct, frozen=True):
    """What the clients saw. Times in ms; None where there was nothing to time.

    `first_*`: from sending a request to the first event or the whole document. `delay_*`: from the engine's writing of
    an event to its being read here, taken of the oldest event of each read.
    """

    seconds: float
    good: int
    failed: int
    first_p50_ms: float | None
    first_p99_ms: float | None
    delay_p50_ms: float | None
    delay_p99_ms: float | None


class Sample(msgspec.Struct, frozen=True):
    """One load through one peer. `cpu_us`: what its processes spent per relayed event, or per request of documents."""

    peer: str
    load: str
    round: int
    cpu_us: float
    resident_mb: float
    visit: Visit


class Provenance(msgspec.Struct, frozen=True):
    """Where the figures come from: `versions` by name of the program."""

    started_at: str
    took_s: float
    command: str
    machine: str
    cpu: str
    versions: dict[str, str]
    load_before: float


class Result(msgspec.Struct, frozen=True):
    """A whole run."""

    schema_version: int
    provenance: Provenance
    samples: tuple[Sample, ...]

    def of(self, peer: str, load: str) -> list[Sample]:
        """The samples of one peer under one load, by round."""
        return sorted(
            (sample for sample in self.samples if (sample.peer, sample.load) == (peer, load)),
            key=lambda sample: sample.round,
        )

    def peers(self) -> list[str]:
        """Their names, in the order of the first round."""
        return list(dict.fromkeys(sample.peer for sample in self.samples))

    def loads(self) -> list[str]:
        """Likewise."""
        return list(dict.fromkeys(sample.load for sample in self.samples))


def cpu_us(samples: list[Sample]) -> float | None:
    """The median of the rounds in which nothing failed: errors are cheap. None of nothing."""
    good = [sample.cpu_us for sample in samples if not sample.visit.failed]
    return median(good) if good else None


def ratio(ours: list[Sample], theirs: list[Sample]) -> tuple[float, float, float] | None:
    """Ours as a multiple of theirs within each round: the median, the lowest, the highest. None without a common round.

    Both met the machine in the same state then, more or less; what is left is noise, and the range shows it.
    """
    of_round = {sample.round: sample.cpu_us for sample in theirs if sample.cpu_us > 0 and not sample.visit.failed}
    ratios = [
        sample.cpu_us / of_round[sample.round]
        for sample in ours
        if sample.round in of_round and not sample.visit.failed
    ]
    return (median(ratios), min(ratios), max(ratios)) if ratios else None


def encode(result: Result) -> bytes:
    """As indented JSON."""
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


def decode(data: bytes) -> Result:
    """What `encode` wrote. ValueError where it is something else, or of another version of this program."""
    result = msgspec.json.decode(data, type=Result)
    if result.schema_version != SCHEMA_VERSION:
        message = f"it has version {result.schema_version}, and this program reads {SCHEMA_VERSION}"
        raise ValueError(message)
    if not result.samples:
        message = "it holds no samples"
        raise ValueError(message)
    return result
