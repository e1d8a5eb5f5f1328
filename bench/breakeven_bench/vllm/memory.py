"""What fits into one GPU of an engine: weights, drafter, and how many tokens of context beside them.

    room   = memory x share - runtime - weights / GPUs - drafter
    tokens = room / (bytes of one token's keys and values / GPUs)

vLLM computes the same while it starts, with a measured run instead of `RUNTIME_BYTES`, and logs the tokens as "GPU KV
cache size" and tokens over the longest request as "Maximum concurrency". Layers of different head sizes share one pool
of blocks there, sized by their sum (code `v1/core/kv_cache_planning.py` get_kv_cache_groups), so target and drafter add
up.
"""

from dataclasses import dataclass

from breakeven_bench.vllm.facts import DRAFT_TOKENS, MEMORY_SHARE, MODEL_LEN_MAX, SEQUENCES_MAX, Method, drafter_of
from breakeven_bench.vllm.machines import BF16_BYTES, Fleet, Weights

RUNTIME_BYTES = 4e9
"""Activations of the largest step, CUDA graphs, NCCL: an assumption, vLLM measures it. Per GPU."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on each GPU of an engine."""

    allowed_bytes: float
    runtime_bytes: float
    weights_bytes: float
    drafter_bytes: float
    kv_bytes_per_token: float

    @property
    def kv_bytes(self) -> float:
        """What is left for keys and values; negative where the rest does not fit."""
        return self.allowed_bytes - self.runtime_bytes - self.weights_bytes - self.drafter_bytes

    @property
    def kv_tokens(self) -> int:
        """Tokens of context that the engine holds at once, over all its requests."""
        return max(0, int(self.kv_bytes / self.kv_bytes_per_token))

    @property
    def longest_requests(self) -> float:
        """Requests of `MODEL_LEN_MAX` tokens that fit: vLLM's "Maximum concurrency"."""
        return self.kv_tokens / MODEL_LEN_MAX

    @property
    def tokens_per_slot(self) -> int:
        """Context of each request where all `SEQUENCES_MAX` slots are taken and the cache is just full."""
        return self.kv_tokens // SEQUENCES_MAX


def weight_bytes(fleet: Fleet, weights: Weights) -> int:
    """Of the target, over all GPUs. Embedding and output layer stay in BF16 in 8-bit checkpoints."""
    target = fleet.target
    return target.linear_parameters * weights.bytes_per_linear_weight + target.embedding_parameters * BF16_BYTES


def memory(fleet: Fleet, method: Method, weights: Weights) -> Memory:
    """The account of one GPU of the engine that this method starts on this fleet."""
    gpus, drafter = fleet.tensor_parallel, drafter_of(fleet, method)
    drafter_kv_bytes = 0 if drafter is None else drafter.kv_bytes_per_token
    return Memory(
        allowed_bytes=fleet.gpu.memory_bytes * MEMORY_SHARE,
        runtime_bytes=RUNTIME_BYTES,
        weights_bytes=weight_bytes(fleet, weights) / gpus,
        drafter_bytes=0.0 if drafter is None else drafter.split_bytes / gpus + drafter.repeated_bytes,
        kv_bytes_per_token=(fleet.target.kv_bytes_per_token + drafter_kv_bytes) / gpus,
    )


def draft_logits_bytes(fleet: Fleet) -> int:
    """What `draft_sample_method: probabilistic` adds on each GPU, at the default k.

    Slots x k x the target's vocabulary, in BF16 (code `v1/worker/gpu/spec_decode/speculator.py`).
    """
    return SEQUENCES_MAX * DRAFT_TOKENS * fleet.target.vocabulary * BF16_BYTES
