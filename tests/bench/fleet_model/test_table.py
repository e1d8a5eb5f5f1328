"""Tables: the best is bold, the unstable has no figure, and every loss is named."""

import pytest

from breakeven_bench.fleet_model.table import (
    capacity_table,
    latency_table,
    loss_sentences,
    losses,
    margin_table,
    margins,
    scenario_table,
)
from tests.bench.fleet_model.studies import WON, row, study


def test_a_loss_is_named_with_its_rate_and_its_rival():
    lost = study(row(2.0, "threshold", 2.0), row(2.0, "breakeven", 2.1), row(6.0, "threshold", 2.0))
    (loss,) = losses(lost)
    assert loss.against_rival == pytest.approx(0.05)
    assert loss_sentences(lost) == ["plain + k=5, falls, 2/s: +5.0% against threshold."]


def test_being_unstable_where_a_rival_is_not_is_a_loss_too():
    lost = study(row(2.0, "threshold", 2.0), row(2.0, "breakeven", 1.0, stable=False, load="trace"))
    assert loss_sentences(lost) == [
        "Nowhere is breakeven more than 3% slower than the best other use of the same pools."
    ]
    lost = study(row(2.0, "threshold", 2.0, load="trace"), row(2.0, "breakeven", 1.0, stable=False, load="trace"))
    assert loss_sentences(lost) == [
        "plain + k=5, falls, trace, 2/s: unstable, where another use of the same pools is not."
    ]


def test_neither_the_told_rule_nor_equal_hardware_is_a_rival_on_the_same_pools():
    first, second = margins(WON)
    assert (first.rival, first.against_rival) == ("threshold", pytest.approx(-0.3))
    assert first.against_told == pytest.approx(0.05)
    assert (first.best_equal, first.against_equal) == ("equal-k3", pytest.approx(2.1 / 1.9 - 1.0))
    assert second.against_equal < 0.0
    assert losses(WON) == []


def test_margins_name_the_worst_and_the_best_rate():
    table = margin_table(WON)
    assert "| plain + k=5 | -18.0% at 4 (threshold)" not in table
    assert "| falls | -18.0% at 4 (threshold) | -30.0% at 2 (threshold) | +5.0% | +10.5% at 2 (all k=3) |" in table


def test_margins_without_told_and_equal_arms_leave_their_places_empty():
    table = margin_table(study(row(1.0, "threshold", 2.0, load="trace"), row(1.0, "breakeven", 1.0, load="trace")))
    assert "| falls, trace | -50.0% at 1 (threshold) | -50.0% at 1 (threshold) | – | – |" in table


def test_the_best_of_a_row_is_bold_and_what_is_unstable_or_missing_has_no_figure():
    table = latency_table(WON, "pair", "falls").splitlines()
    assert table[0] == "| requests/s | all on a | threshold | told | breakeven | all k=3 |"
    assert table[2] == "| 2 | 4.00 | 3.00 | 2.00 | 2.10 | **1.90** |"
    assert table[3] == "| 4 | unstable | 5.00 | **4.00** | 4.10 | 4.50 |"
    missing = latency_table(study(row(1.0, "a", 1.0), row(2.0, "b", 1.0)), "pair", "falls").splitlines()
    assert missing[2:] == ["| 1 | **1.00** | – |", "| 2 | – | **1.00** |"]


def test_of_the_arms_that_use_one_pool_the_best_is_shown():
    table = capacity_table(WON).splitlines()
    assert table[0] == "| fleet | world | all on one pool, the best | threshold | breakeven |"
    assert table[2] == "| plain + k=5 | falls | 3.50 | 4.00 | 8.00 |"
    other = [*WON.capacities, WON.capacities[2].__class__("pair", "flat", "threshold", 1.0)]
    assert "| plain + k=5 | flat | – | 1.00 | – |" in capacity_table(study(capacities=other))


def test_worse_conditions_are_compared_with_the_usual_ones_and_drowning_is_counted():
    worse = study(
        row(1.0, "breakeven", 2.0),
        row(1.0, "breakeven-cold", 2.2),
        row(2.0, "breakeven", 3.0),
        row(2.0, "breakeven-cold", 3.0),
        row(3.0, "breakeven", 4.0),
        row(3.0, "breakeven-cold", 9.0, stable=False),
        row(4.0, "breakeven", 9.0, stable=False),
        row(4.0, "breakeven-cold", 4.0),
    )
    assert scenario_table(worse).splitlines()[2:] == ["| plain + k=5 | breakeven-cold | +10.0% at 1 | +5.0% | 1 |"]


def test_the_policy_in_worse_conditions_is_not_its_own_rival():
    (margin,) = margins(study(row(1.0, "breakeven", 2.0), row(1.0, "breakeven-cold", 1.0), row(1.0, "threshold", 2.5)))
    assert margin.rival == "threshold"
