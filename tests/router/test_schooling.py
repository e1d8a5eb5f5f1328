"""The fleet learns only where a policy that may decide wants it."""

import pytest

from breakeven.config import Settings
from breakeven.fleet import Fleet
from breakeven.schooling import arrange_learning, facts_of
from breakeven_policies.learning import Observed
from breakeven_policies.snapshot import PoolKind

POOLS = [
    {"name": "base", "kind": "plain", "backends": ["http://x:1"], "max_num_seqs": 64},
    {"name": "spec", "kind": "speculative", "backends": ["http://x:2"], "method": "eagle3", "speculative_tokens": 3},
]


def arranged(fleet: Fleet | None = None, **changes: object) -> Fleet:
    settings = Settings(pools=POOLS, **changes)
    fleet = fleet or Fleet(settings.pool_specs())
    arrange_learning(fleet, settings, settings.build_policy(), {})
    return fleet


def test_where_no_policy_learns_nobody_does() -> None:
    assert arranged(policy="threshold", shadow=["least_loaded"]).learning is None


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "breakeven"},
        {"policy": "breakeven:throughput"},
        {"shadow": ["breakeven"]},
        {"policy_header": "x-policy", "policy_choices": ["breakeven"]},
        {"aliases": {"fast": "m"}, "alias_policies": {"fast": "breakeven"}},
    ],
)
def test_a_policy_that_may_decide_is_enough(settings: dict[str, object]) -> None:
    fleet = arranged(**settings)
    assert fleet.learning is not None
    assert fleet.snapshot(1.0).learned is fleet.learning.view()


def test_another_configuration_leaves_what_was_learned_and_ends_the_learning_where_nobody_wants_it() -> None:
    fleet = arranged(policy="breakeven")
    learning = fleet.learning
    assert learning is not None
    learning.observe(Observed("base", "t0/short/free", 1.0, batch=1.0, events=20, decode_s=1.0))
    assert arranged(fleet, policy="breakeven", replicas=4).learning is learning
    assert learning.view().pools.keys() == {"base"}
    assert fleet.snapshot(1.0).replicas == 4.0
    assert arranged(fleet).learning is None
    assert fleet.snapshot(1.0).learned is None


def test_what_is_configured_of_a_pool_is_what_learning_knows_of_it() -> None:
    facts = facts_of(Settings(pools=POOLS), {})
    assert (facts["base"].kind, facts["base"].slots, facts["base"].prior) == (PoolKind.PLAIN, 64, None)
    assert (facts["spec"].speculative_tokens, facts["spec"].slots, facts["spec"].dynamic) == (3, None, False)
