"""The adaptive policy."""

import pytest
from msgspec.structs import replace

from breakeven_policies.breakeven import Breakeven
from breakeven_policies.curve import FLAT
from breakeven_policies.decision import Reason, Route
from breakeven_policies.learning import Learning, PoolFacts, PoolPrior
from breakeven_policies.snapshot import FleetSnapshot, PoolKind
from tests.policies.fleets import pair, request


def test_without_table_and_observations_the_static_rule_decides_and_says_so() -> None:
    decision = Breakeven().decide(request(1.2), pair())
    assert isinstance(decision, Route)
    assert (decision.ranking[0].pool, decision.reason) == ("baseline", Reason.UNMEASURED)


def measured(**tables: str | None) -> FleetSnapshot:
    """The pair, with measured tables for its pools, of these hashes."""
    facts = {}
    for pool, kind, tokens in (("baseline", PoolKind.PLAIN, 0), ("speculative", PoolKind.SPECULATIVE, 5)):
        prior = PoolPrior(FLAT, {}, 3.0 if tokens else None, table=tables[pool])
        facts[pool] = PoolFacts(kind, tokens, prior=prior)
    return replace(pair(), learned=Learning(facts).view(), now_s=0.0)


@pytest.mark.parametrize(
    ("baseline", "spec", "named"),
    [("a", "a", "a"), ("b", "a", "a+b"), (None, "a", "a"), ("b", None, "b"), (None, None, None)],
)
def test_a_decision_names_the_tables_that_its_choice_and_the_runner_up_began_with(
    baseline: str | None, spec: str | None, named: str | None
) -> None:
    decision = Breakeven(explores=False).decide(request(0.0), measured(baseline=baseline, speculative=spec))
    assert isinstance(decision, Route)
    assert (decision.ranking[0].pool, decision.prediction.table) == ("speculative", named)


def test_where_there_is_no_other_pool_only_its_own_table_is_named() -> None:
    both = measured(baseline="b", speculative="a")
    alone = replace(both, pools=both.pools[1:])
    assert Breakeven(explores=False).decide(request(0.0), alone).prediction.table == "a"
