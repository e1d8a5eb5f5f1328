"""The adaptive policy."""

from breakeven_policies.breakeven import Breakeven
from breakeven_policies.decision import Reason, Route
from tests.policies.fleets import pair, request


def test_without_table_and_observations_the_static_rule_decides_and_says_so() -> None:
    decision = Breakeven().decide(request(1.2), pair())
    assert isinstance(decision, Route)
    assert (decision.ranking[0].pool, decision.reason) == ("baseline", Reason.UNMEASURED)
