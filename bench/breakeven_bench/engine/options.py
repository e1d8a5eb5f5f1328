"""What an engine is started with."""

from dataclasses import dataclass, field

from breakeven_bench.engine.hardware import PROFILES, Hardware
from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_bench.engine.scheduler import BLOCK_TOKENS, Limits
from breakeven_bench.engine.speculation import Speculation
from breakeven_policies.request import SamplingDefaults

VLLM_VERSION = "0.33.0"
"""The release whose names and shapes are followed, and for which launch files are written."""

TIME_SCALE_MAX = 1000.0
"""A step of 23 ms then takes 23 µs: less than any timer or socket, so that more would change nothing."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """One engine. `models` are the names it serves under, the first one in answers and labels.

    `kv_cache_tokens` None: what the hardware has room for. `time_scale` is modelled seconds per second of wall time.
    """

    models: tuple[str, ...] = ("llama-70b",)
    hardware: Hardware = PROFILES["a100-tp2-int8"]
    speculation: Speculation = field(default_factory=Speculation)
    sequences_max: int = 128
    tokens_per_step_max: int = 2048
    kv_cache_tokens: int | None = None
    max_model_len: int = 8192
    defaults: SamplingDefaults = field(default_factory=SamplingDefaults)
    request_timing: bool = False
    speculation_detail: SpeculationDetail = SpeculationDetail.NONE
    time_scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse, with one line, what no engine could run with."""
        for fault in self._faults():
            raise ValueError(fault)

    @property
    def kv_tokens(self) -> int:
        """Tokens of context that fit."""
        return self.hardware.kv_cache_tokens if self.kv_cache_tokens is None else self.kv_cache_tokens

    @property
    def limits(self) -> Limits:
        """What the scheduler has to respect."""
        return Limits(self.sequences_max, self.tokens_per_step_max, self.kv_tokens // BLOCK_TOKENS)

    @property
    def fingerprint(self) -> str:
        """As vLLM builds `system_fingerprint`, with the profile where vLLM has a hash of its configuration."""
        parallel = f"-tp{self.hardware.tensor_parallel}" if self.hardware.tensor_parallel > 1 else ""
        return f"vllm-{VLLM_VERSION}{parallel}-simulated"

    def _faults(self) -> list[str]:
        longest = self.max_model_len + self.speculation.draft_tokens + BLOCK_TOKENS
        rules = (
            (bool(self.models) and all(self.models), "--model must name something"),
            (0 < self.time_scale <= TIME_SCALE_MAX, f"--time-scale must be above 0 and at most {TIME_SCALE_MAX:g}"),
            (self.sequences_max >= 1, "--max-num-seqs must be at least 1"),
            (self.tokens_per_step_max >= 1, "--max-num-batched-tokens must be at least 1"),
            (
                self.tokens_per_step_max >= self.sequences_max,
                "--max-num-batched-tokens must be at least --max-num-seqs: every sequence needs a token per step",
            ),
            (self.max_model_len >= 2, "--max-model-len must be at least 2: a prompt token and one of output"),
            (
                self.kv_tokens >= longest,
                f"--kv-cache-tokens must be at least {longest}: one sequence of --max-model-len with its drafts",
            ),
            (
                self.speculation.enabled or self.speculation_detail is SpeculationDetail.NONE,
                "--per-request-spec-decode-metrics requires speculative decoding to be enabled (via --method)",
            ),
        )
        return [message for holds, message in rules if not holds]
