"""The arms of the simulation: a fleet, and who decides on it.

The policies of `breakeven_policies` are asked as the router asks them. Arms that are told the truth show what is left
to learn, and what a cost without harm to others is worth. The equal-hardware arms use as many engines unsplit: a policy
that gains against a bad use of its own fleet has gained nothing if equal engines would have done better.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from breakeven_bench.fleet_model.engine import Engine
from breakeven_bench.fleet_model.kinds import KindName
from breakeven_bench.fleet_model.learner import Table, learning_with
from breakeven_bench.fleet_model.pairs import Pair, Pool, unsplit
from breakeven_bench.fleet_model.rule import TrueCost, curve_of, means_of
from breakeven_bench.fleet_model.simulation import Chooser, Fleet, MakeChooser, MakeLearning, no_learning
from breakeven_bench.fleet_model.traffic import Arrival, Traffic
from breakeven_policies.decision import Decision
from breakeven_policies.policy import Policy
from breakeven_policies.registry import build_policy
from breakeven_policies.snapshot import FleetSnapshot

TOLD = "told"
TOLD_OWN = "told-own-cost"
"""Arms that are no policies: `rule.TrueCost` with and without harm."""


@dataclass(frozen=True, slots=True)
class Arm:
    """`decides` is a policy as configured, or one that is told the truth; `table` is where a learning one begins."""

    name: str
    title: str
    fleet: Fleet
    decides: str
    equal_hardware: bool = False
    table: Table = Table.NONE


@dataclass(frozen=True, slots=True)
class _ByPolicy:
    """A policy sees the view of a request and nothing else."""

    policy: Policy

    def decide(self, arrival: Arrival, fleet: FleetSnapshot) -> Decision:
        return self.policy.decide(arrival.view, fleet)


def arms_of(pair: Pair) -> tuple[Arm, ...]:
    """Every arm of a pair, in the order of the tables."""
    fleet = Fleet(pair.pools)
    arms = [Arm(f"all-{pool.name}", f"all on {pool.name}", fleet, f"pinned:{pool.name}") for pool in pair.pools]
    arms = arms if len(arms) > 1 else []
    arms += [
        Arm("threshold", "threshold (T > 1.0)", fleet, "threshold"),
        Arm("least-loaded", "least loaded", fleet, "least_loaded"),
        Arm("own-cost", "own cost only, told", fleet, TOLD_OWN),
        Arm("breakeven", "breakeven", fleet, "breakeven", table=Table.MEASURED),
        Arm("told", "breakeven, told", fleet, TOLD),
    ]
    return (*arms, *equal_hardware(pair.engines))


def scenarios_of(pair: Pair) -> tuple[Arm, ...]:
    """The policy in worse conditions; the warm-up of a run is the time it has to find its way."""
    fleet, four = Fleet(pair.pools), Fleet(pair.pools, replicas=4)
    return (
        Arm("breakeven-cold", "breakeven, no table", fleet, "breakeven"),
        Arm("breakeven-wrong", "breakeven, wrong table", fleet, "breakeven", table=Table.WRONG),
        Arm("breakeven-four", "breakeven, four replicas", four, "breakeven", table=Table.MEASURED),
    )


def equal_hardware(engines: int) -> tuple[Arm, ...]:
    """The same number of engines of one kind, least loaded."""
    return tuple(
        Arm(f"equal-{kind.name.lower()}", f"all {kind.value}", Fleet(unsplit(kind, engines)), "least_loaded", True)
        for kind in (KindName.PLAIN, KindName.K3, KindName.DYNAMIC)
    )


def learning_of(arm: Arm) -> MakeLearning:
    """What the arm's policy learns from, if it learns."""
    if arm.decides in (TOLD, TOLD_OWN) or not getattr(build_policy(arm.decides), "learns", False):
        return no_learning
    return learning_with(arm.table, arm.fleet.pools)


def chooser_of(arm: Arm) -> MakeChooser:
    """What decides for this arm, made anew for every run."""
    if arm.decides in (TOLD, TOLD_OWN):
        return lambda engines, traffic: _told(arm, engines, traffic)
    policy = build_policy(arm.decides)
    return lambda engines, traffic: _ByPolicy(policy)  # noqa: ARG005  # a policy is told nothing of them


def _told(arm: Arm, engines: Sequence[Engine], traffic: Traffic) -> Chooser:
    means = means_of(traffic.arrivals)
    pools: tuple[Pool, ...] = arm.fleet.pools
    curves = tuple(curve_of(pool.engine_kind(), means) for pool in pools)
    return TrueCost(curves, engines, means, arm.fleet.replicas, arm.decides == TOLD, arm.name)
