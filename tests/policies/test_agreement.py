"""`breakeven_policies.agreement`: two decisions about one request, compared by what becomes of it."""

import pytest
from hypothesis import given

from breakeven_policies.agreement import Agreement, agreement, wanted_pool
from breakeven_policies.decision import Decision, Reason, Refusal, Refuse, Route, Target
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot
from tests.policies.fleets import fleets, requests
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
