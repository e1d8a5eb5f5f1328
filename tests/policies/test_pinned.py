"""Everything to one pool, except what that pool would refuse or cannot serve at all."""

import pytest

from breakeven_policies.decision import Reason, Route, Target
from breakeven_policies.pinned import build
from breakeven_policies.snapshot import Health
from tests.policies.fleets import backend, fleet, pair, plain, request, speculative


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_temperature_makes_no_difference(temperature: float) -> None:
    decision = build("speculative", 1.0).decide(request(temperature), pair())
    assert decision == Route(
        (Target("speculative", "spec-0"), Target("baseline", "base-0")), Reason.PINNED, "pinned:speculative"
    )


def test_what_the_pool_would_refuse_goes_elsewhere_by_capability() -> None:
    decision = build("speculative", 1.0).decide(request(min_p=0.1), pair())
    assert decision == Route((Target("baseline", "base-0"),), Reason.CAPABILITY, "pinned:speculative")


def test_a_dead_pool_loses_no_request() -> None:
    state = fleet(plain(backend("base-0", health=Health.DOWN)), speculative(backend("spec-0")))
    decision = build("baseline", 1.0).decide(request(1.5), state)
    assert decision == Route((Target("speculative", "spec-0"),), Reason.HEALTH, "pinned:baseline")


@pytest.mark.parametrize("argument", [None, ""])
def test_it_needs_the_name_of_a_pool(argument: str | None) -> None:
    with pytest.raises(ValueError, match="pinned:POOL"):
        build(argument, 1.0)
