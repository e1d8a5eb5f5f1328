"""What a pool would refuse, before anybody prefers anything."""

from breakeven_policies.capability import capable_backends, pool_can_sample, serves_model, why_incapable
from breakeven_policies.decision import Reason
from breakeven_policies.snapshot import Health
from tests.policies.fleets import backend, plain, request, speculative


def test_a_speculative_pool_refuses_min_p_and_a_plain_one_does_not() -> None:
    assert not pool_can_sample(speculative(), request(min_p=0.1))
    assert pool_can_sample(plain(), request(min_p=0.1))


def test_what_samples_nothing_is_not_judged_by_its_sampling_parameters() -> None:
    assert pool_can_sample(speculative(), request(min_p=0.1, sampled=False))


def test_a_model_is_served_where_it_is_listed_unknown_or_not_named() -> None:
    listed = backend("a", models=frozenset({"m"}))
    assert serves_model(listed, request(model="m"))
    assert not serves_model(listed, request(model="M"))
    assert serves_model(listed, request(model=None))
    assert serves_model(backend("b", models=None), request(model="anything"))


def test_health_is_no_question_of_capability() -> None:
    down = backend("a", health=Health.DOWN)
    assert capable_backends(plain(down), request()) == (down,)


def test_only_the_backends_with_the_model_are_capable() -> None:
    with_it, without = backend("a"), backend("b", models=frozenset())
    assert capable_backends(plain(without, with_it), request()) == (with_it,)
    assert why_incapable(plain(without, with_it), request()) is None
    assert why_incapable(plain(without), request()) is Reason.MODEL


def test_sampling_is_the_first_obstacle() -> None:
    pool = speculative(backend("a", models=frozenset()))
    assert capable_backends(pool, request(min_p=0.1)) == ()
    assert why_incapable(pool, request(min_p=0.1)) is Reason.CAPABILITY
