"""From the body of a request to what the engine will do: checks, prompt, answer, and the luck of its drafts.

Everything is decided here, before the first step: how long the answer is and what it says, and with which probability
drafts are accepted. Equal requests to engines with equal seeds therefore fare equally, in whatever company they are
served. A greedy answer depends on its prompt alone, so that a plain and a speculative engine give the same one.

Hints that only the simulator knows, none of them required: the kind of text in the header `x-breakeven-workload`, or as
`workload` in `metadata` or `vllm_xargs`; the natural length of the answer as `output_tokens` there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from breakeven_bench.engine.acceptance import (
    Workload,
    conditional_acceptance,
    draft_coverage,
    effective_temperature,
    workload_named,
)
from breakeven_bench.engine.answers import Answer, Book, Ending, answer, natural_length
from breakeven_bench.engine.errors import (
    EngineError,
    invalid_parameter,
    prompt_too_long,
    too_many_tokens,
    unknown_model,
)
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.prompts import count_tokens, digest, render_chat, render_prompt
from breakeven_bench.engine.protocol import ChatRequest, CompletionRequest, GenerationRequest
from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_bench.engine.sampling import SamplingParams, resolve, speculation_refusal
from breakeven_bench.engine.scheduler import BLOCK_TOKENS, Sequence

WORKLOAD_HEADER = "x-breakeven-workload"


@dataclass(frozen=True, slots=True)
class PlannedChoice:
    """One choice to come: its sequence, and the answer that the sequence will emit."""

    sequence: Sequence
    answer: Answer


@dataclass(frozen=True, slots=True)
class Order:
    """One accepted request. `prompt_tokens` counts every prompt once, however many choices it gets.

    `choices` holds `choices_per_prompt` for the first prompt, then as many for the next one.

    A stream gets an event when at least `stream_interval` tokens are new, for the first token and for the last.
    `refusal` is what the engine has against it. In vLLM the HTTP server finds that out only when it hands the request
    over, when a stream has been answered with 200: there the refusal comes as an event.
    """

    choices: list[PlannedChoice]
    prompt_tokens: int
    tokens_max: int
    stream: bool
    usage: bool
    continuous_usage: bool
    stream_interval: int = 1
    choices_per_prompt: int = 1
    refusal: EngineError | None = None


@dataclass(frozen=True, slots=True)
class Intake:
    """Accepts requests for one engine, or raises EngineError (400, 404) as vLLM would.

    `chance_of` makes a sequence's chance from a seed: numbers uniform in [0, 1), the same for the same seed.
    """

    options: EngineOptions
    book: Book
    chance_of: Callable[[int], Callable[[], float]]

    def chat(self, request: ChatRequest, workload_header: str | None, now_s: float) -> Order:
        """What to generate for a conversation that arrives at `now_s`."""
        self.check_model(request.model)
        prompt, limit = render_chat(request.messages, request.tools), request.output_limit
        self._check_limit("max_tokens" if request.max_completion_tokens is None else "max_completion_tokens", limit)
        return self._accept(request, [prompt], limit, workload_header, now_s)

    def completion(self, request: CompletionRequest, workload_header: str | None, now_s: float) -> Order:
        """What to generate for one or several prompts that arrive at `now_s`."""
        self.check_model(request.model)
        prompts = [render_prompt(prompt) for prompt in request.prompts]
        if not prompts:
            raise invalid_parameter("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
        self._check_limit("max_tokens", request.max_tokens)
        return self._accept(request, prompts, request.max_tokens, workload_header, now_s)

    def check_model(self, model: str | None) -> None:
        """Raise where the request names a model that is not served; no name, or an empty one, is any model."""
        if model and model not in self.options.models:
            raise unknown_model(model, self.options.models)

    def _check_limit(self, param: str, limit: int | None) -> None:
        """A limit beyond the context length is refused, one beyond what the prompt leaves of it only cut."""
        if limit is not None and limit > self.options.max_model_len:
            raise too_many_tokens(param, limit, self.options.max_model_len)

    def _accept(
        self, request: GenerationRequest, prompts: list[bytes], limit: int | None, header: str | None, now_s: float
    ) -> Order:
        counts = [count_tokens(prompt) for prompt in prompts]
        room = self.options.max_model_len - max(counts)
        if room < 1:
            raise prompt_too_long(max(counts), self.options.max_model_len)
        tokens_max = room if limit is None else min(room, limit)
        params = resolve(request, self.options.defaults, tokens_max)
        hints = _Hints.of(request, header)
        choices = [self._plan(prompt, index, params, hints, now_s) for prompt in prompts for index in range(params.n)]
        return Order(
            choices=choices,
            prompt_tokens=sum(counts),
            tokens_max=tokens_max,
            stream=bool(request.stream),
            usage=request.reports_usage,
            continuous_usage=request.reports_usage_continuously,
            stream_interval=request.stream_interval or 1,
            choices_per_prompt=params.n,
            refusal=speculation_refusal(params) if self.options.speculation.enabled else None,
        )

    def _plan(self, prompt: bytes, index: int, params: SamplingParams, hints: "_Hints", now_s: float) -> PlannedChoice:
        """Plan choice `index` of a prompt; all but the first find the prompt's whole blocks in the prefix cache."""
        speculation, seed = self.options.speculation, self.options.seed
        key = _answer_key(prompt, index, params, seed)
        natural = hints.output_tokens or natural_length(hints.workload, key)
        ending = Ending(natural, params.max_tokens, params.min_tokens, ignore_eos=params.ignore_eos, stop=params.stop)
        planned = answer(self.book, key, ending)
        temperature = effective_temperature(params.temperature, params.top_p, params.top_k)
        luck = digest(key.to_bytes(8, "big"), str(seed).encode(), repr(temperature).encode())
        prompt_tokens = count_tokens(prompt)
        sequence = Sequence(
            prompt_tokens=prompt_tokens,
            output_tokens=planned.tokens,
            acceptance=conditional_acceptance(temperature, hints.workload, speculation.sampling),
            chance=self.chance_of(luck),
            queued_s=now_s,
            coverage=draft_coverage(speculation.method, hints.workload),
            cached_tokens=(prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS if index else 0,
            verified=[] if self.options.speculation_detail is SpeculationDetail.DETAILED else None,
        )
        return PlannedChoice(sequence, planned)


@dataclass(frozen=True, slots=True)
class _Hints:
    workload: Workload
    output_tokens: int | None

    @classmethod
    def of(cls, request: GenerationRequest, header: str | None) -> "_Hints":
        workload = workload_named(header if header is not None else request.hint("workload"))
        wanted: Any = request.hint("output_tokens")
        if wanted is None:
            return cls(workload, None)
        try:
            return cls(workload, max(1, int(wanted)))
        except (TypeError, ValueError, OverflowError):
            message = f"The simulator's hint output_tokens must be a number of tokens, got {wanted!r}."
            raise invalid_parameter(message, "metadata.output_tokens") from None


def _answer_key(prompt: bytes, index: int, params: SamplingParams, seed: int) -> int:
    """What chooses the answer: the prompt and, unless greedy, the choice's index and the request's or engine's seed."""
    if params.temperature == 0.0:
        return digest(prompt)
    chosen = seed if params.seed is None else params.seed
    return digest(prompt, str(index).encode(), str(chosen).encode())
