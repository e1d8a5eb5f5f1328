"""The facts about vLLM agree with its source as recorded, and with each other."""

import json

import pytest

from breakeven_bench.engine.options import VLLM_VERSION
from breakeven_bench.vllm import facts
from breakeven_bench.vllm.facts import GONE, METHODS, SHARED_FLAGS, SPECULATIVE_FLAGS, Flag, Key, drafter_of
from breakeven_bench.vllm.machines import FLEETS, settings
from breakeven_policies.prior import DRAFT_TOKENS as PRIOR_DRAFT_TOKENS
from tests.house.tree import read

RECORDED = json.loads(read("tests/house/vllm_flags.json"))
SPECULATIVE = [method for method in METHODS if method.speculates]


def keys(method):
    return {key.name: key for key in method.keys}


def test_nothing_that_is_gone_is_in_the_recorded_version():
    current = {*RECORDED["flags"], *RECORDED["speculative_method"]}
    assert [each.name for each in GONE if each.name in current] == []


def test_nothing_that_is_gone_is_still_used():
    used = {flag.name for flag in (*SHARED_FLAGS, *SPECULATIVE_FLAGS)}
    used |= {keys(method)["method"].default for method in SPECULATIVE}
    assert used & {each.name for each in GONE} == set()


def test_the_version_is_the_one_that_was_recorded():
    assert RECORDED["vllm"] == VLLM_VERSION


def test_every_flag_exists_in_the_recorded_version():
    named = {flag.name for flag in (*SHARED_FLAGS, *SPECULATIVE_FLAGS)}
    assert sorted(named - set(RECORDED["flags"])) == []


@pytest.mark.parametrize("method", SPECULATIVE, ids=lambda method: method.script)
def test_every_key_of_a_speculative_configuration_exists_in_the_recorded_version(method):
    assert sorted(set(keys(method)) - set(RECORDED["speculative_config"])) == []


@pytest.mark.parametrize("method", SPECULATIVE, ids=lambda method: method.script)
def test_every_word_of_a_speculative_configuration_is_one_that_vllm_knows(method):
    for name, words in (
        ("method", "speculative_method"),
        ("draft_sample_method", "draft_sample_method"),
        ("rejection_sample_method", "rejection_sample_method"),
    ):
        if name in keys(method):
            assert keys(method)[name].default in RECORDED[words]


@pytest.mark.parametrize("method", SPECULATIVE, ids=lambda method: method.script)
def test_drafts_are_verified_without_changing_what_the_model_answers(method):
    key = keys(method)["rejection_sample_method"]
    assert (key.default, key.variable) == ("standard", None)


@pytest.mark.parametrize("method", SPECULATIVE, ids=lambda method: method.script)
def test_no_method_can_fill_a_step_with_verification_alone(method):
    drafts = keys(method)["num_speculative_tokens"].default
    assert facts.SEQUENCES_MAX * (drafts + 1) <= facts.TOKEN_BUDGET / 1.5


def test_the_arithmetic_in_the_reasons_is_right():
    every = " ".join(flag.why for flag in SHARED_FLAGS) + " ".join(key.why for each in METHODS for key in each.keys)
    busy, left = facts.SEQUENCES_MAX * (facts.DRAFT_TOKENS + 1), facts.TOKEN_BUDGET
    assert f"{facts.SEQUENCES_MAX} requests at k={facts.DRAFT_TOKENS} take {busy} and leave {left - busy}" in every
    suffix = facts.SEQUENCES_MAX * (facts.SUFFIX_TOKENS + 1)
    assert f"with {facts.SUFFIX_TOKENS} they leave {left - suffix}" in every
    assert f"{facts.SEQUENCES_MAX * (24 + 1)} tokens of verification" in every


def test_the_published_k_is_that_of_the_prior():
    assert facts.DRAFT_TOKENS_PUBLISHED == PRIOR_DRAFT_TOKENS


def test_acceptance_metrics_are_asked_of_speculative_engines_alone_since_they_stop_a_plain_one():
    assert [flag.name for flag in SPECULATIVE_FLAGS] == ["--per-request-spec-decode-metrics"]
    assert "--per-request-spec-decode-metrics" not in [flag.name for flag in SHARED_FLAGS]


def test_both_pools_have_the_same_token_budget_and_timings_per_request():
    shared = {flag.name: flag.default for flag in SHARED_FLAGS}
    assert shared["--max-num-batched-tokens"] == "2048"
    assert "--enable-per-request-metrics" in shared


def test_a_head_is_never_given_a_tensor_parallel_size_since_vllm_would_not_follow_it():
    assert [method.script for method in METHODS if "draft_tensor_parallel_size" in keys(method)] == []


@pytest.mark.parametrize("fleet", FLEETS, ids=lambda fleet: fleet.name)
def test_a_variable_without_a_default_has_the_fleets(fleet):
    members: list[Flag | Key] = [*SHARED_FLAGS, *SPECULATIVE_FLAGS, *(key for each in METHODS for key in each.keys)]
    open_variables = {each.variable for each in members if each.variable is not None and each.default is None}
    assert open_variables - {*settings(fleet), "SCHEDULE"} == set()


def test_exactly_the_methods_with_a_model_of_their_own_load_one():
    fleet = FLEETS[0]
    assert {method.script: drafter_of(fleet, method) for method in METHODS} == {
        "baseline": None,
        "speculative": fleet.head,
        "draft-model": fleet.draft_model,
        "ngram": None,
        "suffix": None,
        "dynamic": fleet.head,
    }


def test_only_the_baseline_does_not_speculate_and_it_has_a_port_of_its_own():
    assert [method.script for method in METHODS if not method.speculates] == ["baseline"]
    assert facts.PORTS == {False: 8000, True: 8001}


def test_every_method_says_where_it_was_read_and_what_to_know():
    assert [method.script for method in METHODS if not (method.source and method.note and method.title)] == []
