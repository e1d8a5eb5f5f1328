"""The arms of a comparison: how the same two machines are used. A table, and nothing else.

The arms of a split fleet differ in policy only. The equal-hardware arms use the same two machines without a split: a
policy that gains against a bad use of its own fleet has gained nothing if two equal engines would have done better.
"""

from dataclasses import dataclass

PLAIN_POOL = "baseline"
SPECULATIVE_POOL = "speculative"
"""The names that the router gives to the pools of its flags --baseline and --speculative."""


@dataclass(frozen=True, slots=True)
class Arm:
    """So many plain and speculative engines under one policy of the router."""

    name: str
    title: str
    plain: int
    speculative: int
    policy: str

    @property
    def is_equal_hardware(self) -> bool:
        """Whether all its engines are of one kind: what the split has to beat."""
        return self.plain == 0 or self.speculative == 0


THRESHOLD = Arm("threshold", "threshold (T > 1.0)", 1, 1, "threshold")
LEAST_LOADED = Arm("least-loaded", "least loaded", 1, 1, "least_loaded")
ALWAYS_SPECULATIVE = Arm("always-speculative", "always speculative", 1, 1, f"pinned:{SPECULATIVE_POOL}")
TWO_SPECULATIVE = Arm("two-speculative", "two EAGLE-3", 0, 2, "least_loaded")

ARMS = (
    ALWAYS_SPECULATIVE,
    Arm("always-baseline", "always baseline", 1, 1, f"pinned:{PLAIN_POOL}"),
    LEAST_LOADED,
    THRESHOLD,
    Arm("two-plain", "two plain", 2, 0, "least_loaded"),
    TWO_SPECULATIVE,
)


def arms_named(names: list[str]) -> tuple[Arm, ...]:
    """The arms of these names in the order of the table; ValueError names what there is."""
    known = [arm.name for arm in ARMS]
    unknown = [name for name in names if name not in known]
    if unknown:
        message = f"unknown arm {unknown[0]!r}; there are: {', '.join(known)}"
        raise ValueError(message)
    return tuple(arm for arm in ARMS if arm.name in names)
