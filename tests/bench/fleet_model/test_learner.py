"""What learning begins with: nothing, the truth as a bench measures it, or errors that speak for the wrong pool."""

import pytest

from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, KindName, engine_kind
from breakeven_bench.fleet_model.learner import WRONG_STEP, Table, facts_of, learning_with
from breakeven_bench.fleet_model.pairs import PAIRS
from breakeven_bench.fleet_model.traffic import mixed, traffic
from breakeven_bench.fleet_model.worlds import WORLDS, tokens_per_step

ARRIVALS = traffic(mixed(400, 2.0, 1), WORLDS["falls"], 1).arrivals


def learned(table, pair="plain-k5"):
    return learning_with(table, PAIRS[pair].pools)(ARRIVALS).view()


def test_without_a_table_nothing_is_known():
    assert not any(pool.known for pool in learned(Table.NONE).pools.values())


def test_a_measured_table_knows_step_times_acceptances_and_slots():
    pools = learned(Table.MEASURED).pools
    assert all(pool.measured and pool.slots == SEQUENCES_MAX for pool in pools.values())
    kind = engine_kind(KindName.K5)
    assert pools["spec"].step_s[8] == pytest.approx(kind.decode_step_s(8, 8 * 500.0), rel=0.05)
    mean = sum(tokens_per_step(each.acceptance, 5) for each in ARRIVALS) / len(ARRIVALS)
    assert pools["spec"].overall.length == pytest.approx(mean, rel=0.05)
    acceptance = pools["spec"].acceptance
    assert acceptance["t0/short/free"].length > acceptance["t3/short/free"].length


def test_a_wrong_table_makes_the_plain_pool_slow_and_the_other_one_fast():
    right, wrong = learned(Table.MEASURED).pools, learned(Table.WRONG).pools
    assert wrong["plain"].step_s[8] == pytest.approx(right["plain"].step_s[8] * WRONG_STEP)
    assert wrong["spec"].step_s[8] == pytest.approx(right["spec"].step_s[8] / WRONG_STEP)
    assert wrong["spec"].overall.length > right["spec"].overall.length + 0.5


def test_of_a_dynamic_engine_the_table_says_how_much_less_it_gains_in_a_larger_batch():
    (plain, dynamic) = PAIRS["plain-dynamic"].pools
    facts = facts_of(Table.MEASURED, dynamic, ARRIVALS)
    share = facts.prior.draft_share
    assert facts.dynamic
    assert share.at(1) == 1.0
    assert 1.0 > share.at(24) > share.at(64) == 0.0
    assert not facts_of(Table.MEASURED, plain, ARRIVALS).dynamic
