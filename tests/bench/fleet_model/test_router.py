"""A replica's picture of the fleet: its own requests at once, everything else as old as the last scrape."""

from breakeven_bench.fleet_model.engine import Job
from breakeven_bench.fleet_model.kinds import KindName
from breakeven_bench.fleet_model.pairs import PAIRS
from breakeven_bench.fleet_model.router import Router
from tests.bench.fleet_model.fleets import arrival, engine


def router():
    engines = [engine(KindName.PLAIN), engine(KindName.K5)]
    return Router(PAIRS["plain-k5"].pools, engines), engines


def backends(router, now_s=0.0):
    return {view.name: view for pool in router.snapshot(now_s).pools for view in pool.backends}


def test_before_the_first_scrape_nothing_is_known_of_engines():
    view = backends(router()[0])["spec-0"]
    assert (view.signals, view.scraped_at_s, view.in_flight) == (None, None, 0)


def test_own_requests_count_at_once_and_those_of_others_from_the_next_scrape():
    ours, engines = router()
    engines[1].add(Job(arrival(0)), 0.0)
    ours.sent(1)
    engines[1].add(Job(arrival(1)), 0.0)
    assert backends(ours)["spec-0"].load == 1
    ours.scrape(1.0)
    assert backends(ours)["spec-0"].load == 2
    ours.sent(1)
    view = backends(ours)["spec-0"]
    assert (view.load, view.in_flight, view.in_flight_at_scrape, view.scraped_at_s) == (3, 2, 1, 1.0)
    ours.ended(1)
    assert backends(ours)["spec-0"].load == 2


def test_a_policy_is_told_what_is_configured_and_no_more():
    snapshot = router()[0].snapshot(4.0)
    assert snapshot.now_s == 4.0
    assert [(pool.name, pool.method, pool.speculative_tokens) for pool in snapshot.pools] == [
        ("plain", "none", 0),
        ("spec", "eagle3", 5),
    ]


def test_backends_are_found_by_name():
    assert router()[0].engine_of("spec-0") == 1
