"""A replica's picture of the fleet: its own requests at once, everything else as old as the last scrape."""

from breakeven_bench.fleet_model.engine import Job
from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, KindName
from breakeven_bench.fleet_model.pairs import PAIRS
from breakeven_bench.fleet_model.router import Router
from tests.bench.fleet_model.fleets import arrival, engine, serve


def router(replicas=1, learning=None):
    engines = [engine(KindName.PLAIN), engine(KindName.K5)]
    return Router(PAIRS["plain-k5"].pools, engines, replicas, learning), engines


class Learns:
    """A reducer that only listens."""

    def __init__(self):
        self.observed = []
        self.pages = []

    def observe(self, observed):
        self.observed.append(observed)

    def scraped(self, pool, before, after, seconds, now_s):
        self.pages.append((pool, before, after, seconds, now_s))

    def view(self):
        return "learned"


def finished(index=0, **how):
    (job,) = serve(engine(KindName.K5), [arrival(index, output_tokens=100, **how)])
    return job


def backends(router, now_s=0.0):
    return {view.name: view for pool in router.snapshot(now_s).pools for view in pool.backends}


def test_before_the_first_scrape_nothing_is_known_of_engines():
    view = backends(router()[0])["spec-0"]
    assert (view.signals, view.scraped_at_s, view.in_flight) == (None, None, 0)


def test_own_requests_count_at_once_and_those_of_others_from_the_next_scrape():
    ours, engines = router()
    engines[1].add(Job(arrival(0)), 0.0)
    ours.sent(Job(arrival(0)), 1)
    engines[1].add(Job(arrival(1)), 0.0)
    assert backends(ours)["spec-0"].load == 1
    ours.scrape(1.0)
    assert backends(ours)["spec-0"].load == 2
    ours.sent(Job(arrival(2)), 1)
    view = backends(ours)["spec-0"]
    assert (view.load, view.in_flight, view.in_flight_at_scrape, view.scraped_at_s) == (3, 2, 1, 1.0)
    ours.ended(Job(arrival(2)), 1, 1.5)
    assert backends(ours)["spec-0"].load == 2


def test_a_policy_is_told_what_is_configured_and_no_more():
    snapshot = router()[0].snapshot(4.0)
    assert snapshot.now_s == 4.0
    assert [(pool.name, pool.method, pool.speculative_tokens) for pool in snapshot.pools] == [
        ("plain", "none", 0),
        ("spec", "eagle3", 5),
    ]


def test_where_nobody_learns_nothing_is_learned():
    assert router()[0].snapshot(0.0).learned is None


def test_learning_hears_what_a_router_can_see_of_a_request_and_no_more():
    learns = Learns()
    ours, _ = router(learning=learns)
    jobs = [finished(0), finished(1)]
    for job in jobs:
        ours.sent(job, 1)
    ours.ended(jobs[0], 1, jobs[0].finished_s)
    (seen,) = learns.observed
    assert (seen.pool, seen.batch, seen.events) == ("spec", 1.5, jobs[0].pulls)
    assert (seen.completion_tokens, seen.acceptance_length) == (100, None)
    assert seen.ttft_s + seen.decode_s == jobs[0].finished_s


def test_who_asks_for_no_usage_tells_no_tokens():
    learns = Learns()
    ours, _ = router(learning=learns)
    job = finished(tells_usage=False)
    ours.sent(job, 0)
    ours.ended(job, 0, job.finished_s)
    assert (learns.observed[0].completion_tokens, learns.observed[0].prompt_tokens) == (None, None)
    assert learns.observed[0].events == job.pulls


def test_more_requests_than_slots_are_a_full_batch():
    learns = Learns()
    ours, _ = router(learning=learns)
    job = finished()
    for _ in range(2 * SEQUENCES_MAX):
        ours.sent(job, 0)
    ours.ended(job, 0, 1.0)
    assert learns.observed[0].batch == SEQUENCES_MAX


def test_two_pages_of_an_engine_are_told_together():
    learns = Learns()
    ours, _ = router(replicas=4, learning=learns)
    ours.scrape(1.0)
    assert learns.pages == []
    ours.scrape(2.0)
    assert [(pool, seconds, now_s) for pool, _, _, seconds, now_s in learns.pages] == [
        ("plain", 1.0, 2.0),
        ("spec", 1.0, 2.0),
    ]
    snapshot = ours.snapshot(2.5)
    assert (snapshot.learned, snapshot.replicas) == ("learned", 4.0)


def test_backends_are_found_by_name():
    assert router()[0].engine_of("spec-0") == 1
