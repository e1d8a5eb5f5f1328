"""Sampling parameters: what vLLM refuses, in its words, and what it makes of the rest."""

import math

import pytest

from breakeven_bench.engine.errors import EngineError
from breakeven_bench.engine.protocol import ChatRequest
from breakeven_bench.engine.sampling import resolve, speculation_refusal
from breakeven_policies.request import SamplingDefaults

NO_DEFAULTS = SamplingDefaults()


def resolved(defaults=NO_DEFAULTS, max_tokens=100, **fields):
    return resolve(ChatRequest.model_validate({"messages": [], **fields}), defaults, max_tokens)


def refusal(**fields):
    with pytest.raises(EngineError) as caught:
        resolved(**fields)
    assert (caught.value.status, caught.value.type) == (400, "BadRequestError")
    return caught.value.message


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": math.nan}, "temperature must be a finite number, got nan. (parameter=temperature, value=nan)"),
        ({"temperature": math.inf}, "temperature must be a finite number, got inf. (parameter=temperature, value=inf)"),
        ({"temperature": "nan"}, "temperature must be a finite number, got nan. (parameter=temperature, value=nan)"),
        ({"temperature": -1}, "temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)"),
        ({"temperature": 2.5}, "temperature must be in [0, 2], got 2.5. (parameter=temperature, value=2.5)"),
        ({"temperature": 1e30}, "temperature must be in [0, 2], got 1e+30. (parameter=temperature, value=1e+30)"),
        ({"top_p": 0}, "top_p must be in (0, 1], got 0.0. (parameter=top_p, value=0.0)"),
        ({"top_p": math.nan}, "top_p must be in (0, 1], got nan. (parameter=top_p, value=nan)"),
        ({"top_k": -2}, "top_k must be 0 (disable), or at least 1, got -2."),
        ({"min_p": 1.5}, "min_p must be in [0, 1], got 1.5."),
        ({"presence_penalty": 3}, "presence_penalty must be in [-2, 2], got 3.0."),
        ({"frequency_penalty": math.nan}, "frequency_penalty must be in [-2, 2], got nan."),
        ({"repetition_penalty": 0}, "repetition_penalty must be greater than zero, got 0.0."),
        ({"repetition_penalty": math.inf}, "repetition_penalty must be a finite number, got inf."),
        ({"n": 0}, "n must be at least 1, got 0."),
        ({"n": 20_000}, "n must be at most 16384, got 20000."),
        ({"min_tokens": -1}, "min_tokens must be greater than or equal to 0, got -1."),
        ({"min_tokens": 101}, "min_tokens must be less than or equal to max_tokens=100, got 101."),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"),
        ({"stop": ["a", ""]}, "stop cannot contain an empty string."),
        ({"temperature": 0, "n": 2}, "n must be 1 when using greedy sampling, got 2."),
    ],
)
def test_a_parameter_out_of_range_is_refused_in_vllms_words(fields, message):
    assert refusal(**{**fields, "max_tokens": fields.get("max_tokens", 100)}) == message


def test_of_several_faults_the_first_in_vllms_order_is_told():
    assert refusal(temperature=3, top_p=9, max_tokens=100).startswith("temperature")


@pytest.mark.parametrize(("fields", "temperature"), [({}, 1.0), ({"temperature": None}, 1.0)])
def test_without_a_temperature_and_without_a_default_it_is_one(fields, temperature):
    assert resolved(**fields).temperature == temperature


@pytest.mark.parametrize("fields", [{}, {"temperature": None, "top_p": None, "top_k": None, "min_p": None}])
def test_absent_and_null_take_the_models_defaults(fields):
    params = resolved(SamplingDefaults(1.3, 0.9, 40, 0.05), **fields)
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (1.3, 0.9, 40, 0.05)


def test_what_a_request_says_overrides_the_models_defaults():
    params = resolved(SamplingDefaults(1.3, 0.9, 40, 0.05), temperature=0.2, top_p=1, top_k=0, min_p=0)
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.2, 1.0, 0, 0.0)


@pytest.mark.parametrize(
    ("given", "temperature"),
    [("1.5", 1.5), (" 1.5 ", 1.5), (True, 1.0), (1, 1.0), (1.0000000000000000001, 1.0), (2, 2.0), ("0.2", 0.2)],
)
def test_a_temperature_is_converted_as_pydantic_converts_it(given, temperature):
    assert resolved(temperature=given).temperature == temperature


@pytest.mark.parametrize(
    ("given", "temperature"), [(0, 0.0), (-0.0, 0.0), (1e-5, 0.01), (0.001, 0.01), (0.01, 0.01), (0.02, 0.02)]
)
def test_a_tiny_temperature_is_raised_and_zero_is_greedy(given, temperature):
    assert resolved(temperature=given).temperature == temperature


def test_greedy_sampling_switches_the_cuts_off():
    params = resolved(temperature=0, top_p=0.5, top_k=7, min_p=0.05)
    assert (params.top_p, params.top_k, params.min_p) == (1.0, 0, 0.0)


@pytest.mark.parametrize(("stop", "strings"), [(None, ()), ("x", ("x",)), (["x", "y"], ("x", "y")), ([], ())])
def test_stop_is_one_string_or_several(stop, strings):
    assert resolved(stop=stop).stop == strings


def test_seed_minus_one_is_no_seed_and_null_n_is_one():
    assert resolved(seed=-1).seed is None
    assert resolved(seed=7).seed == 7
    assert resolved(n=None).n == 1


@pytest.mark.parametrize("fields", [{"min_p": 0.05}, {"min_p": 2e-5}, {"logit_bias": {"50": -5}}])
def test_a_speculative_engine_refuses_min_p_and_logit_bias(fields):
    params = resolved(temperature=0.7, **fields)
    refused = speculation_refusal(params)
    assert refused.message == (
        "The min_p and logit_bias sampling parameters are not yet supported with speculative decoding."
    )
    assert (refused.status, refused.type, refused.param) == (400, "BadRequestError", None)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"min_p": 0},
        {"min_p": 1e-5},
        {"logit_bias": {}},
        {"logit_bias": None},
        {"temperature": 0, "min_p": 0.05},
        {"presence_penalty": 1, "repetition_penalty": 1.1, "top_k": 3, "top_p": 0.2, "stop": "x", "min_tokens": 4},
    ],
)
def test_a_speculative_engine_accepts_everything_else(fields):
    assert speculation_refusal(resolved(**fields)) is None
