"""How long one engine step takes: an analytic model of Llama 3.x 70B on a few machines.

MODELLED, NOT MEASURED on the A100. A step reads the weights once and multiplies them with every token of the batch; the
slower of the two decides, with a smooth corner between them:

    forward(n, kv) = (t_weights^6 + t_matmul(n)^6)^(1/6) + 3 ms + 0.03 ms x n + kv bytes / bandwidth
    step           = forward(n, kv) + drafts x (drafter + drafter_per_sequence x B) + speculation overhead

where n counts every token of the step: one or `drafts + 1` per decoding sequence, and the prompt tokens of the prefill
chunk; kv is the context that attention reads, in tokens. While t_weights rules, verifying drafts is nearly free; once
t_matmul rules, it costs its full price. That corner is where speculation stops paying.

The exponent, the 3 ms, the 0.03 ms and the drafter's times were fitted to published H100 and H200 throughput (arXiv
2601.11580; SpecForge's results), where they predict the speed-up over batch size within 5 %. Other constants would
fit as well, and the A100 figures extrapolate: pessimistic variants move the break-even batch down by 10 to 30 %.
"""

from dataclasses import dataclass, replace

PARAMETERS = 69.5e9
"""Weights of Llama 3.x 70B that a step reads: all but the input embedding."""

KV_BYTES_PER_TOKEN = 80 * 8 * 128 * 2 * 2
"""Layers x KV heads x head size x (key, value) x 2 bytes, over all tensor-parallel ranks."""

CORNER_EXPONENT = 6
STEP_FIXED_S = 3.0e-3
STEP_PER_TOKEN_S = 0.03e-3
DRAFTER_PER_SEQUENCE_S = 0.002e-3

DRAFT_MODEL_BYTES = 16.1e9
"""Llama 3.1 8B in BF16, the usual draft model of a 70B target."""

DRAFT_MODEL_FIXED_S = 1.0e-3
"""Launch and communication of one forward pass of the draft model (assumption: a third of the target's 3 ms)."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """One engine's share of a machine.

    Bandwidth (bytes/s) and compute (operations/s) are of one GPU; `mbu` and `mfu` are the shares of them that are
    reached. `drafter_s` is one forward pass of an EAGLE head, `speculation_overhead_s` what a speculative step adds
    however few drafts it verifies. `kv_cache_tokens` is a rough figure for what is left beside weights and
    activations.
    """

    name: str
    summary: str
    tensor_parallel: int
    bandwidth: float
    compute: float
    bytes_per_weight: float
    kv_cache_tokens: int
    drafter_s: float
    speculation_overhead_s: float
    mbu: float = 0.85
    mfu: float = 0.75

    @property
    def bytes_per_s(self) -> float:
        """Memory traffic reached by all GPUs of the engine together."""
        return self.tensor_parallel * self.bandwidth * self.mbu

    @property
    def corner_tokens(self) -> float:
        """Tokens of a step whose products take as long as reading the weights: beyond it, drafts cost full price.

        From t_weights = t_matmul(n), the two terms of `forward_s`; the number of GPUs cancels.
        """
        return self.bytes_per_weight * self.compute * self.mfu / (2 * self.bandwidth * self.mbu)

    def forward_s(self, tokens: int, kv_tokens: int) -> float:
        """Seconds of one forward pass over `tokens` tokens whose attention reads `kv_tokens` tokens of context."""
        weights_s = PARAMETERS * self.bytes_per_weight / self.bytes_per_s
        matmul_s = 2 * PARAMETERS * tokens / (self.tensor_parallel * self.compute * self.mfu)
        corner_s = (weights_s**CORNER_EXPONENT + matmul_s**CORNER_EXPONENT) ** (1 / CORNER_EXPONENT)
        kv_s = kv_tokens * KV_BYTES_PER_TOKEN / self.bytes_per_s
        return float(corner_s + STEP_FIXED_S + STEP_PER_TOKEN_S * tokens + kv_s)


@dataclass(frozen=True, slots=True)
class Drafter:
    """What drafting costs in one step, in seconds; a plain engine has none."""

    per_draft_s: float
    per_draft_and_sequence_s: float
    overhead_s: float

    def step_s(self, drafts: int, sequences: int) -> float:
        """Seconds to draft `drafts` tokens for each of `sequences` sequences. Zero drafts still cost the overhead."""
        return drafts * (self.per_draft_s + self.per_draft_and_sequence_s * sequences) + self.overhead_s


NO_DRAFTER = Drafter(0.0, 0.0, 0.0)


def eagle_drafter(hardware: Hardware) -> Drafter:
    """One small layer, run once per draft token."""
    return Drafter(hardware.drafter_s, DRAFTER_PER_SEQUENCE_S, hardware.speculation_overhead_s)


def draft_model_drafter(hardware: Hardware) -> Drafter:
    """An 8B model, run once per draft token: its weights are read each time (assumption: never compute-bound)."""
    per_draft_s = DRAFT_MODEL_BYTES / hardware.bytes_per_s + DRAFT_MODEL_FIXED_S
    return Drafter(per_draft_s, DRAFTER_PER_SEQUENCE_S, hardware.speculation_overhead_s)


def lookup_drafter(hardware: Hardware) -> Drafter:
    """Prompt lookup: no model; the verification still has its overhead."""
    return Drafter(0.0, 0.0, hardware.speculation_overhead_s)


def step_s(hardware: Hardware, drafter: Drafter, tokens: int, kv_tokens: int, drafts: int, sequences: int) -> float:
    """Seconds of one engine step; the formula stands at the head of this file."""
    return hardware.forward_s(tokens, kv_tokens) + drafter.step_s(drafts, sequences)


A100_BANDWIDTH = 2039e9
A100_BF16 = 312e12
A100_INT8 = 624e12
H100_BANDWIDTH = 3350e9
H100_BF16 = 989e12

_A100_TP2_INT8 = Hardware(
    name="a100-tp2-int8",
    summary="2 of 4x A100 80 GB, INT8 W8A8: the user's machine split into two engines",
    tensor_parallel=2,
    bandwidth=A100_BANDWIDTH,
    compute=A100_INT8,
    bytes_per_weight=1,
    kv_cache_tokens=200_000,
    drafter_s=0.8e-3,
    speculation_overhead_s=1.2e-3,
)

_PROFILES = (
    _A100_TP2_INT8,
    replace(
        _A100_TP2_INT8,
        name="a100-tp2-fp8",
        summary="2 of 4x A100 80 GB, FP8 weights multiplied at BF16 speed (W8A16): half the room to speculate",
        compute=A100_BF16,
    ),
    replace(
        _A100_TP2_INT8,
        name="a100-tp4-bf16",
        summary="4x A100 80 GB, BF16",
        tensor_parallel=4,
        compute=A100_BF16,
        bytes_per_weight=2,
        kv_cache_tokens=410_000,
    ),
    Hardware(
        name="h100-tp4-bf16",
        summary="4x H100 80 GB SXM, BF16",
        tensor_parallel=4,
        bandwidth=H100_BANDWIDTH,
        compute=H100_BF16,
        bytes_per_weight=2,
        kv_cache_tokens=410_000,
        drafter_s=0.6e-3,
        speculation_overhead_s=0.8e-3,
    ),
)

PROFILES: dict[str, Hardware] = {profile.name: profile for profile in _PROFILES}
