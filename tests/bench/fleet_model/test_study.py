"""Cells of a study: values in, outcomes out, and the search for what an arm carries."""

import pytest

from breakeven_bench.fleet_model import study
from breakeven_bench.fleet_model.arms import arms_of
from breakeven_bench.fleet_model.pairs import PAIRS
from breakeven_bench.fleet_model.study import (
    CAPACITY_STEP,
    CAPACITY_STEPS,
    CapacityCell,
    Cell,
    Extent,
    capacity,
    highest,
    run_cell,
)
from breakeven_bench.fleet_model.traffic import Asked

SHORT = Extent(part=10, warm_up=5)
ARM = arms_of(PAIRS["plain-k5"])[3]


def test_a_cell_that_needs_a_trace_says_so():
    with pytest.raises(ValueError, match="trace"):
        run_cell(Cell(ARM, "falls", 1.0, trace=True), SHORT)


def test_a_cell_is_an_outcome_on_the_pools_of_its_arm():
    outcome = run_cell(Cell(ARM, "falls", 1.0), SHORT)
    assert set(outcome.share_by_pool) == {"plain", "spec"}
    assert outcome.mean_s > 0.5


def test_a_trace_replaces_the_mixed_load():
    trace = [Asked(0.0, "trace", 10, 2), Asked(1.0, "trace", 10, 2)]
    assert run_cell(Cell(ARM, "falls", 1.0, trace=True), SHORT, trace).mean_s < 0.5


@pytest.mark.parametrize("border", [0, 17, CAPACITY_STEPS - 1])
def test_the_highest_rate_carried_is_found_in_few_tries(border):
    tried = []

    def carried(rate):
        tried.append(rate)
        return rate <= 2.0 * CAPACITY_STEP**border * 1.01

    assert highest(carried, 2.0) == pytest.approx(2.0 * CAPACITY_STEP**border)
    assert len(tried) <= 7


def test_what_carries_nothing_has_no_capacity():
    assert highest(lambda rate: False, 1.0) == 0.0


def test_capacity_is_sought_from_a_rate_that_grows_with_the_fleet(monkeypatch):
    asked = []
    monkeypatch.setattr(study, "run_cell", lambda cell, extent: asked.append(cell.rate) or _Carried(cell.rate < 2.1))
    eight = next(arm for arm in arms_of(PAIRS["four-pools"]) if arm.name == "least-loaded")
    assert capacity(CapacityCell(eight, "flat"), SHORT) == pytest.approx(2.0)
    assert all(rate >= 2.0 for rate in asked)


class _Carried:
    def __init__(self, carried):
        self.carried = carried
