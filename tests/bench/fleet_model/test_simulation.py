"""The clock: every request once, the same run from the same seed, drowning noticed."""

import pytest

from breakeven_bench.fleet_model import simulation
from breakeven_bench.fleet_model.arms import arms_of, chooser_of
from breakeven_bench.fleet_model.kinds import KindName
from breakeven_bench.fleet_model.pairs import PAIRS, unsplit
from breakeven_bench.fleet_model.simulation import Fleet, simulate
from breakeven_bench.fleet_model.traffic import mixed, traffic
from breakeven_bench.fleet_model.worlds import WORLDS
from breakeven_policies.decision import Refusal, Refuse

LEAST_LOADED = next(arm for arm in arms_of(PAIRS["plain-k3"]) if arm.name == "least-loaded")


def run(rate=3.0, count=120, seed=1, fleet=LEAST_LOADED.fleet):
    return simulate(fleet, traffic(mixed(count, rate, seed), WORLDS["falls"], seed), chooser_of(LEAST_LOADED), seed)


def test_a_refusal_is_a_fault_of_the_simulation_and_not_passed_over():
    class Refuses:
        def decide(self, arrival, fleet):
            return Refuse(Refusal.NO_READY_BACKEND, "mine")

    with pytest.raises(ValueError, match="refused"):
        simulate(Fleet(PAIRS["plain-k3"].pools), traffic(mixed(1, 1.0, 1), WORLDS["flat"], 1), lambda *_: Refuses(), 1)


def test_every_request_is_served_once_and_later_than_it_came():
    served = run().served
    assert [each.index for each in served] == list(range(120))
    assert all(0.0 < each.ttft_s <= each.latency_s for each in served)


def test_one_seed_is_one_run():
    assert run(seed=2) == run(seed=2) != run(seed=3)


def test_replicas_share_engines_and_know_only_their_own_requests():
    several = run(fleet=Fleet(LEAST_LOADED.fleet.pools, replicas=4))
    assert len(several.served) == 120
    assert several != run()


def test_a_fleet_that_drowns_is_given_up(monkeypatch):
    monkeypatch.setattr(simulation, "LOAD_PER_ENGINE_MAX", 20)
    flooded = run(rate=200.0, count=400)
    assert flooded.drowned
    assert len(flooded.served) < 400


def test_latency_grows_with_load():
    means = [
        sum(each.latency_s for each in served) / len(served)
        for served in (run(rate, fleet=Fleet(unsplit(KindName.PLAIN, 2))).served for rate in (0.5, 8.0))
    ]
    assert means[0] < means[1]
