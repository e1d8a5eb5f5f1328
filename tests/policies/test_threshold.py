"""The default policy: above the threshold to the plain pools, the rest to the speculative ones."""

import re

import pytest

from breakeven_policies.decision import Reason, Refusal, Refuse, Route, Target
from breakeven_policies.snapshot import FleetSnapshot, Health
from breakeven_policies.threshold import Threshold, build
from tests.policies.fleets import backend, fleet, pair, plain, request, speculative

POLICY = Threshold()


@pytest.mark.parametrize("temperature", [1.0000001, 1.2, 1.5, 2.0])
def test_above_the_threshold_the_plain_pool_is_chosen(temperature: float) -> None:
    decision = POLICY.decide(request(temperature), pair())
    assert decision == Route(
        (Target("baseline", "base-0"), Target("speculative", "spec-0")), Reason.TEMPERATURE_ABOVE, "threshold"
    )


@pytest.mark.parametrize("temperature", [-1.0, -0.0, 0.0, 1e-5, 0.7, 0.9999999999999999, 1.0])
def test_up_to_the_threshold_the_speculative_pool_is_chosen(temperature: float) -> None:
    decision = POLICY.decide(request(temperature), pair())
    assert decision == Route(
        (Target("speculative", "spec-0"), Target("baseline", "base-0")), Reason.TEMPERATURE_WITHIN, "threshold"
    )


@pytest.mark.parametrize(("temperature", "reason"), [(0.6, Reason.DEFAULT_WITHIN), (1.3, Reason.DEFAULT_ABOVE)])
def test_the_reason_tells_that_the_temperature_was_the_models_default(temperature: float, reason: Reason) -> None:
    assert POLICY.decide(request(temperature, temperature_defaulted=True), pair()).reason is reason


@pytest.mark.parametrize("changes", [{"min_p": 0.05}, {"has_logit_bias": True}])
def test_what_a_speculative_engine_refuses_goes_to_the_plain_pool_and_nowhere_else(changes: dict[str, object]) -> None:
    decision = POLICY.decide(request(0.7, **changes), pair())
    assert decision == Route((Target("baseline", "base-0"),), Reason.CAPABILITY, "threshold")


def test_with_the_plain_pool_down_it_is_refused_for_now_rather_than_sent_where_it_would_be_rejected() -> None:
    down = fleet(plain(backend("base-0", health=Health.DOWN)), speculative(backend("spec-0")))
    assert POLICY.decide(request(0.7, min_p=0.05), down) == Refuse(Refusal.NO_READY_BACKEND, "threshold")


def test_without_any_plain_pool_it_is_refused_as_something_no_pool_can_do() -> None:
    only_speculative = fleet(speculative(backend("spec-0")))
    assert POLICY.decide(request(0.7, min_p=0.05), only_speculative) == Refuse(Refusal.NO_CAPABLE_POOL, "threshold")


@pytest.mark.parametrize(("temperature", "down", "up"), [(0.7, "spec-0", "base-0"), (1.5, "base-0", "spec-0")])
def test_a_pool_without_a_ready_backend_is_replaced_by_the_other(temperature: float, down: str, up: str) -> None:
    health = {down: Health.LOADING, up: Health.READY}
    state = fleet(
        plain(backend("base-0", health=health["base-0"])), speculative(backend("spec-0", health=health["spec-0"]))
    )
    decision = POLICY.decide(request(temperature), state)
    assert isinstance(decision, Route)
    assert [target.backend for target in decision.ranking] == [up]
    assert decision.reason is Reason.HEALTH


def test_a_model_that_only_the_plain_pool_serves_goes_there_whatever_its_temperature() -> None:
    state = fleet(plain(backend("base-0", models=frozenset({"m", "m-lora"}))), speculative(backend("spec-0")))
    decision = POLICY.decide(request(0.2, model="m-lora"), state)
    assert decision == Route((Target("baseline", "base-0"),), Reason.MODEL, "threshold")


def test_a_model_that_nobody_serves_is_refused_for_good() -> None:
    assert POLICY.decide(request(model="nope"), pair()) == Refuse(Refusal.UNKNOWN_MODEL, "threshold")


def test_an_engine_that_has_not_listed_its_models_may_serve_any() -> None:
    state = fleet(plain(backend("base-0")), speculative(backend("spec-0", models=None)))
    assert [target.backend for target in POLICY.decide(request(model="nope"), state).ranking] == ["spec-0"]


def test_of_several_speculative_pools_the_least_loaded_backend_is_chosen() -> None:
    state = fleet(
        plain(backend("base-0")),
        speculative(backend("s-0", 5), backend("s-1", 4), name="k5"),
        speculative(backend("t-0", 3), backend("t-1", 9), name="k3"),
    )
    decision = POLICY.decide(request(), state)
    assert [target.backend for target in decision.ranking] == ["t-0", "s-1", "base-0"]


def test_what_samples_nothing_goes_to_the_least_loaded_backend_of_any_pool() -> None:
    state = fleet(plain(backend("base-0", 1)), speculative(backend("spec-0", 2)))
    decision = POLICY.decide(request(0.0, endpoint="embeddings", sampled=False), state)
    assert decision.reason is Reason.NOT_SAMPLED
    assert decision.ranking[0].backend == "base-0"


def test_with_pools_of_one_kind_only_the_reason_names_a_temperature_only_where_it_decided() -> None:
    only_plain, only_speculative = fleet(plain(backend("base-0"))), fleet(speculative(backend("spec-0")))

    def reasons(state: FleetSnapshot) -> list[Reason]:
        return [POLICY.decide(request(temperature), state).reason for temperature in (0.2, 1.2)]

    assert reasons(only_plain) == [Reason.NO_SUCH_POOL, Reason.TEMPERATURE_ABOVE]
    assert reasons(only_speculative) == [Reason.TEMPERATURE_WITHIN, Reason.NO_SUCH_POOL]


def test_an_argument_overrides_the_configured_threshold() -> None:
    policy = build("0.5", 1.0)
    assert policy.name == "threshold:0.5"
    assert policy.decide(request(0.7), pair()).ranking[0].pool == "baseline"
    assert build(None, 0.5).decide(request(0.7), pair()).ranking[0].pool == "baseline"


@pytest.mark.parametrize("argument", ["hot", "nan", "inf", "-1", ""])
def test_an_argument_that_no_temperature_could_be_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(argument))):
        build(argument, 1.0)


def test_the_name_is_fit_for_a_header_however_the_argument_was_spelt() -> None:
    assert build(" 0.80\n", 1.0).name == "threshold:0.8"
