"""The engines that are simulated: how they draft, and how long a step takes them.

The step times are those of `engine.hardware`, tabulated by the tokens of a step, since a simulation asks for them some
millions of times. A policy never sees this table: its own curve has another form and has to come to terms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from breakeven_bench.engine.hardware import KV_BYTES_PER_TOKEN, PROFILES, Drafter, Hardware, eagle_drafter
from breakeven_bench.engine.hardware import NO_DRAFTER as PLAIN

SEQUENCES_MAX = 128
"""Slots of an engine (`max_num_seqs`), as in the design's simulation."""

STEP_TOKENS_MAX = 2048
"""Prefill and verification together in one step: vLLM 0.33.0's default on an A100."""

PROFILE = "a100-tp2-fp8"
"""Half of the user's machine, FP8 weights multiplied at BF16 speed: with it the means of design section 1 come out."""


class KindName(StrEnum):
    """A way of drafting; the words of the tables."""

    PLAIN = "plain"
    K3 = "k=3"
    K5 = "k=5"
    DYNAMIC = "dynamic"


DYNAMIC_UP_TO = ((8, 5), (24, 3), (32, 2), (48, 1), (SEQUENCES_MAX, 0))
"""Batch up to which so many tokens are drafted, in vLLM's `num_speculative_tokens_per_batch_size` of the engine.

Near the most useful k at the acceptance of a mixed load by the step-time model; the best of four such schedules in
this simulation. With no drafts a step still pays the overhead of speculation.
"""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """One kind of engine on one kind of hardware.

    `drafts_by_batch[b]` is k while b sequences are scheduled. `forward_s[n]` is a step of n tokens without attention;
    attention adds `kv_token_s` for each token of context. `kv_tokens_max` tokens of context fit into its cache.
    """

    name: KindName
    drafts_by_batch: tuple[int, ...]
    forward_s: tuple[float, ...]
    kv_token_s: float
    kv_tokens_max: int
    drafter: Drafter

    @property
    def draft_tokens(self) -> int:
        """The largest k: what the engine is configured with, 0 on a plain one."""
        return max(self.drafts_by_batch)

    @property
    def prompt_token_s(self) -> float:
        """Seconds that a token of a prompt adds to a step, in the mean of a step that is full of them."""
        return (self.forward_s[STEP_TOKENS_MAX] - self.forward_s[1]) / (STEP_TOKENS_MAX - 1)

    def step_s(self, tokens: int, kv_tokens: float, drafts: int, sequences: int) -> float:
        """Seconds of a step; at most `STEP_TOKENS_MAX` tokens."""
        return self.forward_s[tokens] + self.kv_token_s * kv_tokens + self.drafter.step_s(drafts, sequences)

    def decode_step_s(self, batch: int, kv_tokens: float) -> float:
        """Seconds of a step that only decodes, for `batch` sequences with `kv_tokens` tokens of context together."""
        drafts = self.drafts_by_batch[min(batch, SEQUENCES_MAX)]
        return self.step_s(batch * (drafts + 1), kv_tokens, drafts, batch)


def _constant(drafts: int) -> tuple[int, ...]:
    return (drafts,) * (SEQUENCES_MAX + 1)


def _dynamic() -> tuple[int, ...]:
    table: list[int] = []
    for last, drafts in DYNAMIC_UP_TO:
        table += [drafts] * (last + 1 - len(table))
    return tuple(table)


_DRAFTS: dict[KindName, Callable[[], tuple[int, ...]]] = {
    KindName.PLAIN: lambda: _constant(0),
    KindName.K3: lambda: _constant(3),
    KindName.K5: lambda: _constant(5),
    KindName.DYNAMIC: _dynamic,
}


@cache
def engine_kind(name: KindName, profile: str = PROFILE) -> EngineKind:
    """The kind of that name on that hardware profile."""
    hardware: Hardware = PROFILES[profile]
    return EngineKind(
        name=name,
        drafts_by_batch=_DRAFTS[name](),
        forward_s=tuple(hardware.forward_s(tokens, 0) for tokens in range(STEP_TOKENS_MAX + 1)),
        kv_token_s=KV_BYTES_PER_TOKEN / hardware.bytes_per_s,
        kv_tokens_max=hardware.kv_cache_tokens,
        drafter=PLAIN if name is KindName.PLAIN else eagle_drafter(hardware),
    )
