"""Arms: every comparison carries its rivals, the told rule, and the equal hardware."""

import pytest

from breakeven_bench.fleet_model.arms import arms_of, chooser_of, learning_of, scenarios_of
from breakeven_bench.fleet_model.learner import Table
from breakeven_bench.fleet_model.pairs import PAIRS
from breakeven_bench.fleet_model.simulation import simulate
from breakeven_bench.fleet_model.traffic import mixed, traffic
from breakeven_bench.fleet_model.worlds import WORLDS


def test_a_split_pair_has_every_rival_and_the_equal_hardware():
    assert [arm.name for arm in arms_of(PAIRS["plain-k5"])] == [
        "all-plain",
        "all-spec",
        "threshold",
        "least-loaded",
        "own-cost",
        "breakeven",
        "told",
        "equal-plain",
        "equal-k3",
        "equal-dynamic",
    ]


def test_where_there_is_one_pool_nothing_is_pinned_to_it():
    assert arms_of(PAIRS["two-k3"])[0].name == "threshold"


def test_equal_hardware_has_as_many_engines_as_the_fleet():
    for pair in PAIRS.values():
        engines = {sum(pool.backends for pool in arm.fleet.pools) for arm in arms_of(pair)}
        assert engines == {pair.engines}
    assert sum(arm.equal_hardware for arm in arms_of(PAIRS["four-pools"])) == 3


def test_only_a_policy_that_learns_is_given_something_to_learn_from():
    requests = traffic(mixed(40, 2.0, 1), WORLDS["falls"], 1)
    learning = {arm.name: learning_of(arm)(requests.arrivals) for arm in arms_of(PAIRS["plain-k5"])}
    assert [name for name, found in learning.items() if found is not None] == ["breakeven"]


def test_worse_conditions_are_those_of_the_policy_on_the_same_pools():
    cold, wrong, four = scenarios_of(PAIRS["plain-k5"])
    assert {arm.decides for arm in (cold, wrong, four)} == {"breakeven"}
    assert [arm.table for arm in (cold, wrong, four)] == [Table.NONE, Table.WRONG, Table.MEASURED]
    assert [arm.fleet.replicas for arm in (cold, wrong, four)] == [1, 1, 4]


@pytest.mark.slow
def test_every_arm_serves_and_a_pinned_one_only_where_it_is_pinned():
    requests = traffic(mixed(40, 2.0, 1), WORLDS["falls"], 1)
    for arm in arms_of(PAIRS["plain-k5"]):
        run = simulate(arm.fleet, requests, chooser_of(arm), 1, learning_of(arm))
        assert len(run.served) == 40
        if arm.name == "all-plain":
            assert {served.engine for served in run.served} == {0}
