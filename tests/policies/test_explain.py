"""The verdict on every pool beside the decision."""

from breakeven_policies.decision import Reason
from breakeven_policies.explain import explain
from breakeven_policies.snapshot import Health
from breakeven_policies.threshold import Threshold
from tests.policies.fleets import backend, fleet, plain, request, speculative


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
