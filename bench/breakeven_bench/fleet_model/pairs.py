"""The fleets that are compared: pairs of engines of two kinds, four pools of two, and the same engines unsplit."""

from dataclasses import dataclass

from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, EngineKind, KindName, engine_kind
from breakeven_policies.snapshot import PoolKind

K3, K5, PLAIN, DYNAMIC = KindName.K3, KindName.K5, KindName.PLAIN, KindName.DYNAMIC


@dataclass(frozen=True, slots=True)
class Pool:
    """`backends` engines of one kind under one name."""

    name: str
    kind: KindName
    backends: int

    @property
    def pool_kind(self) -> PoolKind:
        """What the router is told of it."""
        return PoolKind.PLAIN if self.kind is PLAIN else PoolKind.SPECULATIVE

    def engine_kind(self) -> EngineKind:
        """What its engines are."""
        return engine_kind(self.kind)


@dataclass(frozen=True, slots=True)
class Pair:
    """A fleet and the rates at which it is judged, from idle to more than it carries, in requests per second."""

    name: str
    title: str
    pools: tuple[Pool, ...]
    rates: tuple[float, ...]

    @property
    def engines(self) -> int:
        """Engines of all pools."""
        return sum(pool.backends for pool in self.pools)

    @property
    def splits_plain_and_speculative(self) -> bool:
        """Whether the rule by temperature has two sides here: exactly one plain pool and one other."""
        return sorted(pool.pool_kind for pool in self.pools) == [PoolKind.PLAIN, PoolKind.SPECULATIVE]


RATES = (0.5, 2.0, 4.0, 6.0, 7.0, 8.0, 10.0, 12.0)
"""For two engines: those of design section 1, one between, and one above what the best fleet carries."""

RATES_OF_EIGHT = tuple(4.0 * rate for rate in RATES)

PAIRS: dict[str, Pair] = {
    pair.name: pair
    for pair in (
        Pair("plain-k5", "plain + k=5", (Pool("plain", PLAIN, 1), Pool("spec", K5, 1)), RATES),
        Pair("plain-k3", "plain + k=3", (Pool("plain", PLAIN, 1), Pool("spec", K3, 1)), RATES),
        Pair("plain-dynamic", "plain + dynamic", (Pool("plain", PLAIN, 1), Pool("spec", DYNAMIC, 1)), RATES),
        Pair("two-k3", "two k=3", (Pool("spec", K3, 2),), RATES),
        Pair(
            "four-pools",
            "four pools of two",
            (Pool("plain", PLAIN, 2), Pool("k3", K3, 2), Pool("k5", K5, 2), Pool("dynamic", DYNAMIC, 2)),
            RATES_OF_EIGHT,
        ),
    )
}


def unsplit(kind: KindName, engines: int) -> tuple[Pool, ...]:
    """The same hardware with engines of one kind only."""
    return (Pool(kind.value, kind, engines),)


def slots(pools: tuple[Pool, ...]) -> int:
    """Sequences that all engines hold together."""
    return SEQUENCES_MAX * sum(pool.backends for pool in pools)
