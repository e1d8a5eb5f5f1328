"""What the router's learning is given: what a configuration says of the pools, a measured table, and observations.

The reducer is that of `breakeven_policies.learning`; here stands what feeds it, in the place of a real router. What a
router cannot see it is not told: answer lengths only of clients that ask for `usage`, batches from its own requests and
the last scrape.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum

from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, EngineKind, KindName
from breakeven_bench.fleet_model.pairs import Pool
from breakeven_bench.fleet_model.rule import means_of
from breakeven_bench.fleet_model.traffic import Arrival
from breakeven_bench.fleet_model.worlds import tokens_per_step
from breakeven_policies.curve import KNOTS, Curve, curve_of
from breakeven_policies.learning import Learning, PoolFacts, PoolPrior
from breakeven_policies.workload import workload_of

CALIBRATION_REQUESTS = 200
"""Requests from which a measured table has its acceptances: some twenty of each class, a quarter of an hour's bench."""


class Table(StrEnum):
    """The measured table that a run begins with."""

    NONE = "none"
    MEASURED = "measured"
    WRONG = "wrong"
    """Step times of the plain pools doubled and of the others halved, acceptance off by `WRONG_ACCEPTANCE`."""


WRONG_STEP = 2.0
WRONG_ACCEPTANCE = 0.2
"""Added to the acceptance of the speculative pools: both errors speak for the wrong pool."""


def learning_with(table: Table, pools: Sequence[Pool]) -> Callable[[Sequence[Arrival]], Learning]:
    """How a replica's learning begins, for the requests of a run."""

    def begin(arrivals: Sequence[Arrival]) -> Learning:
        measured = arrivals[:CALIBRATION_REQUESTS]
        facts = {pool.name: facts_of(table, pool, measured) for pool in pools}
        return Learning(facts, None if table is Table.NONE else table.value)

    return begin


def facts_of(table: Table, pool: Pool, measured: Sequence[Arrival]) -> PoolFacts:
    """What is configured of a pool, and what the table says of it, measured with these requests."""
    kind = pool.engine_kind()
    prior = None if table is Table.NONE else _prior(kind, measured, wrong=table is Table.WRONG)
    is_dynamic = kind.name is KindName.DYNAMIC
    return PoolFacts(pool.pool_kind, kind.draft_tokens, SEQUENCES_MAX, prior, is_dynamic)


def _prior(kind: EngineKind, measured: Sequence[Arrival], *, wrong: bool) -> PoolPrior:
    means = means_of(measured)
    plain = kind.draft_tokens == 0
    factor = (WRONG_STEP if plain else 1.0 / WRONG_STEP) if wrong else 1.0
    shift = WRONG_ACCEPTANCE if wrong else 0.0
    batches = [knot for knot in KNOTS if knot <= SEQUENCES_MAX]
    points = [(batch, factor * kind.decode_step_s(batch, batch * means.context_tokens)) for batch in batches]
    step_s = curve_of(points)
    prompt_token_s = factor * kind.prompt_token_s
    if plain:
        return PoolPrior(step_s, prefill_s=prompt_token_s)
    lengths: dict[str, list[float]] = {}
    for arrival in measured:
        length = tokens_per_step(min(0.99, arrival.acceptance + shift), kind.draft_tokens)
        lengths.setdefault(workload_of(arrival.view), []).append(length)
    overall = _mean([length for of_class in lengths.values() for length in of_class])
    by_class = {workload: _mean(of_class) for workload, of_class in lengths.items()}
    return PoolPrior(step_s, by_class, overall, prompt_token_s, _draft_share(kind, measured))


def _draft_share(kind: EngineKind, measured: Sequence[Arrival]) -> Curve | None:
    """What is left of the tokens beyond one where the engine drafts less in a larger batch."""
    if kind.name is not KindName.DYNAMIC:
        return None
    beyond = {
        drafts: _mean([tokens_per_step(arrival.acceptance, drafts) for arrival in measured]) - 1.0
        for drafts in set(kind.drafts_by_batch)
    }
    most = beyond[kind.draft_tokens]
    return Curve(tuple(beyond[kind.drafts_by_batch[min(knot, SEQUENCES_MAX)]] / most for knot in KNOTS))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
