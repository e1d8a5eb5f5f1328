"""What is done to which engine when: drawn from a seed, so that a run can be repeated."""

import random
from dataclasses import dataclass
from enum import StrEnum


class Harm(StrEnum):
    KILL = "killed"
    RESTART = "restarted"
    FREEZE = "frozen"
    HICCUP = "frozen shortly"
    SLOW = "slowed"


SECONDS = {
    Harm.KILL: (0.3, 2.5),
    Harm.RESTART: (0.4, 1.0),
    Harm.FREEZE: (6.0, 8.0),
    Harm.HICCUP: (0.2, 1.2),
    Harm.SLOW: (1.0, 3.0),
}
"""How long each lasts: a freeze longer than the router waits for a first byte or the next event, a hiccup shorter."""

REST_S = (1.0, 7.0)
"""How long an engine is left alone in between: so short that all of a pool are gone at once now and then, so long that
most requests are served.
"""

CALM_S = 3.0
"""The end of a run, in which nothing more is done to anybody."""


@dataclass(frozen=True, slots=True)
class Blow:
    """One harm, begun `at_s` after the start of the run."""

    engine: str
    harm: Harm
    at_s: float
    lasts_s: float


@dataclass(frozen=True, slots=True)
class Outage:
    """When an engine could not serve, by the driver's clock: from just before the signal until it served again."""

    engine: str
    harm: Harm
    from_s: float
    to_s: float


def blows(seed, engines, seconds, rest_s=REST_S):
    """The plan, in order of time. Every engine meets every harm before it meets one again."""
    plan = []
    for engine in engines:
        chance = random.Random(f"{seed} {engine}")  # noqa: S311  # to be repeated
        at_s, deck = 0.0, []
        while True:
            if not deck:
                deck = chance.sample(list(Harm), len(Harm))
            harm = deck.pop()
            at_s += chance.uniform(*rest_s)
            lasts_s = chance.uniform(*SECONDS[harm])
            if at_s + lasts_s > seconds - CALM_S:
                break
            plan.append(Blow(engine, harm, at_s, lasts_s))
            at_s += lasts_s
    return sorted(plan, key=lambda blow: blow.at_s)
