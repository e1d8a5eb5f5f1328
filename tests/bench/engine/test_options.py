"""Options: combinations that no engine could run with are refused in one line that names the flag."""

import pytest

from breakeven_bench.engine.hardware import PROFILES
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_bench.engine.speculation import Method, Speculation


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"models": ()}, "--model"),
        ({"models": ("a", "")}, "--model"),
        ({"time_scale": 0.0}, "--time-scale"),
        ({"time_scale": float("nan")}, "--time-scale"),
        ({"time_scale": float("inf")}, "--time-scale"),
        ({"sequences_max": 0}, "--max-num-seqs"),
        ({"tokens_per_step_max": 0}, "--max-num-batched-tokens"),
        ({"tokens_per_step_max": 64, "sequences_max": 65}, "--max-num-batched-tokens"),
        ({"max_model_len": 1}, "--max-model-len"),
        ({"max_model_len": 8192, "kv_cache_tokens": 8192}, "--kv-cache-tokens"),
        ({"speculation_detail": SpeculationDetail.SUMMARY}, "--per-request-spec-decode-metrics requires"),
    ],
)
def test_an_impossible_engine_is_refused_and_the_flag_named(fields, flag):
    with pytest.raises(ValueError, match=flag):
        EngineOptions(**fields)


def test_the_defaults_are_the_users_machine_without_speculation():
    options = EngineOptions()
    assert options.hardware.name == "a100-tp2-int8"
    assert not options.speculation.enabled
    assert options.limits.sequences_max == 128
    assert options.limits.tokens_per_step_max == 2048


def test_the_room_for_context_is_that_of_the_hardware_unless_given():
    assert EngineOptions().limits.kv_blocks == PROFILES["a100-tp2-int8"].kv_cache_tokens // 16
    assert EngineOptions(kv_cache_tokens=16_000).limits.kv_blocks == 1000


def test_the_longest_sequence_has_room_with_all_of_its_drafts():
    speculation = Speculation(Method.EAGLE3, 5)
    tightest = EngineOptions(speculation=speculation, max_model_len=1000, kv_cache_tokens=1021)
    assert tightest.limits.kv_blocks * 16 >= 1005


def test_the_fingerprint_names_release_and_parallelism():
    assert EngineOptions().fingerprint == "vllm-0.33.0-tp2-simulated"


def test_per_request_acceptance_is_fine_where_the_engine_speculates():
    options = EngineOptions(speculation=Speculation(Method.EAGLE3, 3), speculation_detail=SpeculationDetail.DETAILED)
    assert options.speculation_detail is SpeculationDetail.DETAILED
