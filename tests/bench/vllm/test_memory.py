"""The account of a GPU's memory: by hand for one engine, and against sizes that others have published."""

from dataclasses import replace

import pytest

from breakeven_bench.vllm.facts import BASELINE, DRAFT_MODEL, EAGLE3, METHODS
from breakeven_bench.vllm.machines import FLEETS, PAIR_8B, SPLIT_70B, TWO_NODES_70B
from breakeven_bench.vllm.memory import Memory, draft_logits_bytes, memory, weight_bytes

SMALL = Memory(
    allowed_bytes=100.0, runtime_bytes=10.0, weights_bytes=60.0, drafter_bytes=20.0, kv_bytes_per_token=0.001
)


def test_what_does_not_fit_holds_no_token_instead_of_a_negative_number():
    full = replace(SMALL, weights_bytes=90.0)
    assert full.kv_bytes == -20.0
    assert (full.kv_tokens, full.longest_requests, full.tokens_per_slot) == (0, 0.0, 0)


def test_the_70b_model_in_bf16_does_not_fit_two_gpus_with_any_useful_cache():
    bf16 = TWO_NODES_70B.weights[0]
    assert memory(replace(TWO_NODES_70B, tensor_parallel=2), BASELINE, bf16).longest_requests < 1


def test_what_is_left_of_the_share_is_for_keys_and_values():
    assert SMALL.kv_bytes == 10.0
    assert SMALL.kv_tokens == 10_000
    assert SMALL.longest_requests == 10_000 / 32_768
    assert SMALL.tokens_per_slot == 78


@pytest.mark.parametrize(
    ("fleet", "gigabytes"),
    [(SPLIT_70B, 72.7), (TWO_NODES_70B, 141.1), (PAIR_8B, 16.1)],
    ids=lambda value: str(value)[:9],
)
def test_weights_are_as_large_as_published(fleet, gigabytes):
    # The hub's listing of the W8A8 checkpoint of Llama-3.1-70B adds up to 72.7 GB; the others are parameters times two.
    assert round(weight_bytes(fleet, fleet.weights[0]) / 1e9, 1) == gigabytes


def test_the_plain_pool_of_the_split_machine_by_hand():
    plain = memory(SPLIT_70B, BASELINE, SPLIT_70B.weights[0])
    assert plain.allowed_bytes == pytest.approx(0.9 * 79.15 * 2**30)
    assert plain.weights_bytes == pytest.approx(36.33e9, rel=1e-3)
    assert plain.drafter_bytes == 0
    assert plain.kv_bytes_per_token == 163_840
    assert plain.kv_tokens == pytest.approx((76.49e9 - 4e9 - 36.33e9) / 163_840, rel=1e-3)


def test_a_head_is_split_over_the_gpus_except_for_what_each_repeats():
    plain, speculative = (memory(SPLIT_70B, method, SPLIT_70B.weights[0]) for method in (BASELINE, EAGLE3))
    head = SPLIT_70B.head
    assert speculative.drafter_bytes == head.split_bytes / 2 + head.repeated_bytes
    assert speculative.kv_bytes_per_token - plain.kv_bytes_per_token == head.kv_bytes_per_token / 2


def test_a_draft_model_adds_its_own_keys_and_values_to_every_token():
    drafting = memory(PAIR_8B, DRAFT_MODEL, PAIR_8B.weights[0])
    assert drafting.kv_bytes_per_token == 131_072 + 32_768
    assert drafting.drafter_bytes == PAIR_8B.draft_model.split_bytes


def test_no_speculative_engine_has_more_room_than_the_plain_one():
    for fleet in FLEETS:
        for weights in fleet.weights:
            plain = memory(fleet, BASELINE, weights)
            assert all(memory(fleet, method, weights).kv_tokens <= plain.kv_tokens for method in METHODS)


def test_every_engine_of_every_fleet_holds_several_of_the_longest_requests():
    for fleet in FLEETS:
        for weights in fleet.weights:
            assert all(memory(fleet, method, weights).longest_requests > 5 for method in METHODS)


def test_probabilistic_drafting_keeps_a_row_of_logits_for_each_draft_of_each_slot():
    assert draft_logits_bytes(PAIR_8B) == 128 * 3 * 128_256 * 2
