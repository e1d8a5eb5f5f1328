"""When a request needs an engine without speculation."""

import pytest

from tests.policies.fleets import request


@pytest.mark.parametrize(
    ("changes", "needs_plain"),
    [
        ({"min_p": 0.05}, True),
        ({"min_p": 2e-5}, True),
        ({"min_p": 1e-5}, False),
        ({"min_p": 0.05, "temperature": 0.0}, False),
        ({"has_logit_bias": True}, True),
        ({"has_logit_bias": True, "temperature": 0.0}, True),
        ({}, False),
    ],
)
def test_min_p_above_the_engines_epsilon_and_logit_bias_do(changes: dict[str, object], needs_plain: bool) -> None:
    assert request(**changes).needs_plain_sampling is needs_plain
