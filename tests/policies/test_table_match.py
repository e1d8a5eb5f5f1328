"""Whether a table speaks of a pool: only where everything that changes its figures is known to be the same."""

from datetime import date

import pytest
from msgspec.structs import replace

from breakeven_policies.measured import Drafting, short_hash
from breakeven_policies.snapshot import PoolKind
from breakeven_policies.table_match import Applies, Mismatch, PoolIdentity, Unmeasured, applies, best_match
from tests.policies.tables import DOCUMENT, table

TODAY = date(2026, 12, 1)
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
SPECULATIVE = PoolIdentity(
    name="spec",
    kind=PoolKind.SPECULATIVE,
    method="eagle3",
    speculative_tokens=3,
    draft_model="head",
    drafting=Drafting.GREEDY,
    models=(frozenset(("llama", MODEL)), frozenset((MODEL, "other"))),
    versions=frozenset(("0.33.0",)),
    positions=frozenset((3,)),
)
PLAIN = PoolIdentity("plain", PoolKind.PLAIN, models=SPECULATIVE.models, versions=SPECULATIVE.versions)


@pytest.mark.parametrize(
    ("changes", "mismatch", "told"),
    [
        ({"models": ()}, Mismatch.UNASKED, "the engines of the pool have not said yet what they serve"),
        (
            {"models": (*SPECULATIVE.models, frozenset(("qwen", "/srv/qwen")))},
            Mismatch.MODEL,
            f"it is about {MODEL}, the pool serves qwen",
        ),
        ({"method": "ngram"}, Mismatch.METHOD, "it is about method eagle3, the pool has ngram"),
        (
            {"speculative_tokens": 0, "positions": frozenset()},
            Mismatch.SPECULATIVE_TOKENS,
            "it is about k = 3, what the pool drafts is not known",
        ),
        (
            {"speculative_tokens": 5, "positions": frozenset()},
            Mismatch.SPECULATIVE_TOKENS,
            "it is about k = 3, the pool drafts k = 5",
        ),
        ({"speculative_tokens": 5}, Mismatch.SPECULATIVE_TOKENS, "the pool says k = 5, its engines draft 3"),
        (
            {"positions": frozenset((3, 5))},
            Mismatch.SPECULATIVE_TOKENS,
            "it is about k = 3, the pool drafts k = 3 and 5",
        ),
        ({"follows_batch": True}, Mismatch.SPECULATIVE_TOKENS, "k follows the batch in one of them only"),
        (
            {"draft_model": None},
            Mismatch.DRAFT_MODEL,
            "it is about draft head head, the configuration does not say the pool's",
        ),
        ({"draft_model": "tail"}, Mismatch.DRAFT_MODEL, "it is about draft head head, the pool has tail"),
        (
            {"drafting": Drafting.PROBABILISTIC},
            Mismatch.DRAFTING,
            "it is about drafting greedy, the pool has probabilistic",
        ),
        (
            {"versions": frozenset()},
            Mismatch.ENGINE_VERSION,
            "it is about 0.33.0, what the pool runs is not known",
        ),
        (
            {"versions": frozenset(("0.33.0", "0.34.0"))},
            Mismatch.ENGINE_VERSION,
            "it is about 0.33.0, the pool runs 0.33.0 and 0.34.0",
        ),
    ],
)
def test_what_is_other_or_unknown_is_unmeasured_and_says_why(changes, mismatch, told):
    found = applies(table(), replace(SPECULATIVE, **changes), TODAY)
    assert found == Unmeasured(mismatch, told, "llama-on-a100", short_hash(table()))


def test_a_table_expires_on_the_day_that_it_names():
    assert isinstance(applies(table(), SPECULATIVE, date(2027, 4, 30)), Applies)
    found = applies(table(), SPECULATIVE, date(2027, 5, 1))
    assert (found.mismatch, found.detail) == (Mismatch.EXPIRED, "it expired on 2027-05-01")
    other = replace(SPECULATIVE, models=(frozenset(("qwen",)),))
    assert applies(table(), other, date(2027, 5, 1)).mismatch is Mismatch.MODEL  # that it expired is no news there


def test_a_prior_is_never_used():
    assert applies(table(kind="prior, unverified"), SPECULATIVE, TODAY).mismatch is Mismatch.PRIOR


def test_a_table_of_speculative_setups_alone_knows_no_plain_pool():
    only = table(setups=[DOCUMENT["setups"][1]], cells=[DOCUMENT["cells"][2]])
    assert applies(only, PLAIN, TODAY).detail == "it knows no plain pool"


@pytest.mark.parametrize(("facts", "setup"), [(PLAIN, "plain"), (SPECULATIVE, "k3")])
def test_a_pool_that_is_the_same_in_all_is_measured_by_its_own_setup(facts, setup):
    assert applies(table(), facts, TODAY).measurement.setup.name == setup


def test_what_the_engines_draft_stands_in_where_the_configuration_is_silent():
    assert isinstance(applies(table(), replace(SPECULATIVE, speculative_tokens=0), TODAY), Applies)


def test_what_the_configuration_says_stands_in_until_the_engines_have_drafted():
    assert isinstance(applies(table(), replace(SPECULATIVE, positions=frozenset()), TODAY), Applies)


def test_a_method_without_draft_head_and_drafting_needs_neither():
    changes = {"setups__1__method": "ngram", "setups__1__draft_model": ..., "setups__1__drafting": ...}
    ngram = replace(SPECULATIVE, method="ngram", draft_model=None, drafting=None)
    assert isinstance(applies(table(**changes), ngram, TODAY), Applies)
    assert applies(table(**changes), replace(ngram, draft_model="head"), TODAY).detail == (
        "it is about draft head none, the pool has head"
    )


def test_the_build_of_a_release_does_not_matter_unless_the_table_names_one():
    on_cuda = replace(SPECULATIVE, versions=frozenset(("0.33.0+cu129",)))
    assert isinstance(applies(table(), on_cuda, TODAY), Applies)
    on_cpu = table(provenance__engine_version="0.33.0+cpu")
    assert applies(on_cpu, SPECULATIVE, TODAY).mismatch is Mismatch.ENGINE_VERSION
    assert isinstance(applies(on_cpu, replace(SPECULATIVE, versions=frozenset(("0.33.0+cpu",))), TODAY), Applies)


def test_of_several_setups_the_nearest_miss_is_named():
    other = replace(SPECULATIVE, drafting=None)
    assert applies(table(), other, TODAY).mismatch is Mismatch.DRAFTING  # not KIND, which the plain setup misses


def test_without_any_table_a_pool_is_unmeasured():
    assert best_match([], PLAIN, TODAY) == Unmeasured(Mismatch.NO_TABLE, "no table is loaded")


def test_of_several_tables_that_apply_the_one_measured_last_is_used():
    newer = table(provenance__measured_on="2026-11-20", name="newer")
    assert best_match([newer, table()], PLAIN, TODAY).measurement.table == "newer"
    assert best_match([table(), newer], PLAIN, TODAY).measurement.table == "newer"


def test_of_several_tables_that_do_not_the_nearest_is_named():
    stranger = table(provenance__model="qwen", name="stranger")
    undated = table(kind="prior, unverified", provenance__measured_on=..., name="undated")
    found = best_match([stranger, table(), undated], replace(PLAIN, versions=frozenset(("0.1",))), TODAY)
    assert (found.table, found.mismatch) == ("llama-on-a100", Mismatch.ENGINE_VERSION)
