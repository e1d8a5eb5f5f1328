"""`breakeven.policy_in_force`: a switch holds until a later word, and never leaves the router without a policy."""

import pytest

from breakeven.config import Settings
from breakeven.policy_in_force import PolicyInForce


def settings(**changes: object) -> Settings:
    return Settings(**{"baseline": ["http://127.0.0.1:1"], "speculative": ["http://127.0.0.1:2"], **changes})


def reconfigured(in_force: PolicyInForce, /, **changes: object) -> list[str]:
    warned: list[str] = []
    in_force.reconfigure(settings(**changes), warned.append)
    return warned


@pytest.mark.parametrize("spec", ["fastest", "pinned:nowhere", "pinned", "threshold:hot", ""])
def test_what_cannot_be_switched_to_changes_nothing(spec: str) -> None:
    policy = PolicyInForce(settings())
    policy.switch("least_loaded")
    with pytest.raises(ValueError, match=r"policy|pool|threshold|could not"):
        policy.switch(spec)
    assert (policy.current.name, policy.switched_to) == ("least_loaded", "least_loaded")


def test_a_switch_decides_until_it_is_taken_back() -> None:
    policy = PolicyInForce(settings())
    policy.switch("pinned:baseline")
    assert (policy.current.name, policy.configured.name) == ("pinned:baseline", "threshold")
    policy.switch(None)
    assert (policy.current.name, policy.switched_to) == ("threshold", None)


def test_a_reload_for_another_reason_leaves_the_switch_and_builds_it_anew() -> None:
    policy = PolicyInForce(settings(policy="least_loaded"))
    policy.switch("threshold")
    assert reconfigured(policy, policy="least_loaded", threshold=0.5, log_level="debug") == []
    assert (policy.switched_to, policy.current.temperature_max) == ("threshold", 0.5)
    assert policy.configured.name == "least_loaded"


def test_a_policy_that_is_configured_later_wins() -> None:
    policy = PolicyInForce(settings())
    policy.switch("least_loaded")
    (warning,) = reconfigured(policy, policy="pinned:baseline")
    assert "pinned:baseline" in warning
    assert (policy.current.name, policy.switched_to) == ("pinned:baseline", None)


def test_a_switch_to_a_pool_that_is_gone_ends() -> None:
    policy = PolicyInForce(settings())
    policy.switch("pinned:speculative")
    (warning,) = reconfigured(policy, speculative=[])
    assert "there is no pool 'speculative'" in warning
    assert (policy.current.name, policy.switched_to) == ("threshold", None)


def test_without_a_switch_the_configured_policy_is_the_one_in_force() -> None:
    policy = PolicyInForce(settings())
    assert reconfigured(policy, threshold=0.3) == []
    assert policy.current is policy.configured
    assert policy.current.temperature_max == 0.3
