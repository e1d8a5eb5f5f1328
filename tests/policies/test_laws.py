"""The laws that hold for every policy there is; one that is added is tested by them without another line."""

from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from breakeven_policies.capability import pool_can_sample, serves_model
from breakeven_policies.decision import Decision, Reason, Refusal, Refuse, Route
from breakeven_policies.policy import RANKING_MAX, Policy
from breakeven_policies.registry import build_policy, policy_names
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot, Health, PoolView
from tests.policies.fleets import fleets, requests

EVERY_POLICY = [build_policy(f"{name}:p0" if name == "pinned" else name) for name in policy_names()]
OTHER_OBJECTIVES = [build_policy("breakeven:throughput"), build_policy("breakeven:goodput")]

every_policy = pytest.mark.parametrize("policy", EVERY_POLICY, ids=lambda policy: policy.name)
every_objective = pytest.mark.parametrize("policy", EVERY_POLICY + OTHER_OBJECTIVES, ids=lambda policy: policy.name)
any_case = given(fleet=fleets(), request=requests())


def able(fleet: FleetSnapshot, request: RequestView) -> set[str]:
    """The names of all backends that are ready, have room and would accept the request."""
    return {
        backend.name
        for pool in fleet.pools
        for backend in pool.backends
        if backend.health is Health.READY
        and not backend.full
        and pool_can_sample(pool, request)
        and serves_model(backend, request)
    }


def without_limits(pool: PoolView) -> PoolView:
    """The same pool, whose backends may have any number of requests."""
    return replace(pool, backends=tuple(replace(backend, in_flight_max=0) for backend in pool.backends))


def names(decision: Decision) -> list[str]:
    """The ranking, by name."""
    assert isinstance(decision, Route)
    return [target.backend for target in decision.ranking]


@every_policy
@any_case
def test_it_routes_exactly_when_some_backend_is_able(
    policy: Policy, fleet: FleetSnapshot, request: RequestView
) -> None:
    assert isinstance(policy.decide(request, fleet), Route) == bool(able(fleet, request))


@every_policy
@any_case
def test_it_names_only_able_backends_each_once_and_at_most_three(
    policy: Policy, fleet: FleetSnapshot, request: RequestView
) -> None:
    decision = policy.decide(request, fleet)
    if isinstance(decision, Route):
        ranking = names(decision)
        assert 1 <= len(ranking) <= RANKING_MAX
        assert len(set(ranking)) == len(ranking)
        assert set(ranking) <= able(fleet, request)


@every_policy
@any_case
def test_the_ranking_is_as_long_as_it_can_be(policy: Policy, fleet: FleetSnapshot, request: RequestView) -> None:
    decision = policy.decide(request, fleet)
    if isinstance(decision, Route):
        assert len(decision.ranking) == min(RANKING_MAX, len(able(fleet, request)))


@every_policy
@any_case
def test_the_same_inputs_give_the_same_answer(policy: Policy, fleet: FleetSnapshot, request: RequestView) -> None:
    assert policy.decide(request, fleet) == policy.decide(request, fleet)


@every_policy
@given(fleet=fleets(), request=requests(), order=st.randoms(use_true_random=False))
def test_the_order_of_backends_does_not_matter(
    policy: Policy, fleet: FleetSnapshot, request: RequestView, order: object
) -> None:
    shuffled = replace(
        fleet,
        pools=tuple(
            replace(pool, backends=tuple(order.sample(list(pool.backends), len(pool.backends)))) for pool in fleet.pools
        ),
    )
    assert policy.decide(request, fleet) == policy.decide(request, shuffled)


@every_policy
@any_case
def test_a_refusal_is_retryable_only_where_health_or_room_alone_is_missing(
    policy: Policy, fleet: FleetSnapshot, request: RequestView
) -> None:
    decision = policy.decide(request, fleet)
    if isinstance(decision, Refuse):
        assert decision.retryable == (decision.refusal in {Refusal.NO_READY_BACKEND, Refusal.AT_CAPACITY})
        roomy = replace(fleet, pools=tuple(without_limits(pool) for pool in fleet.pools))
        assert (decision.refusal is Refusal.AT_CAPACITY) == bool(able(roomy, request))
        if decision.refusal is Refusal.UNKNOWN_MODEL:
            assert not any(serves_model(backend, request) for pool in fleet.pools for backend in pool.backends)


@every_objective
@settings(max_examples=30)
@any_case
def test_more_load_never_improves_a_rank(policy: Policy, fleet: FleetSnapshot, request: RequestView) -> None:
    decision = policy.decide(request, fleet)
    if not isinstance(decision, Route):
        return
    for place, name in enumerate(names(decision)):
        heavier = replace(
            fleet,
            pools=tuple(
                replace(
                    pool,
                    backends=tuple(
                        replace(backend, in_flight=backend.in_flight + 1000) if backend.name == name else backend
                        for backend in pool.backends
                    ),
                )
                for pool in fleet.pools
            ),
        )
        decided = policy.decide(request, heavier)
        if isinstance(decided, Route):  # else the load was the last that it may have
            assert name not in names(decided)[:place]


@pytest.mark.slow
@every_objective
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(fleet=fleets(8, 8), request=requests(), order=st.randoms(use_true_random=False))
def test_a_fleet_of_64_backends_in_8_pools_is_routed_by_the_same_laws(
    policy: Policy, fleet: FleetSnapshot, request: RequestView, order: object
) -> None:
    decision = policy.decide(request, fleet)
    shuffled = replace(
        fleet,
        pools=tuple(
            replace(pool, backends=tuple(order.sample(list(pool.backends), len(pool.backends)))) for pool in fleet.pools
        ),
    )
    assert policy.decide(request, shuffled) == decision
    assert isinstance(decision, Route) == bool(able(fleet, request))
    if isinstance(decision, Route):
        ranking = names(decision)
        assert set(ranking) <= able(fleet, request)
        assert len(set(ranking)) == len(ranking) == min(RANKING_MAX, len(able(fleet, request)))


@every_objective
@settings(max_examples=30)
@any_case
def test_what_nobody_measured_is_decided_by_a_declared_rule(
    policy: Policy, fleet: FleetSnapshot, request: RequestView
) -> None:
    """Without a table and without observations the adaptive policy goes where the static rule goes, and says why."""
    decision = policy.decide(request, replace(fleet, learned=None))
    if isinstance(decision, Route) and getattr(policy, "learns", False) and request.sampled:
        static = build_policy("threshold").decide(request, fleet)
        assert isinstance(static, Route)
        assert decision.ranking == static.ranking
        assert decision.reason is Reason.UNMEASURED or decision.reason is static.reason
        assert decision.prediction is None


@every_policy
@any_case
def test_the_answer_carries_the_name_of_the_policy(policy: Policy, fleet: FleetSnapshot, request: RequestView) -> None:
    assert policy.decide(request, fleet).policy == policy.name


def test_the_order_law_is_tried_on_a_fleet_where_order_could_matter() -> None:
    """Guards the strategy itself: equal loads, where only the ticket may break the tie."""
    from tests.policies.fleets import backend, fleet, plain, request

    backends = [backend(name) for name in ("a", "b", "c")]
    rankings = {
        tuple(names(EVERY_POLICY[0].decide(request(), fleet(plain(*order))))) for order in permutations(backends)
    }
    assert len(rankings) == 1
