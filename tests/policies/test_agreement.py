"""`breakeven_policies.agreement`: two decisions about one request, compared by what becomes of it."""

import pytest
from hypothesis import given
from msgspec.structs import replace

from breakeven_policies.agreement import Agreement, agreement, regret, wanted_pool
from breakeven_policies.breakeven import Breakeven
from breakeven_policies.decision import AcceptanceSource, Decision, Prediction, Reason, Refusal, Refuse, Route, Target
from breakeven_policies.pinned import Pinned
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot
from tests.policies.fleets import fleets, request, requests
from tests.policies.learned_fleets import learned_pair
from tests.policies.test_laws import every_policy


def to(*ranking: str, policy: str = "one") -> Route:
    return Route(tuple(Target(name.partition("-")[0], name) for name in ranking), Reason.PINNED, policy)


NOBODY, UNKNOWN = Refuse(Refusal.NO_READY_BACKEND, "one"), Refuse(Refusal.UNKNOWN_MODEL, "other")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (NOBODY, UNKNOWN, Agreement.OTHER_REFUSAL),
        (NOBODY, to("a-0"), Agreement.OTHER_REFUSAL),
        (NOBODY, Refuse(Refusal.NO_READY_BACKEND, "other"), Agreement.SAME),
        (to("a-0"), to("b-0"), Agreement.OTHER_POOL),
        (to("a-0", "b-0"), to("a-1", "a-0"), Agreement.OTHER_BACKEND),
        (to("a-0", "b-0"), to("a-0", "b-1", policy="other"), Agreement.SAME),
    ],
)
def test_decisions_are_compared_by_what_becomes_of_the_request(
    one: Decision, other: Decision, expected: Agreement
) -> None:
    assert agreement(one, other) is expected
    assert agreement(other, one) is expected


def test_an_engine_beside_the_other_is_the_same_pool_and_a_refusal_is_not() -> None:
    assert [word for word in Agreement if word.same_pool] == [Agreement.SAME, Agreement.OTHER_BACKEND]


def test_who_refuses_wants_no_pool() -> None:
    assert [wanted_pool(decision) for decision in (NOBODY, to("a-0"))] == [None, "a"]


@every_policy
@given(fleet=fleets(), request=requests())
def test_every_policy_agrees_with_itself(policy: Policy, fleet: FleetSnapshot, request: RequestView) -> None:
    decide = policy.decide
    assert agreement(decide(request, fleet), decide(request, fleet)) is Agreement.SAME


def expecting(route: Route, total: float, runner_up: str | None = None, runner_up_total: float | None = None) -> Route:
    other = None if runner_up is None else Target(runner_up.partition("-")[0], runner_up)
    figures = Prediction(1, 0.02, 2.0, AcceptanceSource.TABLE, total, 0.0, total, other, runner_up_total)
    return replace(route, prediction=figures)


@pytest.mark.parametrize(
    ("done", "preferred", "expected"),
    [
        (NOBODY, expecting(to("a-0"), 1.0), None),
        (to("a-0"), UNKNOWN, None),
        (to("a-0"), to("b-0"), None),
        (to("a-0"), expecting(to("b-0"), 1.0), None),
        (to("a-0"), expecting(to("b-0"), 1.0, "c-0", 2.0), None),
        (to("a-1"), expecting(to("a-0"), 1.0), 0.0),
        (to("a-1"), expecting(to("b-0"), 1.0, "a-0", 3.5), 2.5),
        (to("a-1"), expecting(to("b-0"), 4.0, "a-0", 3.5), 0.0),
        (expecting(to("a-1"), 3.0), expecting(to("b-0"), 1.0, "c-0", 1.5), 2.0),
        (expecting(to("a-1"), 3.0), expecting(to("b-0"), 1.0), 2.0),
    ],
)
def test_regret_is_what_the_preferring_policy_expects_to_be_lost_and_unknown_is_not_zero(
    done: Decision, preferred: Decision, expected: float | None
) -> None:
    assert regret(done, preferred) == expected


def test_a_policy_that_explores_regrets_nothing_and_one_that_knows_better_does() -> None:
    state = learned_pair(spec=0)
    (choice,) = {Breakeven(explores=False).decide(request(0.7), state)}
    assert wanted_pool(choice) == "speculative"
    assert (regret(Pinned("baseline").decide(request(0.7), state), choice) or 0.0) > 0.0
