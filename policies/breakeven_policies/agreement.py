"""Whether two policies decided alike: what the router counts of its shadows and the suite of a replayed journal."""

from enum import StrEnum

from breakeven_policies.decision import Decision, Refuse, Route


class Agreement(StrEnum):
    """How a decision stands to another one about the same request, by the first of each ranking."""

    SAME = "same"
    OTHER_BACKEND = "other_backend"
    """Another engine of the same pool: they agree about the pools."""
    OTHER_POOL = "other_pool"
    OTHER_REFUSAL = "other_refusal"
    """One refuses what the other routes, or both refuse for different reasons."""

    @property
    def same_pool(self) -> bool:
        """Whether both have the request served by engines of one kind, or not at all."""
        return self in (Agreement.SAME, Agreement.OTHER_BACKEND)


SAME, OTHER_BACKEND, OTHER_POOL = Agreement.SAME, Agreement.OTHER_BACKEND, Agreement.OTHER_POOL


def agreement(one: Decision, other: Decision) -> Agreement:
    """How two decisions about one request on one fleet stand to each other; names of policies and reasons aside."""
    if isinstance(one, Route) and isinstance(other, Route):
        first, second = one.ranking[0], other.ranking[0]
        if first.backend == second.backend:
            return SAME
        return OTHER_BACKEND if first.pool == second.pool else OTHER_POOL
    if isinstance(one, Refuse) and isinstance(other, Refuse) and one.refusal is other.refusal:
        return SAME
    return Agreement.OTHER_REFUSAL


def wanted_pool(decision: Decision) -> str | None:
    """The pool of the first of the ranking; None: it refuses."""
    return decision.ranking[0].pool if isinstance(decision, Route) else None


def regret(done: Decision, preferred: Decision) -> float | None:
    """How much better `preferred` is than what was done, by the figures of the policy that prefers it; at least 0.

    The unit is that of its totals, request-seconds where its objective is latency. None: it has no figures for what was
    done. Its runner-up is that where there are two pools; with more, what was done may carry a prediction of its own.
    """
    if not (isinstance(done, Route) and isinstance(preferred, Route)) or preferred.prediction is None:
        return None
    prediction, pool = preferred.prediction, done.ranking[0].pool
    if pool == preferred.ranking[0].pool:
        return 0.0
    runner_up, total = prediction.runner_up, prediction.runner_up_total
    if runner_up is None or runner_up.pool != pool:
        total = None if done.prediction is None else done.prediction.total
    return None if total is None else max(0.0, total - prediction.total)
