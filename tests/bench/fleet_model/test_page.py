"""The results as part of a page: verdicts first, renewed in place."""

import pytest

from breakeven_bench.fleet_model.page import BEGIN, END, between_markers, page, replaced
from tests.bench.fleet_model.studies import PROVENANCE, WON, row, study


def test_a_page_without_markers_is_left_alone():
    with pytest.raises(ValueError, match="no place for results"):
        replaced("# Policies\n", "new")


def test_results_are_renewed_between_their_markers_and_nothing_else_changes():
    text = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    new = replaced(text, "new")
    assert new == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    assert between_markers(new) == "new"
    assert between_markers("nothing") == ""


def test_where_the_policy_loses_stands_before_all_figures():
    text = page(WON)
    assert (
        text.index("loses") < text.index("against the best") < text.index("highest rate") < text.index("Mean seconds")
    )
    assert text.startswith("`breakeven-bench simulate --pair plain-k5`, 2026-12-01. Simulated")


def test_a_study_without_the_policy_has_figures_only():
    text = page(study(row(1.0, "threshold", 2.0, load="trace")))
    assert "loses" not in text
    assert "### plain + k=5: falls, trace" in text
    assert "highest rate" not in text


def test_a_trace_is_named():
    provenance = PROVENANCE.__class__("c", "v", "d", 1, 1, 1, "trace.csv")
    assert "The trace is trace.csv." in page(WON.__class__(1, (provenance,), {}, ()))


def test_worse_conditions_have_a_table_of_their_own():
    text = page(study(row(1.0, "breakeven", 2.0), row(1.0, "breakeven-cold", 2.1)))
    assert "in worse conditions" in text
    assert "worse conditions" not in page(WON)


def test_several_commands_are_told_in_one_line():
    several = WON.__class__(1, (PROVENANCE, PROVENANCE), {}, ())
    text = page(several)
    assert text.startswith("2 runs of `breakeven-bench simulate`, 2026-12-01. Simulated, not measured: 3,000 requests")
    assert text.count("Simulated") == 1
