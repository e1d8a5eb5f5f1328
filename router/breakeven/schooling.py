"""Whether the fleet learns, and what it is told of its pools: only where a policy that may decide wants it."""

from collections.abc import Iterator, Mapping

from breakeven.config import Settings
from breakeven.fleet import Fleet
from breakeven_policies.learning import Learning, PoolFacts
from breakeven_policies.measurement import Measurement
from breakeven_policies.policy import Policy
from breakeven_policies.table_prior import prior_of


def arrange_learning(
    fleet: Fleet, settings: Settings, current: Policy, measurements: Mapping[str, Measurement]
) -> None:
    """Have the fleet learn, or learn no more, by these settings; what was learned of a pool that stays so stays.

    `measurements`: what measured tables say of pools that they fit; learning begins there.
    """
    fleet.replicas = float(settings.replicas)
    if not any(getattr(policy, "learns", False) for policy in _deciding(settings, current)):
        fleet.learning = None
        return
    facts = facts_of(settings, measurements)
    hashes = {measurements[pool].hash for pool, known in facts.items() if known.prior is not None}
    table = ",".join(sorted(hashes)) or None
    if fleet.learning is None:
        fleet.learning = Learning(facts, table)
    else:
        fleet.learning.reconfigure(facts, table)


def facts_of(settings: Settings, measurements: Mapping[str, Measurement]) -> dict[str, PoolFacts]:
    """What is configured and measured of each pool."""
    facts = {}
    for pool in settings.pools:
        measurement = measurements.get(pool.name)
        prior = None if measurement is None else prior_of(measurement)
        dynamic = pool.identity().follows_batch
        facts[pool.name] = PoolFacts(pool.kind, pool.speculative_tokens, pool.max_num_seqs, prior, dynamic)
    return facts


def _deciding(settings: Settings, current: Policy) -> Iterator[Policy]:
    """Every policy that decides a request now, or may."""
    yield current
    yield from settings.build_shadows()
    choice = settings.policy_choice()
    if choice is not None:
        yield from choice.policies.values()
        yield from choice.by_alias.values()
