"""`breakeven.table_book`: what engines say of themselves decides which table is used for their pool."""

import logging
from datetime import date

import pytest

from breakeven.table_book import (
    DEBUG,
    INFO,
    WARNING,
    Identified,
    Match,
    TableBook,
    hash_in_use,
    log_level,
    tables_document,
)
from breakeven_policies.measured import Drafting, short_hash
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, PoolKind, PoolView
from breakeven_policies.table_match import Mismatch, PoolIdentity, Unmeasured
from tests.policies.tables import DOCUMENT, table

TODAY = date(2026, 12, 1)
MODEL = DOCUMENT["provenance"]["model"]
POOLS = (
    PoolIdentity("plain", PoolKind.PLAIN),
    PoolIdentity("spec", PoolKind.SPECULATIVE, "eagle3", 3, "head", Drafting.GREEDY),
)
NO_TABLE = Match("plain", Unmeasured(Mismatch.NO_TABLE, "no table is loaded"))


def fleet(positions=0):
    accepted = tuple(float(9 - index) for index in range(positions))
    signals = EngineSignals(running=1.0, drafts=10.0, accepted_tokens_per_position=accepted)
    return FleetSnapshot(
        0.0,
        (
            PoolView("plain", PoolKind.PLAIN, (BackendView("p-0"), BackendView("p-1"))),
            PoolView("spec", PoolKind.SPECULATIVE, (BackendView("s-0", signals=signals if positions else None),)),
            PoolView("new", PoolKind.PLAIN, ()),
        ),
    )


def identified(book, version="0.33.0", *backends):
    for backend in backends or ("p-0", "p-1", "s-0"):
        book.identify(Identified(backend, frozenset((MODEL, "llama")), version))
    return book


def words(book, **kinds):
    return [(match.pool, match.why) for match in book.match(fleet(**kinds), TODAY)]


def test_nobody_has_said_anything_yet():
    assert words(TableBook(POOLS, [table()])) == [("plain", "unasked"), ("spec", "unasked")]


def test_without_tables_pools_are_unmeasured():
    assert words(TableBook(POOLS, [])) == [("plain", "no_table"), ("spec", "no_table")]


def test_an_engine_that_does_not_tell_its_version_is_not_taken_for_another():
    assert words(identified(TableBook(POOLS, [table()]), None)) == [
        ("plain", "engine_version"),
        ("spec", "engine_version"),
    ]


def test_one_engine_of_another_version_leaves_its_pool_unmeasured():
    book = identified(identified(TableBook(POOLS, [table()])), "0.34.0", "p-1")
    assert words(book) == [("plain", "engine_version"), ("spec", "applies")]


def test_engines_that_draft_otherwise_than_configured_are_found_out_by_their_metrics():
    assert words(identified(TableBook(POOLS, [table()])), positions=5)[1] == ("spec", "speculative_tokens")
    assert words(identified(TableBook(POOLS, [table()])), positions=3)[1] == ("spec", "applies")


def test_an_engine_that_has_not_drafted_yet_says_nothing_of_it():
    nothing = EngineSignals(drafts=0.0, accepted_tokens_per_position=(0.0,))
    pool = PoolView("spec", PoolKind.SPECULATIVE, (BackendView("s-0", signals=nothing),))
    book = identified(TableBook(POOLS, [table()]))
    assert [match.why for match in book.match(FleetSnapshot(0.0, (pool,)), TODAY)] == ["applies"]


def test_what_applies_gives_a_measurement_of_its_setup():
    plain, spec = identified(TableBook(POOLS, [table()])).match(fleet(), TODAY)
    assert (plain.measurement.setup.name, spec.measurement.setup.name) == ("plain", "k3")
    assert plain.hash == spec.hash == short_hash(table())
    assert plain.line() == f"plain: table llama-on-a100 ({plain.hash}), setup plain"


def test_the_same_facts_are_compared_once_and_a_new_day_anew():
    book = identified(TableBook(POOLS, [table()]))
    first = book.match(fleet(), TODAY)
    assert all(again is once for again, once in zip(book.match(fleet(), TODAY), first, strict=True))
    assert [match.why for match in book.match(fleet(), date(2027, 5, 1))] == ["expired", "expired"]


def test_another_configuration_forgets_strangers_only():
    book = identified(TableBook(POOLS, []))
    book.reconfigure(POOLS, [table()], strangers=["s-0", "unknown"])
    assert words(book) == [("plain", "applies"), ("spec", "unasked")]


def test_why_not_is_said_in_a_line():
    assert NO_TABLE.line() == "plain: unmeasured; no table is loaded"
    assert NO_TABLE.measurement is None
    missed = TableBook(POOLS, [table()]).match(fleet(), TODAY)[0]
    told = "the engines of the pool have not said yet what they serve"
    assert missed.line() == f"plain: unmeasured; nearest table llama-on-a100 ({short_hash(table())}): {told}"


def test_the_hash_in_use_is_one_word_whatever_is_in_use():
    used = identified(TableBook(POOLS, [table()])).match(fleet(), TODAY)
    other = identified(TableBook(POOLS, [table(name="other")])).match(fleet(), TODAY)
    assert hash_in_use([NO_TABLE]) == "none"
    assert hash_in_use([*used, NO_TABLE]) == used[0].hash
    assert hash_in_use([used[0], other[1]]) == f"{used[0].hash}+{other[0].hash}"


@pytest.mark.parametrize(
    ("why", "wanted", "was_used", "level"),
    [
        ("applies", True, False, INFO),
        ("unasked", True, True, DEBUG),
        ("no_table", False, False, INFO),
        ("no_table", True, False, WARNING),
        ("no_table", False, True, WARNING),
    ],
)
def test_a_table_that_was_wanted_or_in_use_is_missed_aloud(why, wanted, was_used, level):
    used = identified(TableBook(POOLS, [table()])).match(fleet(), TODAY)
    unasked = TableBook(POOLS, [table()]).match(fleet(), TODAY)[0]
    match = {"applies": used[0], "unasked": unasked, "no_table": NO_TABLE}[why]
    assert log_level(match, used if was_used else [NO_TABLE], wanted=wanted) == level
    assert (DEBUG, INFO, WARNING) == (logging.DEBUG, logging.INFO, logging.WARNING)


def test_the_document_shows_every_table_and_every_pool():
    book = identified(TableBook(POOLS, [table()]), "0.33.0", "p-0", "p-1")
    shown = tables_document(book.tables, book.match(fleet(), TODAY))
    assert shown["tables"] == [
        {
            "name": "llama-on-a100",
            "hash": short_hash(table()),
            "sha256": table().digest(),
            "kind": "measured",
            "model": MODEL,
            "engine_version": "0.33.0",
            "measured_on": date(2026, 11, 1),
            "expires_on": date(2027, 5, 1),
        }
    ]
    used = {"table": "llama-on-a100", "hash": short_hash(table()), "setup": "plain"}
    missed = {"nearest": "llama-on-a100", "hash": short_hash(table())}
    told = {"why": "unasked", "detail": "the engines of the pool have not said yet what they serve"}
    assert shown["pools"] == [
        {"pool": "plain", "applies": True, **used},
        {"pool": "spec", "applies": False, **told, **missed},
    ]
