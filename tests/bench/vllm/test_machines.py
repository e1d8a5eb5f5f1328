"""The bytes of models and drafters, held against sizes that others have published."""

import pytest

from breakeven_bench.vllm.machines import (
    A100,
    FLEETS,
    LLAMA_1B,
    LLAMA_8B,
    LLAMA_70B,
    PAIR_8B,
    SPLIT_70B,
    TWO_NODES_70B,
    Transformer,
    eagle3_head,
    settings,
    whole_model,
)


@pytest.mark.parametrize(
    ("shape", "billions"),
    [(LLAMA_70B, 70.55), (LLAMA_8B, 8.03), (LLAMA_1B, 1.24)],
    ids=["70B", "8B", "1B"],
)
def test_the_parameters_are_as_many_as_published(shape, billions):
    assert round((shape.linear_parameters + shape.embedding_parameters) / 1e9, 2) == billions


def test_a_tied_embedding_is_counted_once():
    free = Transformer(1, 4, 1, 1, 4, 8, 10)
    tied = Transformer(1, 4, 1, 1, 4, 8, 10, tied_embeddings=True)
    assert (free.embedding_parameters, tied.embedding_parameters) == (80, 40)


def test_the_matrices_of_a_layer_are_counted_by_hand():
    # 4 query heads and 2 for keys and values, of 8: query and output 16 x 32 each, key and value 16 x 16 each; beside
    # them three matrices of 16 x 20.
    assert Transformer(3, 16, 4, 2, 8, 20, 100).linear_parameters == 3 * (2 * 512 + 2 * 256 + 3 * 320)


@pytest.mark.parametrize(
    ("shape", "kv_bytes"), [(LLAMA_70B, 327_680), (LLAMA_8B, 131_072), (LLAMA_1B, 32_768)], ids=["70B", "8B", "1B"]
)
def test_a_token_of_context_takes_keys_and_values_of_every_layer(shape, kv_bytes):
    assert shape.kv_bytes_per_token == kv_bytes


def test_a_head_is_one_wide_layer_an_output_of_its_own_and_a_matrix_that_joins_three_states():
    head = eagle3_head("a/head", Transformer(9, 16, 4, 2, 8, 20, 100))
    layer = 2 * 16 * (4 + 2 * 2) * 8 + 16 * 4 * 8 + 3 * 16 * 20
    assert head.split_bytes == 2 * (layer + 32000 * 16)
    assert head.repeated_bytes == 2 * (3 * 16 * 16)
    assert head.kv_bytes_per_token == 2 * 2 * 2 * 8


def test_the_key_value_cache_of_a_head_is_that_of_one_layer_of_its_target():
    for fleet in FLEETS:
        assert fleet.head.kv_bytes_per_token == fleet.target.kv_bytes_per_token / fleet.target.layers


def test_a_draft_model_is_split_like_the_target_and_repeats_nothing():
    drafter = whole_model("a/model", LLAMA_1B)
    assert (drafter.repository, drafter.repeated_bytes) == ("a/model", 0)
    assert round(drafter.split_bytes / 1e9, 1) == 2.5
    assert drafter.kv_bytes_per_token == LLAMA_1B.kv_bytes_per_token


def test_every_drafter_can_be_split_over_the_gpus_of_its_target():
    for fleet in FLEETS:
        assert fleet.target.kv_heads % fleet.tensor_parallel == 0
        assert LLAMA_1B.kv_heads % fleet.tensor_parallel == 0


def test_a_draft_model_has_as_many_words_as_every_target_since_vllm_refuses_another():
    assert {fleet.target.vocabulary for fleet in FLEETS} == {LLAMA_1B.vocabulary}


def test_each_engine_gets_as_many_gpus_as_it_is_split_over():
    for fleet in FLEETS:
        for gpus in (fleet.baseline_gpus, fleet.speculative_gpus):
            assert len(gpus.split(",")) == fleet.tensor_parallel


def test_engines_on_one_machine_share_no_gpu_and_on_two_they_use_all_of_each():
    for fleet in (SPLIT_70B, PAIR_8B):
        assert set(fleet.baseline_gpus.split(",")) & set(fleet.speculative_gpus.split(",")) == set()
    assert TWO_NODES_70B.baseline_gpus == TWO_NODES_70B.speculative_gpus == "0,1,2,3"


def test_what_is_modelled_has_the_fleets_bytes_per_weight():
    for fleet in FLEETS:
        for weights in fleet.weights:
            assert weights.hardware.bytes_per_weight == weights.bytes_per_linear_weight


def test_the_profile_of_a_70b_engine_has_its_number_of_gpus():
    for fleet in (SPLIT_70B, TWO_NODES_70B):
        assert {weights.hardware.tensor_parallel for weights in fleet.weights} == {fleet.tensor_parallel}


def test_a_card_has_less_memory_than_its_name_says():
    assert 79 * 2**30 < A100.memory_bytes < 80 * 2**30


def test_the_settings_of_a_fleet_are_words_for_a_shell():
    assert settings(PAIR_8B) == {
        "SERVED_MODEL_NAME": "llama-3.1-8b",
        "TENSOR_PARALLEL_SIZE": "1",
        "BASELINE_GPUS": "0",
        "SPECULATIVE_GPUS": "1",
        "HEAD": "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
        "DRAFT_MODEL": "meta-llama/Llama-3.2-1B-Instruct",
    }
