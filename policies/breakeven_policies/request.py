"""A request as routing sees it: the parameters that decide, never the prompt."""

from dataclasses import dataclass

from msgspec import Struct

MIN_P_EPSILON = 1e-5
"""At or below this the engine takes min_p as off (vLLM 0.32, `SamplingParams._validate_spec_decode`)."""


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """What the engine fills in where a request leaves a parameter out; None: the protocol's own default.

    vLLM reads these from the model's `generation_config.json` unless it runs with `--generation-config vllm`.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None


class RequestView(Struct, frozen=True):
    """The parameters of one request, resolved as the engine would resolve them.

    `temperature`, `top_p`, `top_k` (0: off) and `min_p` are effective values: always finite, defaults applied.
    `temperature_defaulted` tells that the request named no usable temperature. `prompt_bytes` is the size of the body
    in bytes, the only size known without a tokenizer. `max_output_tokens` is None where the request sets no limit.
    `sequences` is `n`. `sampled` is False where the endpoint generates no text (embeddings, tokenize, ...): then no
    sampling parameter matters and speculation has nothing to speed up. `ticket` is uniform in [0, 1): the only chance
    a policy gets. `structured`: the answer is held to a form (a schema, a grammar, choices); `has_tools`: it may call
    tools. `workload_name` is one of the configured names of workloads, where the application gave one.
    """

    model: str | None
    endpoint: str
    stream: bool
    temperature: float
    temperature_defaulted: bool
    top_p: float
    top_k: int
    min_p: float
    has_logit_bias: bool
    prompt_bytes: int
    max_output_tokens: int | None
    sequences: int
    ticket: float
    sampled: bool = True
    structured: bool = False
    has_tools: bool = False
    workload_name: str | None = None

    @property
    def needs_plain_sampling(self) -> bool:
        """Whether a speculative engine answers 400: min_p in force or a non-empty logit_bias.

        Source: vLLM 0.33.0 `sampling_params.py`, `_validate_spec_decode`. Temperature 0 resets min_p first.
        """
        return self.has_logit_bias or (self.min_p > MIN_P_EPSILON and self.temperature > 0.0)
