"""The verdict on every pool beside the decision."""

import pytest

from breakeven_policies.breakeven import Breakeven
from breakeven_policies.decision import AcceptanceSource, Reason
from breakeven_policies.explain import Expected, expectations, explain
from breakeven_policies.snapshot import Health
from breakeven_policies.threshold import Threshold
from tests.policies.fleets import backend, fleet, pair, plain, request, speculative
from tests.policies.learned_fleets import learned_pair


def test_every_pool_says_why_it_could_not_or_how_loaded_it_is() -> None:
    state = fleet(
        plain(backend("base-0", 2), backend("base-1", health=Health.DOWN)),
        speculative(backend("spec-0")),
        plain(backend("old-0", health=Health.LOADING), name="old"),
        plain(backend("other-0", models=frozenset({"other"})), name="other"),
        plain(backend("full-0", 1, in_flight_max=1), backend("full-1", health=Health.DOWN), name="full"),
    )
    explanation = explain(Threshold(), request(0.7, min_p=0.05), state)
    assert [(v.pool, v.eligible, v.obstacle, v.ready, v.loads) for v in explanation.verdicts] == [
        ("baseline", True, None, ("base-0",), (2.0,)),
        ("speculative", False, Reason.CAPABILITY, (), ()),
        ("old", False, Reason.HEALTH, (), ()),
        ("other", False, Reason.MODEL, (), ()),
        ("full", False, Reason.CAPACITY, (), ()),
    ]
    assert explanation.decision == Threshold().decide(explanation.request, state)


def test_a_policy_that_weighs_nothing_expects_nothing() -> None:
    assert expectations(Threshold(), request(), learned_pair()) == {}
    assert expectations(Breakeven(), request(sampled=False), learned_pair()) == {}


def test_what_is_unknown_to_a_policy_is_none_and_not_zero() -> None:
    assert expectations(Breakeven(), request(), pair()) == {
        "baseline": Expected("base-0", 0.0),
        "speculative": Expected("spec-0", 0.0),
    }


def test_every_pool_says_what_is_expected_of_it_term_by_term() -> None:
    policy, state = Breakeven(explores=False), learned_pair(base=3, spec=1)
    explanation = explain(policy, request(0.7), state)
    base, spec = (verdict.expected for verdict in explanation.verdicts)
    assert base is not None
    assert spec is not None
    assert (base.backend, base.sequences, base.batch, base.measured) == ("base-0", 3.0, 3, True)
    assert (base.acceptance_length, base.acceptance_source) == (1.0, AcceptanceSource.PLAIN)
    assert base.step_time_s == pytest.approx(0.0204, rel=0.01)
    assert spec.acceptance_source is AcceptanceSource.TABLE
    assert base.own_s == pytest.approx((base.queue_s or 0) + (base.prefill_s or 0) + (base.decode_s or 0))
    assert base.total == pytest.approx((base.own_s or 0) + (base.harm_s or 0))
    decision = explanation.decision
    assert decision.prediction is not None
    assert decision.prediction.total == spec.total
    assert decision.prediction.runner_up_total == base.total
