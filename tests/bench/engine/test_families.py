"""The table of metric families."""

import pytest

from breakeven_bench.engine.families import Family, Kind, families, request_tokens


def names(draft_tokens):
    return [family.name for family in families(8192, draft_tokens)]


def test_a_plain_engine_has_no_family_of_speculation():
    assert not [name for name in names(None) if "spec_decode" in name]
    assert set(names(5)) - set(names(None)) == {
        "vllm:spec_decode_num_drafts",
        "vllm:spec_decode_num_draft_tokens",
        "vllm:spec_decode_num_accepted_tokens",
        "vllm:spec_decode_num_accepted_tokens_per_pos",
    }


def test_there_is_one_series_per_draft_position():
    per_position = next(family for family in families(8192, 3) if family.name.endswith("per_pos"))
    assert (per_position.label, per_position.values) == ("position", ("0", "1", "2"))


@pytest.mark.parametrize("draft_tokens", [None, 5])
def test_every_family_stands_once_and_says_what_it_is(draft_tokens):
    table = families(8192, draft_tokens)
    assert len({family.name for family in table}) == len(table)
    assert all(family.text.endswith(".") for family in table)


def test_only_histograms_have_buckets_and_they_rise():
    for family in families(8192, 5):
        assert bool(family.buckets) == (family.kind is Kind.HISTOGRAM), family.name
        assert list(family.buckets) == sorted(set(family.buckets)), family.name


def test_only_the_simulators_own_families_have_no_labels():
    for family in families(8192, 5):
        assert family.own == family.name.startswith("breakeven_sim_")
        assert family.own or family.name.startswith("vllm:")


def test_a_family_without_a_label_has_one_series():
    assert Family("x", Kind.GAUGE, "x.").values == ("",)


@pytest.mark.parametrize(
    ("max_model_len", "buckets"),
    [
        (1, (1,)),
        (100, (1, 2, 5, 10, 20, 50, 100)),
        (199, (1, 2, 5, 10, 20, 50, 100)),
        (8192, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)),
    ],
)
def test_token_counts_have_buckets_up_to_the_context_length(max_model_len, buckets):
    assert request_tokens(max_model_len) == buckets
