"""A result as a table, and in sentences that say which difference holds."""

import msgspec

from breakeven_bench.overhead.result import decode
from breakeven_bench.overhead.table import sentences, table
from tests.bench.overhead.results import RESULT, sample
from tests.house.tree import ROOT, read


def cells(page, peer):
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {peer}")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def only(*samples):
    return msgspec.structs.replace(RESULT, samples=samples)


def test_every_peer_has_a_row_of_medians():
    page = table(RESULT)
    assert cells(page, "breakeven") == ["breakeven", "155.0", "47.0", "61.0", "0.50 / 2.0", "22"]
    assert cells(page, "direct") == ["direct (the engine)", "30.0", "35.0", "41.0", "0.50 / 2.0", "22"]
    assert len({line.count("|") for line in page.splitlines()}) == 1


def test_a_column_that_was_not_measured_is_not_there():
    page = table(only(sample("breakeven", "documents", 0, 150.0)))
    assert "delay" not in page
    assert cells(page, "breakeven") == ["breakeven", "150.0", "20"]


def test_what_a_peer_has_no_figure_for_is_not_zero():
    page = table(
        only(
            sample("breakeven", "paced", 0, 50.0),
            sample("other", "paced", 0, 50.0, delay=(None, None)),
            sample("breakeven", "documents", 0, 50.0),
        )
    )
    assert cells(page, "other") == ["other", "50.0", "–", "–", "20"]


def test_a_difference_is_one_only_if_every_round_shows_it():
    said = sentences(RESULT, "vllm-router")
    assert [line.partition(": ")[2] for line in said] == [
        "0.78 of vllm-router's (0.75 to 0.80). Less, in every round.",
        "1.00 of vllm-router's (0.90 to 1.18). No difference that holds in every round.",
        "1.22 of vllm-router's (1.20 to 1.32). More, in every round.",
    ]


def test_a_load_of_another_version_is_shown_under_its_name():
    assert "| new, µs |" in table(only(sample("breakeven", "new", 0, 50.0)))


def test_fewer_than_three_rounds_say_nothing():
    few = only(*[each for each in RESULT.samples if each.round < 2])
    assert all(line.endswith("Fewer than 3 rounds say nothing.") for line in sentences(few, "vllm-router"))


def test_without_the_reference_nothing_is_compared():
    assert sentences(RESULT, "nobody") == []


def test_failures_are_told_whoever_failed():
    said = sentences(only(sample("haproxy", "streams", 1, 20.0, failed=3)), "vllm-router")
    assert said == ["haproxy failed 3 requests of streams in round 1."]


def test_the_readme_shows_what_was_measured():
    assert table(decode((ROOT / "docs" / "data" / "overhead.json").read_bytes())) in read("README.md")
