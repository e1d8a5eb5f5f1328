"""The clock: arrivals, engines and scrapes in the order of their times."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from breakeven_bench.fleet_model.engine import Engine, Job
from breakeven_bench.fleet_model.pairs import Pool
from breakeven_bench.fleet_model.router import SCRAPE_EVERY_S, Router
from breakeven_bench.fleet_model.traffic import Arrival, Traffic
from breakeven_policies.decision import Decision, Refuse
from breakeven_policies.learning import Learning
from breakeven_policies.snapshot import FleetSnapshot

LOAD_PER_ENGINE_MAX = 800
"""A fleet with so many requests for each engine has lost: six times its slots. The run ends there."""


class Chooser(Protocol):
    """What decides. Only arms that are told the truth look at the arrival beyond its view."""

    def decide(self, arrival: Arrival, fleet: FleetSnapshot) -> Decision:
        """As `policy.Policy.decide`."""


MakeChooser = Callable[[Sequence[Engine], Traffic], Chooser]
"""An arm: it is made for every run, since the truth is that of the engines and requests of the run."""

MakeLearning = Callable[[Sequence[Arrival]], Learning | None]
"""How learning begins in each replica; None where nothing is learned."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Pools behind so many replicas of the router."""

    pools: tuple[Pool, ...]
    replicas: int = 1


@dataclass(frozen=True, slots=True)
class Served:
    """One request: when it came, to first token and to the end in seconds, tokens of its answer, and the engine."""

    index: int
    at_s: float
    ttft_s: float
    latency_s: float
    output_tokens: int
    engine: int


@dataclass(frozen=True, slots=True)
class Run:
    """Requests in order of arrival, those of a run that drowned cut off; `drowned` says so."""

    served: tuple[Served, ...]
    drowned: bool
    preemptions: int


def no_learning(arrivals: Sequence[Arrival]) -> None:  # as `MakeLearning`
    """For policies that need none."""


def simulate(
    fleet: Fleet,
    traffic: Traffic,
    make_chooser: MakeChooser,
    seed: int,
    make_learning: MakeLearning = no_learning,
) -> Run:
    """Serve the traffic; same arguments, same result."""
    return _Simulation(fleet, traffic, make_chooser, seed, make_learning).run()


class _Simulation:
    def __init__(
        self, fleet: Fleet, traffic: Traffic, make_chooser: MakeChooser, seed: int, make_learning: MakeLearning
    ) -> None:
        rng = np.random.default_rng((seed, 3))
        kinds = [pool.engine_kind() for pool in fleet.pools for _ in range(pool.backends)]
        self._engines = [
            Engine(kind, traffic.luck, np.random.default_rng((seed, 4, index)).standard_normal)
            for index, kind in enumerate(kinds)
        ]
        self._routers = [
            Router(fleet.pools, self._engines, fleet.replicas, make_learning(traffic.arrivals))
            for _ in range(fleet.replicas)
        ]
        self._entry = rng.integers(0, fleet.replicas, len(traffic.arrivals)).tolist()
        self._chooser = make_chooser(self._engines, traffic)
        self._arrivals = traffic.arrivals
        # Replicas scrape at moments of their own, evenly spread over the interval.
        self._scrape_at_s = [SCRAPE_EVERY_S * (number + 1) / fleet.replicas for number in range(fleet.replicas)]
        self._home: list[int] = [0] * len(traffic.arrivals)
        self._done: list[Served] = []

    def run(self) -> Run:
        """Until every request is served, or the fleet has drowned."""
        engines = self._engines
        load_max = LOAD_PER_ENGINE_MAX * len(engines)
        position, in_flight, drowned = 0, 0, False
        while True:
            arrival_s = self._arrivals[position].at_s if position < len(self._arrivals) else inf
            scrape_s = min(self._scrape_at_s)
            engine_s = min([engine.ends_s for engine in engines])
            if engine_s <= arrival_s and engine_s <= scrape_s:
                in_flight -= self._advance(engine_s)
            elif arrival_s <= scrape_s:
                self._arrive(self._arrivals[position])
                position += 1
                in_flight += 1
                if in_flight > load_max:
                    drowned = True
                    break
            elif engine_s == arrival_s == inf:
                break
            else:
                replica = self._scrape_at_s.index(scrape_s)
                self._routers[replica].scrape(scrape_s)
                self._scrape_at_s[replica] += SCRAPE_EVERY_S
        self._done.sort(key=lambda served: served.index)
        return Run(tuple(self._done), drowned, sum(engine.preemptions for engine in engines))

    def _arrive(self, arrival: Arrival) -> None:
        router = self._routers[self._entry[arrival.index]]
        decision = self._chooser.decide(arrival, router.snapshot(arrival.at_s))
        if isinstance(decision, Refuse):
            message = f"a fleet of ready engines refused a request: {decision.refusal}"
            raise ValueError(message)
        engine = router.engine_of(decision.ranking[0].backend)
        self._home[arrival.index] = engine
        job = Job(arrival)
        router.sent(job, engine)
        self._engines[engine].add(job, arrival.at_s)

    def _advance(self, now_s: float) -> int:
        """End the stretches that end now; returns how many requests finished."""
        finished = 0
        for engine in self._engines:
            if engine.ends_s == now_s:
                for job in engine.advance():
                    self._finish(job, now_s)
                    finished += 1
        return finished

    def _finish(self, job: Job, now_s: float) -> None:
        arrival = job.arrival
        engine = self._home[arrival.index]
        self._routers[self._entry[arrival.index]].ended(job, engine, now_s)
        ttft_s = (job.first_token_s or now_s) - arrival.at_s
        self._done.append(
            Served(arrival.index, arrival.at_s, ttft_s, now_s - arrival.at_s, arrival.output_tokens, engine)
        )
