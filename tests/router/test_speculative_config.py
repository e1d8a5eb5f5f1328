"""`breakeven.speculative_config`: the engine's own words about speculation, and what follows from them."""

import pytest

from breakeven.speculative_config import LOSSLESS, LOSSY, SpeculativeConfig
from breakeven_policies.measured import Drafting


def told(**values):
    return SpeculativeConfig.model_validate(values)


@pytest.mark.parametrize(
    "values",
    [
        {"method": "Eagle 3"},
        {"model": ""},
        {"num_speculative_tokens": 0},
        {"num_speculative_tokens": True},
        {"num_speculative_tokens_per_batch_size": [[1, 8]]},
        {"draft_sample_method": "nucleus"},
    ],
)
def test_what_the_engine_would_not_understand_is_refused(values):
    with pytest.raises(ValueError, match="validation error"):
        told(**values)


def test_drafting_is_greedy_unless_something_else_is_said_as_in_the_engine():
    assert told(method="eagle3").drafting is Drafting.GREEDY
    assert told(method="eagle3", draft_sample_method="probabilistic").drafting is Drafting.PROBABILISTIC


def test_methods_that_look_drafts_up_do_not_sample_them():
    assert told(method="ngram", draft_sample_method="greedy").drafting is None


@pytest.mark.parametrize(
    ("values", "rejection"),
    [
        ({}, "standard"),
        ({"rejection_sample_method": "block"}, "block"),
        ({"rejection_sample_method": "fly"}, "fly"),
        ({"acceptance_method": "typical_acceptance_sampler"}, "typical_acceptance_sampler"),
        ({"spec_decoding_acceptance_method": "rejection_sampler"}, "standard"),
        ({"rejection_sample_method": "block", "acceptance_method": "typical_acceptance_sampler"}, "block"),
    ],
)
def test_acceptance_is_read_under_its_newer_and_older_names(values, rejection):
    assert told(**values).rejection == rejection
    assert rejection in LOSSLESS or rejection in LOSSY


def test_keys_that_vllm_has_are_allowed_and_others_named():
    assert told(prompt_lookup_max=5, acceptance_method="rejection_sampler", num_spec_tokens=3).unknown_keys == (
        "num_spec_tokens",
    )
