"""The page says what the result says, and the committed page is the committed result's."""

from dataclasses import replace

import pytest

from breakeven_bench.real_curve.findings import findings
from breakeven_bench.real_curve.greedy import Divergence
from breakeven_bench.real_curve.page import TITLE, page
from breakeven_bench.real_curve.result import BASELINE, Comparison, decode
from tests.bench.real_curve.results import RESULT, acceptance, both_paths
from tests.house.tree import ROOT

DATA = ROOT / "docs" / "data" / "real-pair.json"
PAGE = ROOT / "docs" / "real-pair.md"

PARTED = Divergence("code-1", 7, "a|b\n", "", 0.002, is_runner_up=False)


def rows(section, **changes):
    """The cells of a section's table, heads left out."""
    text = page(replace(RESULT, **changes)).split(f"## {section}")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_committed_page_is_what_the_committed_result_generates():
    assert PAGE.read_text(encoding="utf-8") == page(decode(DATA.read_bytes()))


def test_it_begins_with_its_title_where_it_comes_from_and_every_finding():
    text = page(RESULT)
    assert text.startswith(f"# {TITLE}\n")
    assert "Written by `breakeven-bench real-curve --quick` on 2026-11-30" in text
    assert [sentence for sentence in findings(RESULT) if f"\n- {sentence}\n" not in text] == []
    assert text.endswith("|\n")


def test_too_few_comparisons_are_said_where_everybody_looks():
    few = page(replace(RESULT, samples=tuple(both_paths(BASELINE, (60.0,)))))
    assert "Fewer than 4 comparisons were timed: nothing is decided here." in few.split("## ")[0]
    assert "Fewer than" not in page(RESULT)


def test_a_machine_that_was_busy_with_other_work_is_said_where_everybody_looks():
    busy = replace(RESULT, provenance=replace(RESULT.provenance, load_before=3.0))
    assert "**The machine was busy with other work** (load 3.0 before" in page(busy).split("## ")[0]
    assert "The machine was busy" not in page(RESULT)


def test_what_chance_alone_would_decide_stands_beside_the_words():
    assert "about 0.1 of these rows would be decided by chance" in page(RESULT)


def test_acceptance_stands_by_temperature_and_greedy_first():
    assert rows("Acceptance")[1:3] == [
        ["0", "probabilistic drafting", "1.50", "1.12 to 1.75", "0.167", "0.250 0.250 0.000", "100"],
        ["1", "greedy drafting (vLLM's default)", "1.10", "1.12 to 1.75", "0.033", "0.050 0.050 0.000", "100"],
    ]


def test_of_few_answers_no_middle_half_is_told():
    assert rows("Acceptance", acceptance=(acceptance(lengths=(1.0, 2.0)),))[0][3] == "-"


def test_times_stand_with_their_spread_their_number_and_what_they_mean():
    assert rows("Time per output token") == [
        ["0", "1", "baseline", "60.0 [60.0, 66.0] n=3", "-", "-", "-"],
        ["0", "1", "eagle3-greedy", "50.0 [48.0, 55.0] n=3", "1.20 [1.20, 1.25]", "1.20 [1.20, 1.25]", "pays"],
        ["1", "4", "baseline", "60.0 [60.0, 60.0] n=3", "-", "-", "-"],
        ["1", "4", "eagle3-greedy", "90.0 [80.0, 120.0] n=3", "0.67 [0.50, 0.75]", "0.67 [0.50, 0.75]", "does not pay"],
        [
            "1",
            "4",
            "eagle3-probabilistic",
            "60.0 [50.0, 75.0] n=3",
            "1.00 [0.80, 1.20]",
            "1.00 [0.80, 1.20]",
            "undecided",
        ],
    ]


def test_the_routers_cost_stands_for_every_engine_that_was_asked_both_ways():
    found = rows("What the router costs")
    assert len(found) == 5
    assert found[0] == ["0", "1", "baseline", "60.0 [60.0, 66.0] n=3", "60.0 [60.0, 66.0] n=3", "+0.0% [+0.0%, +0.0%]"]


def test_a_figure_that_is_not_there_is_a_dash():
    only_direct = [sample for sample in RESULT.samples if sample.path == "direct"]
    assert [row[3] for row in rows("Time per output token", samples=tuple(only_direct))] == ["-", "-"]


def test_equal_answers_are_said_in_a_sentence():
    assert "Not one answer differs" in page(RESULT)


def test_a_difference_is_shown_with_its_place_both_continuations_and_its_explanation():
    found = rows("Greedy answers", comparison=Comparison(5, 120, (PARTED, replace(PARTED, plain_lead=3.0))))
    assert found[0] == ["code-1", "7", "`a¦b⏎`", "(ended)", "0.002", "no", "rounding"]
    assert found[1][4:] == ["3.000", "no", "not by rounding alone"]
    unknown = rows(
        "Greedy answers", comparison=Comparison(5, 120, (replace(PARTED, plain_lead=None, is_runner_up=True),))
    )
    assert unknown[0][4:] == ["-", "yes", "not by rounding alone"]


@pytest.mark.parametrize(
    "expected", ["| seed | 1 |", "| took | 1.5 min |", "0.32.0", "`no speculation`", "abab", "0.25"]
)
def test_the_provenance_is_all_there(expected):
    assert expected in page(RESULT).split("## Provenance")[1]
