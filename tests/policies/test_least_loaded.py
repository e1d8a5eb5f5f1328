"""Load alone decides, among those that would accept the request."""

import pytest

from breakeven_policies.decision import Reason, Route, Target
from breakeven_policies.least_loaded import LeastLoaded, build
from tests.policies.fleets import backend, fleet, plain, request, speculative

LOADED = fleet(plain(backend("base-0", 3)), speculative(backend("spec-0", 2)))


def test_the_less_loaded_engine_is_chosen_whatever_its_kind() -> None:
    decision = LeastLoaded().decide(request(1.5), LOADED)
    assert decision == Route(
        (Target("speculative", "spec-0"), Target("baseline", "base-0")), Reason.LEAST_LOADED, "least_loaded"
    )


def test_a_speculative_engine_that_would_refuse_is_left_out_however_idle() -> None:
    decision = LeastLoaded().decide(request(has_logit_bias=True), LOADED)
    assert [target.backend for target in decision.ranking] == ["base-0"]


def test_an_argument_is_an_error() -> None:
    assert build(None, 1.0) == LeastLoaded()
    with pytest.raises(ValueError, match="no argument"):
        build("x", 1.0)
