"""What is known of the machines and models of the real fleet: shapes, bytes, repositories, which GPU serves what.

An entry says where it was read: "code" is the source of vLLM 0.33.0 below `vllm/`, "hub" a page of the model hub as
others have stored it. Names of repositories are unverified, and nothing here was measured on an A100.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from breakeven_bench.engine.hardware import PROFILES, Hardware

BF16_BYTES = 2
INT8_BYTES = 1
FP8_BYTES = 1


@dataclass(frozen=True, slots=True)
class Gpu:
    """`memory_bytes` is what CUDA reports, which is less than the name says."""

    name: str
    memory_bytes: int
    source: str


A100 = Gpu(
    name="A100 80GB",
    memory_bytes=int(79.15 * 2**30),
    source="PyTorch's out-of-memory messages on such cards, which name 79.14 to 79.33 GiB",
)


@dataclass(frozen=True, slots=True)
class Transformer:
    """Shape of a decoder of the Llama family, in the words of its `config.json`. Norms are too small to count."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    tied_embeddings: bool = False

    @property
    def linear_parameters(self) -> int:
        """Weights of the matrices inside the layers, which is what quantised checkpoints quantise."""
        attention = 2 * self.hidden * self.heads * self.head_dim + 2 * self.hidden * self.kv_heads * self.head_dim
        return self.layers * (attention + 3 * self.hidden * self.inner)

    @property
    def embedding_parameters(self) -> int:
        """Input embedding and output layer, once where they are one matrix. They stay in BF16."""
        return (1 if self.tied_embeddings else 2) * self.vocabulary * self.hidden

    @property
    def kv_bytes_per_token(self) -> int:
        """Key and value of one token in BF16, over all layers and all GPUs."""
        return 2 * BF16_BYTES * self.layers * self.kv_heads * self.head_dim


LLAMA_70B = Transformer(80, 8192, 64, 8, 128, 28672, 128256)
LLAMA_8B = Transformer(32, 4096, 32, 8, 128, 14336, 128256)
LLAMA_1B = Transformer(16, 2048, 32, 8, 64, 8192, 128256, tied_embeddings=True)
"""From `config.json` on the hub (70B: as of Llama 3, whose shape 3.3 shares)."""


@dataclass(frozen=True, slots=True)
class Drafter:
    """What drafts, with its bytes over all GPUs: some are split between them, some stand on each in full."""

    repository: str
    split_bytes: int
    repeated_bytes: int
    kv_bytes_per_token: int
    source: str


HEAD_VOCABULARY = 32000
"""Output words of an EAGLE-3 head, the most frequent ones (hub: `draft_vocab_size` of every head seen for Llama 3)."""


def eagle3_head(repository: str, target: Transformer) -> Drafter:
    """A head of one layer shaped like the target's, in BF16, which uses the target's embedding.

    As built in code `model_executor/models/llama_eagle3.py`: `fc` makes one hidden state out of three and is not
    split over GPUs; query, key and value read embedding and hidden state side by side, hence twice the width.
    """
    width, one = target.hidden, target.head_dim
    attention = 2 * width * (target.heads + 2 * target.kv_heads) * one + width * target.heads * one
    split = attention + 3 * width * target.inner + HEAD_VOCABULARY * width
    return Drafter(
        repository=repository,
        split_bytes=BF16_BYTES * split,
        repeated_bytes=BF16_BYTES * 3 * width * width,
        kv_bytes_per_token=2 * BF16_BYTES * target.kv_heads * one,
        source="code model_executor/models/llama_eagle3.py; the repository's own figures are unverified",
    )


def whole_model(repository: str, shape: Transformer) -> Drafter:
    """A model of its own as drafter, in BF16. It is split like the target (code `v1/spec_decode/draft_model.py`)."""
    parameters = shape.linear_parameters + shape.embedding_parameters
    return Drafter(repository, BF16_BYTES * parameters, 0, shape.kv_bytes_per_token, "hub: config.json")


@dataclass(frozen=True, slots=True)
class Weights:
    """One way to have the target's weights; `hardware` is the model of the step time that goes with it."""

    name: str
    repository: str
    bytes_per_linear_weight: int
    flags: tuple[str, ...]
    hardware: Hardware
    why: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """Two engines of one model, on `baseline_gpus` and on `speculative_gpus`. The first weights are the default."""

    name: str
    title: str
    where: str
    gpu: Gpu
    target: Transformer
    weights: tuple[Weights, ...]
    served_model_name: str
    tensor_parallel: int
    baseline_gpus: str
    speculative_gpus: str
    head: Drafter
    draft_model: Drafter


_DRAFT_1B = whole_model("meta-llama/Llama-3.2-1B-Instruct", LLAMA_1B)
_HEAD_70B = eagle3_head("RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3", LLAMA_70B)

SPLIT_70B = Fleet(
    name="llama-70b-2x2",
    title="Llama-3.3-70B on 4x A100 80GB, split 2 + 2, 8-bit weights",
    where="Both engines on one machine: GPUs 0 and 1 plain, 2 and 3 speculative.",
    gpu=A100,
    target=LLAMA_70B,
    weights=(
        Weights(
            "int8",
            "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8",
            INT8_BYTES,
            (),
            PROFILES["a100-tp2-int8"],
            "a W8A8 checkpoint. The A100 multiplies INT8 at twice its BF16 rate, and verifying drafts is compute.",
        ),
        Weights(
            "fp8",
            "meta-llama/Llama-3.3-70B-Instruct",
            FP8_BYTES,
            ("--quantization", "fp8"),
            PROFILES["a100-tp2-fp8"],
            "weights only, quantised while loading from the BF16 repository. The A100 has no FP8 units, so vLLM falls "
            "back to Marlin kernels at the BF16 rate: the same memory, but speculation stops paying at half the batch.",
        ),
    ),
    served_model_name="llama-3.3-70b",
    tensor_parallel=2,
    baseline_gpus="0,1",
    speculative_gpus="2,3",
    head=_HEAD_70B,
    draft_model=_DRAFT_1B,
)

TWO_NODES_70B = Fleet(
    name="llama-70b-4x4",
    title="Llama-3.3-70B in BF16 on two nodes of 4x A100 80GB",
    where="One engine per node and no traffic between the nodes: run baseline.sh on one, speculative.sh on the other.",
    gpu=A100,
    target=LLAMA_70B,
    weights=(
        Weights(
            "bf16",
            "meta-llama/Llama-3.3-70B-Instruct",
            BF16_BYTES,
            (),
            PROFILES["a100-tp4-bf16"],
            "as published, and what the heads were trained on.",
        ),
    ),
    served_model_name="llama-3.3-70b",
    tensor_parallel=4,
    baseline_gpus="0,1,2,3",
    speculative_gpus="0,1,2,3",
    head=_HEAD_70B,
    draft_model=_DRAFT_1B,
)

PAIR_8B = Fleet(
    name="llama-8b-1x1",
    title="Llama-3.1-8B in BF16, one A100 80GB each",
    where="Both engines on one machine: GPU 0 plain, GPU 1 speculative.",
    gpu=A100,
    target=LLAMA_8B,
    weights=(
        Weights(
            "bf16",
            "meta-llama/Llama-3.1-8B-Instruct",
            BF16_BYTES,
            (),
            # The batch at which products take as long as reading the weights depends on the GPU and on bytes per
            # weight, not on the size of the model (`Hardware.corner_tokens`). What is fixed per step weighs more on
            # 8B, so the figures of this profile are optimistic here.
            PROFILES["a100-tp4-bf16"],
            "as published, and what the heads were trained on.",
        ),
    ),
    served_model_name="llama-3.1-8b",
    tensor_parallel=1,
    baseline_gpus="0",
    speculative_gpus="1",
    head=eagle3_head("RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3", LLAMA_8B),
    draft_model=_DRAFT_1B,
)

FLEETS = (SPLIT_70B, TWO_NODES_70B, PAIR_8B)
"""The first is the default."""


def settings(fleet: Fleet) -> Mapping[str, str]:
    """The variables of the launch files whose default is the fleet's own, whatever its weights."""
    return {
        "SERVED_MODEL_NAME": fleet.served_model_name,
        "TENSOR_PARALLEL_SIZE": str(fleet.tensor_parallel),
        "BASELINE_GPUS": fleet.baseline_gpus,
        "SPECULATIVE_GPUS": fleet.speculative_gpus,
        "HEAD": fleet.head.repository,
        "DRAFT_MODEL": fleet.draft_model.repository,
    }
