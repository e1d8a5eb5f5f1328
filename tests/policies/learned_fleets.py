"""A fleet of which all is known: a plain pool of 20 ms a step and a drafting one that makes 2.5 tokens in 24 ms."""

from msgspec.structs import replace

from breakeven_policies.curve import KNOTS, Curve
from breakeven_policies.learning import Learning, PoolFacts, PoolPrior
from breakeven_policies.snapshot import FleetSnapshot, PoolKind
from tests.policies.fleets import backend, fleet, plain, speculative


def learned_pair(base: int = 0, spec: int = 0) -> FleetSnapshot:
    """One plain and one speculative engine with so many requests, whose step times and acceptance are measured."""
    slow = Curve(tuple(0.020 * (1 + batch / 200) for batch in KNOTS))
    fast = Curve(tuple(0.024 * (1 + batch / 40) for batch in KNOTS))
    learning = Learning(
        {
            "baseline": PoolFacts(PoolKind.PLAIN, prior=PoolPrior(slow, prefill_s=1e-4)),
            "speculative": PoolFacts(
                PoolKind.SPECULATIVE, 5, prior=PoolPrior(fast, acceptance_length=2.5, prefill_s=1e-4)
            ),
        }
    )
    state = fleet(plain(backend("base-0", base)), speculative(backend("spec-0", spec)))
    return replace(state, learned=replace(learning.view(), now_s=state.now_s))
