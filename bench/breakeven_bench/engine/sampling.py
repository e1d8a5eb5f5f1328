"""Sampling parameters as vLLM 0.33.0 resolves and checks them (`sampling_params.py`), with its messages."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from breakeven_bench.engine.errors import EngineError, invalid_parameter
from breakeven_bench.engine.protocol import GenerationRequest
from breakeven_policies.request import MIN_P_EPSILON, SamplingDefaults

GREEDY_BELOW = 1e-5
TEMPERATURE_FLOOR = 1e-2
"""A temperature above 0 and below this is raised to it."""

SEQUENCES_MAX = 16_384
"""vLLM's `VLLM_MAX_N_SEQUENCES`."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Effective parameters of one request, defaults applied; `top_k` 0 or -1 is off, `stop` holds no empty string."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    n: int
    max_tokens: int
    min_tokens: int
    ignore_eos: bool
    seed: int | None
    stop: tuple[str, ...]
    has_logit_bias: bool


def resolve(request: GenerationRequest, defaults: SamplingDefaults, max_tokens: int) -> SamplingParams:
    """What the engine will sample with: the request's value, else the model's default, else the protocol's.

    Raises EngineError (400) in the order in which vLLM finds faults. Greedy sampling switches the cuts off.
    """
    temperature = _first(request.temperature, defaults.temperature, 1.0)
    if 0.0 < temperature < TEMPERATURE_FLOOR:
        temperature = TEMPERATURE_FLOOR
    params = SamplingParams(
        temperature=temperature,
        top_p=_first(request.top_p, defaults.top_p, 1.0),
        top_k=int(_first(request.top_k, defaults.top_k, 0)),
        min_p=_first(request.min_p, defaults.min_p, 0.0),
        n=1 if request.n is None else request.n,
        max_tokens=max_tokens,
        min_tokens=request.min_tokens,
        ignore_eos=request.ignore_eos,
        seed=None if request.seed == -1 else request.seed,
        stop=_stop_strings(request.stop),
        has_logit_bias=bool(request.logit_bias),
    )
    for fault in _faults(params, request):
        raise fault
    return _greedy(params) if temperature < GREEDY_BELOW else params


def speculation_refusal(params: SamplingParams) -> EngineError | None:
    """What a speculative engine answers to parameters that its rejection sampler cannot honour, None to all others."""
    if params.min_p > MIN_P_EPSILON or params.has_logit_bias:
        message = "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
        return invalid_parameter(message)
    return None


def _first(*candidates: float | None) -> float:
    return next(candidate for candidate in candidates if candidate is not None)


def _stop_strings(stop: str | list[str] | None) -> tuple[str, ...]:
    if stop is None:
        return ()
    return (stop,) if isinstance(stop, str) else tuple(stop)


def _greedy(params: SamplingParams) -> SamplingParams:
    if params.n > 1:
        message = f"n must be 1 when using greedy sampling, got {params.n}."
        raise invalid_parameter(message)
    return replace(params, temperature=0.0, top_p=1.0, top_k=0, min_p=0.0)


def _faults(params: SamplingParams, request: GenerationRequest) -> Iterator[EngineError]:
    """Every rule that the parameters break, in vLLM's order (`SamplingParams._verify_args`)."""
    if params.n < 1:
        yield invalid_parameter(f"n must be at least 1, got {params.n}.")
    if params.n > SEQUENCES_MAX:
        yield invalid_parameter(f"n must be at most {SEQUENCES_MAX}, got {params.n}.")
    for name, penalty in (
        ("presence_penalty", request.presence_penalty),
        ("frequency_penalty", request.frequency_penalty),
    ):
        if penalty is not None and not -2.0 <= penalty <= 2.0:
            yield invalid_parameter(f"{name} must be in [-2, 2], got {penalty}.")
    yield from _repetition_faults(request.repetition_penalty)
    yield from _temperature_faults(params.temperature)
    if not 0.0 < params.top_p <= 1.0:
        yield invalid_parameter(f"top_p must be in (0, 1], got {params.top_p}.", "top_p", params.top_p)
    if params.top_k < -1:
        yield invalid_parameter(f"top_k must be 0 (disable), or at least 1, got {params.top_k}.")
    if not 0.0 <= params.min_p <= 1.0:
        yield invalid_parameter(f"min_p must be in [0, 1], got {params.min_p}.")
    yield from _length_faults(params)
    if not all(params.stop):
        yield invalid_parameter("stop cannot contain an empty string.")


def _repetition_faults(penalty: float | None) -> Iterator[EngineError]:
    if penalty is None:
        return
    if not math.isfinite(penalty):
        yield invalid_parameter(f"repetition_penalty must be a finite number, got {penalty}.")
    if penalty <= 0.0:
        yield invalid_parameter(f"repetition_penalty must be greater than zero, got {penalty}.")


def _temperature_faults(temperature: float) -> Iterator[EngineError]:
    if not math.isfinite(temperature):
        rule = "temperature must be a finite number"
    elif temperature < 0.0:
        rule = "temperature must be non-negative"
    elif temperature > 2.0:
        rule = "temperature must be in [0, 2]"
    else:
        return
    yield invalid_parameter(f"{rule}, got {temperature}.", "temperature", temperature)


def _length_faults(params: SamplingParams) -> Iterator[EngineError]:
    if params.max_tokens < 1:
        message = f"max_tokens must be at least 1, got {params.max_tokens}."
        yield invalid_parameter(message, "max_tokens", params.max_tokens)
    if params.min_tokens < 0:
        yield invalid_parameter(f"min_tokens must be greater than or equal to 0, got {params.min_tokens}.")
    if params.min_tokens > params.max_tokens:
        message = f"min_tokens must be less than or equal to max_tokens={params.max_tokens}, got {params.min_tokens}."
        yield invalid_parameter(message)
