"""What the engines of a pool were told about speculation, in vLLM's own words: the object of `--speculative-config`.

It is copied from the engine's command line, so every key of vLLM is allowed and only those that matter here are read.
No engine answers with this, and both the choice of a measured table and the promise that speculation changes no answer
depend on it.
"""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from breakeven.config_values import Method, Whole, yaml_value
from breakeven_policies.measured import Drafting

KNOWN_KEYS = frozenset(
    (
        "attention_backend", "code_revision", "disable_padded_drafter_batch", "draft_lm_head_quantization",
        "draft_load_config", "draft_sample_method", "draft_tensor_parallel_size", "enable_adaptive_verification",
        "fly_entropy_threshold", "fly_entropy_top_k", "fly_window_size", "kv_cache_dtype", "max_model_len", "method",
        "model", "moe_backend", "num_speculative_tokens", "num_speculative_tokens_per_batch_size", "parallel_drafting",
        "prompt_lookup_max", "prompt_lookup_min", "quantization", "rejection_sample_method", "revision",
        "suffix_decoding_max_cached_requests", "suffix_decoding_max_spec_factor", "suffix_decoding_max_tree_depth",
        "suffix_decoding_min_token_prob", "synthetic_acceptance_length", "synthetic_acceptance_rates",
        "use_heterogeneous_vocab", "use_local_argmax_reduction",
    )
)  # fmt: skip
"""Of vLLM 0.33.0 (`config/speculative.py`). Others are no mistake, an engine may be newer, but may be a slip."""

LOSSLESS = frozenset(("standard", "block"))
"""Ways to accept draft tokens that leave the distribution of answers as it is (vLLM 0.33.0)."""

LOSSY = {
    "fly": "accepts tokens that the model itself would not have sampled",
    "synthetic": "accepts at random, for measurements only: the text is garbage",
    "typical_acceptance_sampler": "accepts tokens that the model itself would not have sampled",
}
"""Ways that do not, in the words of vLLM 0.33.0 and, the last, of its engine before V1."""

OLDER_WORDS = ("acceptance_method", "spec_decoding_acceptance_method")
"""What `rejection_sample_method` was called before V1."""

WITHOUT_DRAFTER = frozenset(("ngram", "ngram_gpu", "suffix"))
"""Methods that look drafts up: there is no model to sample from."""


class SpeculativeConfig(BaseModel):
    """The keys that matter here; what else there is, is the engine's business."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)

    method: Method | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    num_speculative_tokens: Annotated[Whole, Field(ge=1, le=64)] | None = None
    draft_sample_method: Drafting | None = None
    rejection_sample_method: str | None = None
    num_speculative_tokens_per_batch_size: list[tuple[Whole, Whole, Whole]] = []

    @property
    def drafting(self) -> Drafting | None:
        """How drafts are sampled: vLLM's default where nothing is said; None for methods that look drafts up."""
        if self.method in WITHOUT_DRAFTER:
            return None
        return self.draft_sample_method or Drafting.GREEDY

    @property
    def rejection(self) -> str:
        """How drafts are accepted, under its newer or older names: vLLM's default where nothing is said."""
        given = self.model_extra or {}
        older = next((str(given[word]) for word in OLDER_WORDS if word in given), None)
        named = self.rejection_sample_method or older
        return {None: "standard", "rejection_sampler": "standard"}.get(named) or str(named)

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """Keys that vLLM 0.33.0 does not know."""
        return tuple(key for key in self.model_extra or {} if key not in KNOWN_KEYS and key not in OLDER_WORDS)


SpeculativeConfigValue = Annotated[SpeculativeConfig | None, BeforeValidator(yaml_value)]
"""As key: value pairs, or as the JSON text that stands on the engine's command line."""
