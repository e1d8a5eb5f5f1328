"""Small fleets and requests for the tests of the fleet model."""

import numpy as np

from breakeven_bench.fleet_model.engine import Engine, Job
from breakeven_bench.fleet_model.kinds import engine_kind
from breakeven_bench.fleet_model.traffic import Arrival, Asked, traffic
from breakeven_bench.fleet_model.worlds import WORLDS

LUCK = np.random.default_rng(5).exponential(1.0, 100_000)


def arrival(index=0, at_s=0.0, prompt_tokens=100, output_tokens=200, acceptance=0.7, category="code", tells_usage=True):
    asked = [Asked(at_s, category, prompt_tokens, output_tokens)]
    view = traffic(asked, WORLDS["flat"], 1).arrivals[0].view
    return Arrival(index, at_s, category, prompt_tokens, output_tokens, acceptance, 97 * index, view, tells_usage)


def engine(name, jitter=lambda: 0.0, **changes):
    kind = engine_kind(name)
    if changes:
        kind = type(kind)(
            **{field: changes.get(field, getattr(kind, field)) for field in type(kind).__dataclass_fields__}
        )
    return Engine(kind, LUCK, jitter)


def serve(engine, arrivals):
    """All jobs in order of their end."""
    waiting = sorted(arrivals, key=lambda each: each.at_s)
    finished = []
    while waiting or engine.load:
        if waiting and waiting[0].at_s < engine.ends_s:
            first = waiting.pop(0)
            engine.add(Job(first), first.at_s)
        else:
            finished += engine.advance()
    return finished
