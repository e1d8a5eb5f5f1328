"""The steps that policies share: load as seen from here, ties, and what stands in the way."""

from collections import Counter

from breakeven_policies.decision import Reason, Refusal, Refuse
from breakeven_policies.policy import least_loaded, route
from tests.policies.fleets import backend, fleet, plain, request


def test_nothing_configured_is_nothing_ready() -> None:
    decision = route(request(), fleet(), "any", Reason.LEAST_LOADED, lambda _: True)
    assert decision == Refuse(Refusal.NO_READY_BACKEND, "any", retryable=True)
    empty = route(request(), fleet(plain()), "any", Reason.LEAST_LOADED, lambda _: True)
    assert empty == Refuse(Refusal.NO_READY_BACKEND, "any", retryable=True)


def test_the_ticket_spreads_equal_loads_evenly() -> None:
    candidates = [(plain(), backend(name)) for name in ("a", "b", "c", "d")]
    chosen = Counter(least_loaded(candidates, 1, ticket / 2000)[0][1].name for ticket in range(2000))
    assert all(abs(count - 500) < 100 for count in chosen.values()), chosen


def test_a_lower_load_beats_every_ticket() -> None:
    candidates = [(plain(), backend("a", 1)), (plain(), backend("b", 0))]
    assert {least_loaded(candidates, 1, ticket / 50)[0][1].name for ticket in range(50)} == {"b"}


def test_a_single_candidate_needs_no_lot() -> None:
    candidates = [(plain(), backend("a", 7))]
    assert least_loaded(candidates, 3, 0.1) == candidates
