"""A small part of `make policy-study`: what the policy `breakeven` must hold on fleets that it does not know.

Seeds are fixed, so that a change of a policy or of the simulator moves these figures and nothing else does. The limits
are those of the issue with two points for the shortness of the runs.
"""

from functools import cache

import pytest

from breakeven_bench.fleet_model.arms import arms_of, scenarios_of
from breakeven_bench.fleet_model.pairs import PAIRS
from breakeven_bench.fleet_model.study import Cell, Extent, run_cell

pytestmark = pytest.mark.slow

RUN = Extent(part=200, warm_up=1000)
"""1,000 requests are what a policy may take to find its way."""

NOISE = 0.02


@cache
def outcome(name, rate, pair="plain-k5", world="falls"):
    arms = (*arms_of(PAIRS[pair]), *scenarios_of(PAIRS[pair]))
    return run_cell(Cell(next(arm for arm in arms if arm.name == name), world, rate), RUN)


@pytest.mark.parametrize("rate", [2.0, 6.0])
def test_it_is_hardly_slower_than_the_best_other_use_of_the_same_pools(rate):
    rivals = [outcome(name, rate) for name in ("all-spec", "threshold", "least-loaded", "own-cost")]
    best = min(rival.mean_s for rival in rivals if rival.stable)
    assert outcome("breakeven", rate).mean_s <= best * (1.03 + NOISE)


def test_it_carries_more_than_one_and_a_half_times_the_rate_at_which_the_temperature_rule_fails():
    assert not outcome("threshold", 4.5).carried
    assert outcome("breakeven", 6.75).carried


@pytest.mark.parametrize("name", ["breakeven", "breakeven-cold", "breakeven-wrong"])
def test_after_a_thousand_requests_it_is_near_the_same_rule_that_knows_everything(name):
    assert outcome(name, 6.0).mean_s <= outcome("told", 6.0).mean_s * (1.10 + NOISE)


def test_four_replicas_with_pages_of_a_second_ago_lose_little():
    assert outcome("breakeven-four", 6.0).mean_s <= outcome("breakeven", 6.0).mean_s * (1.06 + NOISE)


def test_where_engines_without_a_split_are_faster_the_simulation_says_so():
    assert outcome("equal-dynamic", 6.0).mean_s < outcome("breakeven", 6.0).mean_s
