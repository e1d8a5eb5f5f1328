"""When to come again where nothing can serve."""

import pytest

from breakeven.retry_after import EJECTED_S, LOADING_S, retry_after_s
from breakeven_policies.snapshot import Health
from tests.policies.fleets import backend, fleet, plain

DOWN, LOADING, EJECTED, READY = Health.DOWN, Health.LOADING, Health.EJECTED, Health.READY


@pytest.mark.parametrize(
    ("healths", "interval_s", "seconds"),
    [
        ([], 1.0, 1),
        ([DOWN, LOADING], 0.2, 1),
        ([DOWN], 2.5, 3),
        ([LOADING], 1.0, LOADING_S),
        ([LOADING], 30.0, 30),
        ([EJECTED, LOADING], 1.0, EJECTED_S),
        ([READY, LOADING], 1.0, LOADING_S),
    ],
)
def test_the_client_comes_again_when_the_first_engine_may_be_back(
    healths: list[Health], interval_s: float, seconds: int
) -> None:
    backends = [backend(f"b{number}", health=health) for number, health in enumerate(healths)]
    assert retry_after_s(fleet(plain(*backends)), interval_s) == seconds
