"""The steps that policies share: load as seen from here, ties, and what stands in the way."""

from collections import Counter

from breakeven_policies.decision import Reason, Refusal, Refuse, Route
from breakeven_policies.policy import least_loaded, route
from breakeven_policies.snapshot import Health, PoolKind, PoolView
from tests.policies.fleets import backend, fleet, pair, plain, request, speculative


def test_nothing_configured_is_nothing_ready() -> None:
    decision = route(request(), fleet(), "any", Reason.LEAST_LOADED, lambda _: True)
    assert decision == Refuse(Refusal.NO_READY_BACKEND, "any")
    empty = route(request(), fleet(plain()), "any", Reason.LEAST_LOADED, lambda _: True)
    assert empty == Refuse(Refusal.NO_READY_BACKEND, "any")


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


def to_plain(pool: PoolView) -> bool:
    return pool.kind is PoolKind.PLAIN


def test_the_wanted_pools_come_first_and_the_best_of_the_others_stands_by() -> None:
    decision = route(request(), pair(), "any", Reason.PINNED, to_plain)
    assert isinstance(decision, Route)
    assert [target.backend for target in decision.ranking] == ["base-0", "spec-0"]


def test_without_others_the_ranking_fills_up_from_the_wanted_pools() -> None:
    state = fleet(plain(*(backend(name, load) for load, name in enumerate("abcd"))))
    decision = route(request(), state, "any", Reason.PINNED, to_plain)
    assert [target.backend for target in decision.ranking] == ["a", "b", "c"]


def test_what_stands_in_the_way_of_the_wanted_pool_is_the_reason() -> None:
    state = fleet(plain(backend("base-0", health=Health.DOWN)), speculative(backend("spec-0")))
    assert route(request(), state, "any", Reason.PINNED, to_plain).reason is Reason.HEALTH


def test_a_full_wanted_pool_is_passed_over_for_another_and_the_reason_says_so() -> None:
    state = fleet(plain(backend("base-0", 4, in_flight_max=4)), speculative(backend("spec-0")))
    decision = route(request(), state, "any", Reason.PINNED, to_plain)
    assert isinstance(decision, Route)
    assert (decision.ranking[0].backend, decision.reason) == ("spec-0", Reason.CAPACITY)


def test_a_request_that_only_full_backends_could_serve_may_wait() -> None:
    full, down = backend("a", 2, in_flight_max=2), backend("b", health=Health.DOWN, in_flight_max=2)
    decision = route(request(), fleet(plain(full, down)), "any", Reason.PINNED, to_plain)
    assert decision == Refuse(Refusal.AT_CAPACITY, "any")
    assert decision.retryable


def test_a_full_pool_is_no_reason_to_break_a_capability() -> None:
    state = fleet(plain(backend("a", 1, in_flight_max=1)), speculative(backend("b")))
    assert route(request(min_p=0.1), state, "any", Reason.PINNED, to_plain) == Refuse(Refusal.AT_CAPACITY, "any")


def test_where_no_pool_is_of_the_wanted_kind_the_reason_says_so() -> None:
    assert route(request(), pair(), "any", Reason.PINNED, lambda _: False).reason is Reason.NO_SUCH_POOL


def test_a_refusal_says_whether_a_model_a_capability_or_only_health_is_missing() -> None:
    def refusal(state: object, **changes: object) -> Refusal:
        decision = route(request(**changes), state, "any", Reason.PINNED, to_plain)
        assert isinstance(decision, Refuse)
        return decision.refusal

    assert refusal(fleet(plain(backend("a"))), model="nope") is Refusal.UNKNOWN_MODEL
    assert refusal(fleet(speculative(backend("a"))), min_p=0.1) is Refusal.NO_CAPABLE_POOL
    assert refusal(fleet(plain(backend("a", health=Health.DOWN)))) is Refusal.NO_READY_BACKEND
