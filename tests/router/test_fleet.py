"""What the router believes of its engines, and which event changes it."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.fleet import (
    GONE_MAX,
    ConnectRefused,
    Drained,
    Ejection,
    EndedElsewhere,
    Erred,
    Finished,
    Fleet,
    ModelsListed,
    PoolSpec,
    ProbeFailed,
    ProbeSucceeded,
    Resumed,
    Revived,
    Scraped,
    SignalsForgotten,
    Started,
)
from breakeven.in_flight import InFlight
from breakeven.ledger import ROW_BYTES, Row
from breakeven_policies.snapshot import BackendView, EngineSignals, Health, PoolKind, Suspicion

POOLS = (
    PoolSpec("baseline", PoolKind.PLAIN, "none", 0, ("base-0",)),
    PoolSpec("speculative", PoolKind.SPECULATIVE, "eagle3", 3, ("spec-0", "spec-1")),
)


NEVER = Ejection()
EJECTION = Ejection(failures_max=3, frozen_s=10.0)


class Watched:
    """A fleet and every change of health it reported."""

    def __init__(self, ejection: Ejection = NEVER) -> None:
        self.changes: list[tuple[str, str, Health]] = []
        self.fleet = Fleet(POOLS, 3, lambda *change: self.changes.append(change), ejection)

    def request(self, name: str, *answered: bool | None) -> None:
        """Requests that began and ended so, one after the other."""
        for each in answered:
            self.fleet.apply(Started(name))
            self.fleet.apply(Finished(name, each))

    def scrape(self, now_s: float, tokens: float | None, running: float | None = 1.0, name: str = "spec-0") -> None:
        self.fleet.apply(Scraped(name, EngineSignals(running=running, generation_tokens=tokens), now_s))

    def of(self, name: str) -> BackendView:
        """The view of one backend."""
        views = [backend for pool in self.fleet.snapshot(0.0).pools for backend in pool.backends]
        return next(view for view in views if view.name == name)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_an_event_of_an_unknown_backend_is_an_error(watched: Watched) -> None:
    with pytest.raises(KeyError):
        watched.fleet.apply(Started("nobody"))


def test_two_backends_of_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="unique"):
        Fleet((POOLS[0], POOLS[0]))


def test_a_request_that_finishes_without_having_started_is_an_error(watched: Watched) -> None:
    with pytest.raises(ValueError, match="never started"):
        watched.fleet.apply(Finished("base-0"))


def test_what_was_never_probed_is_unknown_and_the_fleet_is_not_ready(watched: Watched) -> None:
    assert watched.of("base-0").health is Health.UNKNOWN
    assert watched.fleet.health("base-0") is Health.UNKNOWN
    assert not watched.fleet.ready()


def test_the_snapshot_shows_the_pools_as_configured(watched: Watched) -> None:
    snapshot = watched.fleet.snapshot(12.5)
    assert snapshot.now_s == 12.5
    assert [(pool.name, pool.kind, pool.method, pool.speculative_tokens) for pool in snapshot.pools] == [
        ("baseline", PoolKind.PLAIN, "none", 0),
        ("speculative", PoolKind.SPECULATIVE, "eagle3", 3),
    ]
    assert [backend.name for pool in snapshot.pools for backend in pool.backends] == ["base-0", "spec-0", "spec-1"]


def test_one_good_probe_makes_a_backend_ready(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    assert watched.of("spec-0").health is Health.READY
    assert watched.fleet.ready()
    assert watched.changes == [("speculative", "spec-0", Health.READY)]


def test_a_backend_has_room_up_to_its_limit_and_every_end_is_told() -> None:
    fleet = Fleet(
        (PoolSpec("p", PoolKind.PLAIN, "none", 0, ("a",), 2), PoolSpec("q", PoolKind.PLAIN, "none", 0, ("b",)))
    )
    told: list[bool] = []
    fleet.on_room = lambda: told.append(fleet.has_room("a"))
    for _ in range(2):
        assert fleet.has_room("a")
        fleet.apply(Started("a"))
        fleet.apply(Started("b"))
    assert not fleet.has_room("a")
    assert [backend.full for pool in fleet.snapshot(0.0).pools for backend in pool.backends] == [True, False]
    fleet.apply(Finished("b"))
    assert told == []
    fleet.apply(Finished("a"))
    assert told == [True]
    assert fleet.has_room("b")


def test_nothing_may_be_sent_to_who_is_drained_or_gone_however_little_is_left() -> None:
    fleet = Fleet((PoolSpec("p", PoolKind.PLAIN, "none", 0, ("a",)),))
    assert fleet.is_closed("gone")
    assert not fleet.is_closed("a")  # although nobody knows it yet
    fleet.apply(Drained("a"))
    assert fleet.is_closed("a")


def test_room_is_nobodys_business_until_somebody_asks() -> None:
    fleet = Fleet((PoolSpec("p", PoolKind.PLAIN, "none", 0, ("a",), 1),))
    fleet.apply(Started("a"))
    fleet.apply(Finished("a"))
    assert fleet.has_room("a")


def test_a_belief_that_stays_the_same_is_not_reported(watched: Watched) -> None:
    for _ in range(3):
        watched.fleet.apply(ProbeSucceeded("spec-0"))
    assert len(watched.changes) == 1


def test_a_refused_connection_takes_a_backend_out_at_once(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    watched.fleet.apply(ConnectRefused("spec-0"))
    assert watched.of("spec-0").health is Health.DOWN


def test_so_does_a_refused_probe(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    watched.fleet.apply(ProbeFailed("spec-0", "refused", refused=True))
    assert watched.of("spec-0").health is Health.DOWN


def test_a_probe_that_we_had_no_descriptor_for_says_nothing(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    for _ in range(5):
        watched.fleet.apply(ProbeFailed("spec-0", "no descriptor", unasked=True))
    assert watched.of("spec-0").health is Health.READY


def test_a_busy_engine_that_misses_probes_stays_until_it_has_missed_three_in_a_row(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    for _ in range(2):
        watched.fleet.apply(ProbeFailed("spec-0", "timed out"))
    assert watched.of("spec-0").health is Health.READY
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    for _ in range(2):
        watched.fleet.apply(ProbeFailed("spec-0", "timed out"))
    assert watched.of("spec-0").health is Health.READY
    watched.fleet.apply(ProbeFailed("spec-0", "timed out"))
    assert watched.of("spec-0").health is Health.DOWN


@pytest.mark.parametrize(("loading", "health"), [(True, Health.LOADING), (False, Health.DOWN)])
def test_an_engine_that_was_never_ready_is_loading_or_down_at_once(
    watched: Watched, loading: bool, health: Health
) -> None:
    watched.fleet.apply(ProbeFailed("spec-0", "503", loading=loading))
    assert watched.of("spec-0").health is health


def test_an_engine_that_comes_back_starts_without_what_it_reported_before(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    watched.fleet.apply(Scraped("spec-0", EngineSignals(running=7), 1.0))
    watched.fleet.apply(ConnectRefused("spec-0"))
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    assert watched.of("spec-0").signals is None
    assert watched.of("spec-0").scraped_at_s is None


def test_who_learns_hears_of_two_scrapes_what_lies_between_them(watched: Watched) -> None:
    heard: list[tuple[object, ...]] = []
    watched.fleet.learning = SimpleNamespace(scraped=lambda *what: heard.append(what))  # type: ignore[assignment]
    first, second = EngineSignals(running=1.0), EngineSignals(running=2.0)
    watched.fleet.apply(Scraped("spec-0", first, 5.0))
    watched.fleet.apply(Scraped("spec-0", second, 7.0))
    assert heard == [("speculative", first, second, 2.0, 7.0)]


def test_the_load_of_who_is_gone_is_none(watched: Watched) -> None:
    watched.fleet.apply(Started("spec-0"))
    assert (watched.fleet.load_of("spec-0"), watched.fleet.load_of("gone-0")) == (1.0, 0.0)


def test_a_scrape_remembers_how_many_of_our_requests_it_already_counts(watched: Watched) -> None:
    watched.fleet.apply(Started("spec-0"))
    watched.fleet.apply(Scraped("spec-0", EngineSignals(running=1), 5.0))
    watched.fleet.apply(Started("spec-0"))
    view = watched.of("spec-0")
    assert (view.in_flight, view.in_flight_at_scrape, view.scraped_at_s) == (2, 1, 5.0)
    assert view.load == 2


def test_forgotten_figures_leave_our_own_count_and_say_nothing_of_health(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    watched.fleet.apply(Started("spec-0"))
    watched.fleet.apply(Scraped("spec-0", EngineSignals(running=7), 5.0))
    watched.fleet.apply(SignalsForgotten("spec-0"))
    view = watched.of("spec-0")
    assert (view.signals, view.scraped_at_s, view.load, view.health) == (None, None, 1, Health.READY)


def test_what_an_engine_serves_is_remembered_while_it_is_down(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("base-0"))
    watched.fleet.apply(ModelsListed("base-0", frozenset({"m"})))
    watched.fleet.apply(ConnectRefused("base-0"))
    assert watched.of("base-0").models == {"m"}


def test_models_are_unknown_until_they_are_listed(watched: Watched) -> None:
    assert watched.of("base-0").models is None
    watched.fleet.apply(ModelsListed("base-0", frozenset({"m"})))
    assert watched.of("base-0").models == {"m"}


def test_a_snapshot_stays_as_it_was_taken(watched: Watched) -> None:
    before = watched.fleet.snapshot(1.0)
    watched.fleet.apply(Started("base-0"))
    assert before.pools[0].backends[0].in_flight == 0
    assert watched.fleet.snapshot(2.0).pools[0].backends[0].in_flight == 1


def test_pools_that_nothing_touched_are_not_built_anew(watched: Watched) -> None:
    before = watched.fleet.snapshot(1.0)
    watched.fleet.apply(Started("base-0"))
    after = watched.fleet.snapshot(2.0)
    assert after.pools[1] is before.pools[1]


@given(steps=st.lists(st.tuples(st.sampled_from(["base-0", "spec-0", "spec-1"]), st.booleans()), max_size=60))
def test_in_flight_is_started_minus_finished_whatever_the_order(steps: list[tuple[str, bool]]) -> None:
    watched = Watched()
    expected = dict.fromkeys(("base-0", "spec-0", "spec-1"), 0)
    for name, finish in steps:
        if finish and expected[name]:
            watched.fleet.apply(Finished(name))
            expected[name] -= 1
        elif not finish:
            watched.fleet.apply(Started(name))
            expected[name] += 1
    assert {name: watched.of(name).in_flight for name in expected} == expected


# -- ejection: health checks are answered, requests are not (field cases B53, B54)


@pytest.fixture
def strict() -> Watched:
    """A fleet that ejects, whose first speculative engine is ready."""
    watched = Watched(EJECTION)
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    watched.changes.clear()
    return watched


def test_failures_in_a_row_eject_and_a_good_health_check_brings_nothing_back(strict: Watched) -> None:
    strict.request("spec-0", False, False)
    assert strict.of("spec-0").health is Health.READY
    strict.request("spec-0", False)
    strict.fleet.apply(ProbeSucceeded("spec-0"))
    assert strict.of("spec-0").health is Health.EJECTED
    assert strict.fleet.health("spec-0") is Health.EJECTED
    assert not strict.fleet.ready()
    assert strict.changes == [("speculative", "spec-0", Health.EJECTED)]


def test_an_answer_in_between_forgives_and_a_client_that_left_says_nothing(strict: Watched) -> None:
    strict.request("spec-0", False, False, True, False, False)
    assert strict.of("spec-0").health is Health.READY
    strict.request("spec-0", None, None, None)
    assert strict.of("spec-0").health is Health.READY
    strict.request("spec-0", False)
    assert strict.of("spec-0").health is Health.EJECTED


def test_a_token_made_for_the_router_brings_it_back_and_the_count_begins_anew(strict: Watched) -> None:
    strict.request("spec-0", False, False, False)
    assert strict.fleet.suspicion("spec-0") is Suspicion.FAILURES
    strict.fleet.apply(Revived("spec-0", made_token=True))
    assert strict.fleet.suspicion("spec-0") is None
    assert strict.changes[-1] == ("speculative", "spec-0", Health.READY)
    strict.request("spec-0", False, False)
    assert strict.of("spec-0").health is Health.READY
    strict.request("spec-0", False)
    assert strict.of("spec-0").health is Health.EJECTED


def test_tokens_that_are_made_forgive_failures_since_busy_is_not_dead(strict: Watched) -> None:
    strict.fleet.apply(Started("spec-0"))
    for tokens in (1.0, 2.0, 3.0, 4.0, 5.0):
        strict.request("spec-0", False, False)
        strict.scrape(tokens, tokens)
    assert strict.of("spec-0").health is Health.READY


def test_where_tokens_are_counted_the_next_scrape_decides_and_not_the_failures(strict: Watched) -> None:
    strict.scrape(0.0, 5.0)
    strict.request("spec-0", *[False] * 10)
    assert strict.of("spec-0").health is Health.READY
    strict.scrape(1.0, 6.0)
    strict.request("spec-0", *[False] * 10)
    assert strict.of("spec-0").health is Health.READY
    strict.scrape(2.0, 6.0)
    assert strict.of("spec-0").health is Health.EJECTED


def test_a_token_made_for_anybody_brings_an_ejected_engine_back(strict: Watched) -> None:
    strict.scrape(0.0, 5.0)
    strict.request("spec-0", *[False] * 3)
    strict.scrape(1.0, 5.0)
    assert strict.of("spec-0").health is Health.EJECTED
    strict.scrape(2.0, 4.0)
    assert strict.of("spec-0").health is Health.EJECTED
    strict.scrape(3.0, 5.0)
    assert strict.of("spec-0").health is Health.READY
    assert [change[2] for change in strict.changes] == [Health.EJECTED, Health.READY]


def test_failures_beyond_the_limit_while_it_was_not_ready_are_not_forgotten(strict: Watched) -> None:
    strict.request("spec-0", False, False)
    for _ in range(3):
        strict.fleet.apply(ProbeFailed("spec-0", "took longer than 5 s"))
    strict.request("spec-0", *[False] * 5)
    strict.fleet.apply(ProbeSucceeded("spec-0"))
    strict.request("spec-0", False)
    assert strict.of("spec-0").health is Health.EJECTED


def test_requests_that_only_wait_are_held_too(strict: Watched) -> None:
    strict.fleet.apply(Started("spec-0"))
    for now_s in (0.0, 10.0):
        strict.fleet.apply(Scraped("spec-0", EngineSignals(running=0.0, waiting=2.0, generation_tokens=5.0), now_s))
    assert strict.of("spec-0").health is Health.EJECTED


def test_requests_held_without_a_token_eject_after_the_time(strict: Watched) -> None:
    strict.fleet.apply(Started("spec-0"))
    strict.scrape(0.0, 5.0)
    strict.scrape(9.9, 5.0)
    assert strict.of("spec-0").health is Health.READY
    strict.scrape(10.0, 5.0)
    assert strict.of("spec-0").health is Health.EJECTED
    assert strict.changes == [("speculative", "spec-0", Health.EJECTED)]


@pytest.mark.parametrize(
    ("tokens", "running", "in_flight"),
    [(5.0, 0.0, True), (5.0, None, True), (None, 1.0, True), (5.0, 1.0, False)],
    ids=["nothing runs", "unknown whether anything runs", "no counters", "nothing of ours"],
)
def test_an_engine_that_may_well_be_idle_is_not_frozen(
    strict: Watched, tokens: float | None, running: float | None, in_flight: bool
) -> None:
    if in_flight:
        strict.fleet.apply(Started("spec-0"))
    for now_s in (0.0, 10.0, 100.0):
        strict.scrape(now_s, tokens, running)
    assert strict.of("spec-0").health is Health.READY


def test_the_time_without_a_token_counts_from_the_last_one_or_from_the_first_request(strict: Watched) -> None:
    strict.scrape(0.0, 5.0, running=0.0)
    strict.scrape(50.0, 5.0, running=0.0)
    strict.fleet.apply(Started("spec-0"))
    for now_s, tokens in ((51.0, 5.0), (59.9, 5.0), (61.0, 6.0), (70.9, 6.0)):
        strict.scrape(now_s, tokens)
        assert strict.of("spec-0").health is Health.READY
    strict.scrape(71.0, 6.0)
    assert strict.of("spec-0").health is Health.EJECTED


@pytest.mark.parametrize(
    "unseen",
    [
        (SignalsForgotten("spec-0"),),
        (ProbeFailed("spec-0", "refused", refused=True), ProbeSucceeded("spec-0")),
    ],
    ids=["metrics", "engine"],
)
def test_nobody_is_frozen_for_the_time_in_which_nobody_looked(
    strict: Watched, unseen: tuple[SignalsForgotten | ProbeFailed | ProbeSucceeded, ...]
) -> None:
    strict.scrape(0.0, 5.0, running=0.0)
    for event in unseen:
        strict.fleet.apply(event)
    strict.fleet.apply(Started("spec-0"))
    for now_s in (60.0, 69.9):
        strict.scrape(now_s, 5.0)
        assert strict.of("spec-0").health is Health.READY
    strict.scrape(70.0, 5.0)
    assert strict.of("spec-0").health is Health.EJECTED


@pytest.mark.parametrize(
    "gone",
    [
        ConnectRefused("spec-0"),
        ProbeFailed("spec-0", "refused", refused=True),
        ProbeFailed("spec-0", "503", loading=True),
    ],
)
def test_a_restarted_engine_is_another_one(strict: Watched, gone: ConnectRefused | ProbeFailed) -> None:
    strict.request("spec-0", False, False, False)
    strict.fleet.apply(gone)
    for _ in range(3):
        strict.fleet.apply(ProbeSucceeded("spec-0"))
    assert strict.of("spec-0").health is Health.READY


def test_an_ejected_engine_that_loads_again_is_loading_at_once_and_everybody_hears_so(strict: Watched) -> None:
    strict.request("spec-0", False, False, False)
    strict.fleet.apply(ProbeFailed("spec-0", "503", loading=True))
    assert strict.of("spec-0").health is Health.LOADING
    strict.fleet.apply(ProbeSucceeded("spec-0"))
    assert [change[2] for change in strict.changes] == [Health.EJECTED, Health.LOADING, Health.READY]


def test_an_ejected_engine_that_misses_health_checks_as_well_comes_back_ejected(strict: Watched) -> None:
    strict.request("spec-0", False, False, False)
    for _ in range(3):
        strict.fleet.apply(ProbeFailed("spec-0", "took longer than 5 s"))
    assert strict.of("spec-0").health is Health.DOWN
    strict.fleet.apply(ProbeSucceeded("spec-0"))
    assert strict.of("spec-0").health is Health.EJECTED
    assert [change[2] for change in strict.changes] == [Health.EJECTED, Health.DOWN, Health.EJECTED]


def test_what_is_not_ready_is_not_ejected_and_who_never_was_ejected_is_not_revived(strict: Watched) -> None:
    strict.request("base-0", False, False, False)
    strict.fleet.apply(Revived("spec-0"))
    assert strict.changes == []
    assert strict.fleet.suspicion("spec-0") is None


# -- on trial


def on_trial(strict: Watched, *, held: int = 0) -> None:
    """An engine that cannot be asked for a token and comes back after a pause; it still holds so many requests."""
    for _ in range(held):
        strict.fleet.apply(Started("spec-0"))
    strict.request("spec-0", False, False, False)
    strict.fleet.apply(Revived("spec-0"))
    assert strict.fleet.suspicion("spec-0") is Suspicion.TRIAL


def test_an_engine_that_made_no_token_gets_one_request_until_it_has_answered_it(strict: Watched) -> None:
    on_trial(strict)
    assert strict.of("spec-0").health is Health.READY
    assert strict.fleet.has_room("spec-0")
    strict.fleet.apply(Started("spec-0"))
    assert strict.of("spec-0").full
    assert not strict.fleet.has_room("spec-0")
    strict.fleet.apply(Finished("spec-0", answered=True))
    assert strict.fleet.suspicion("spec-0") is None
    assert strict.of("spec-0").in_flight_max == 0


def test_one_failure_on_trial_takes_it_out_again_and_a_departure_says_nothing(strict: Watched) -> None:
    on_trial(strict)
    strict.request("spec-0", None)
    assert strict.of("spec-0").health is Health.READY
    strict.request("spec-0", False)
    assert strict.of("spec-0").health is Health.EJECTED


def test_what_it_held_before_does_not_keep_it_from_its_trial(strict: Watched) -> None:
    on_trial(strict, held=2)
    assert strict.fleet.has_room("spec-0")
    strict.fleet.apply(Started("spec-0"))
    assert not strict.fleet.has_room("spec-0")


def test_a_token_of_an_engine_whose_health_checks_fail_meanwhile_is_no_news(strict: Watched) -> None:
    strict.request("spec-0", False, False, False)
    for _ in range(3):
        strict.fleet.apply(ProbeFailed("spec-0", "took longer than 5 s"))
    strict.changes.clear()
    strict.fleet.apply(Revived("spec-0", made_token=True))
    assert strict.changes == []
    assert strict.of("spec-0").health is Health.DOWN


def test_the_fleet_knows_pools_and_sums(watched: Watched) -> None:
    watched.fleet.apply(Started("spec-0"))
    watched.fleet.apply(Started("base-0"))
    assert (watched.fleet.pool_of("spec-0"), watched.fleet.own_in_flight()) == ("speculative", 2)


def test_a_limit_of_its_own_holds_on_trial_too() -> None:
    fleet = Fleet((PoolSpec("p", PoolKind.PLAIN, "none", 0, ("a",), 2),), ejection=EJECTION)
    fleet.apply(ProbeSucceeded("a"))
    for _ in range(2):
        fleet.apply(Started("a"))
    for _ in range(3):
        fleet.apply(Started("a"))
        fleet.apply(Finished("a", answered=False))
    fleet.apply(Revived("a"))
    assert not fleet.has_room("a")


# -- server errors


def errors(strict: Watched, name: str, count: int, *, bodies: int = 9, every_s: float = 1.0) -> None:
    """Requests that are answered with server errors, of so many different bodies, one after the other."""
    for number in range(count):
        strict.fleet.apply(Started(name))
        strict.fleet.apply(Erred(name, number % bodies, 100.0 + number * every_s))
        strict.fleet.apply(Finished(name))


@pytest.fixture
def answering(strict: Watched) -> Watched:
    """The baseline engine is ready and answers."""
    strict.fleet.apply(ProbeSucceeded("base-0"))
    strict.changes.clear()
    errors(strict, "spec-0", 1)
    strict.request("base-0", True)
    return strict


def test_an_engine_that_answers_errors_where_another_answers_well_is_out(answering: Watched) -> None:
    errors(answering, "spec-0", 4)
    assert answering.of("spec-0").health is Health.EJECTED
    assert answering.of("spec-0").suspicion is Suspicion.ERRORS


@pytest.mark.parametrize(
    "how", [{"bodies": 2}, {"every_s": 0.01}], ids=["one client repeats its request", "one batch broke at once"]
)
def test_what_may_be_the_requests_doing_takes_no_engine_out(answering: Watched, how: dict[str, float]) -> None:
    answering.request("spec-0", True)
    errors(answering, "spec-0", 1)
    answering.request("base-0", True)
    errors(answering, "spec-0", 20, **how)
    assert answering.of("spec-0").health is Health.READY


def test_where_no_other_engine_has_answered_meanwhile_the_requests_are_the_cause(answering: Watched) -> None:
    answering.request("spec-0", True)  # a row ends, and the next one begins
    errors(answering, "spec-0", 20)
    errors(answering, "base-0", 20)
    assert {answering.of(name).health for name in ("spec-0", "base-0")} == {Health.READY}


def test_the_last_engine_is_never_out_for_errors_alone(answering: Watched) -> None:
    answering.fleet.apply(ConnectRefused("base-0"))
    errors(answering, "spec-0", 20)
    assert answering.of("spec-0").health is Health.READY


def test_a_good_answer_in_between_begins_a_new_row(answering: Watched) -> None:
    for _ in range(5):
        errors(answering, "spec-0", 2)
        answering.request("spec-0", True)
        answering.request("base-0", True)
    assert answering.of("spec-0").health is Health.READY


def test_without_a_limit_errors_take_nobody_out(watched: Watched) -> None:
    for name in ("spec-0", "base-0"):
        watched.fleet.apply(ProbeSucceeded(name))
    errors(watched, "spec-0", 1)
    watched.request("base-0", True)
    errors(watched, "spec-0", 20)
    assert watched.of("spec-0").health is Health.READY


def test_an_engine_that_was_out_for_errors_comes_back_on_trial_though_it_makes_tokens(answering: Watched) -> None:
    answering.scrape(0.0, 1.0)
    errors(answering, "spec-0", 4)
    answering.scrape(1.0, 2.0)
    assert answering.of("spec-0").health is Health.EJECTED
    answering.fleet.apply(Revived("spec-0", made_token=True))
    assert answering.fleet.suspicion("spec-0") is Suspicion.TRIAL
    errors(answering, "spec-0", 1)
    assert answering.of("spec-0").health is Health.EJECTED
    answering.fleet.apply(Revived("spec-0", made_token=True))
    answering.fleet.apply(ConnectRefused("base-0"))
    errors(answering, "spec-0", 1)  # nobody else is left
    assert answering.of("spec-0").health is Health.READY
    assert answering.fleet.suspicion("spec-0") is None


def test_without_limits_nothing_is_ejected(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    watched.request("spec-0", *[False] * 100)
    watched.fleet.apply(Started("spec-0"))
    for now_s in (0.0, 1e6):
        watched.scrape(now_s, 5.0)
    assert watched.of("spec-0").health is Health.READY


def two_processes() -> tuple[Fleet, Fleet]:
    """The fleets of two workers."""
    rows = [memoryview(bytearray(ROW_BYTES)) for _ in range(2)]
    first, second = (
        Fleet(POOLS, in_flight=InFlight(Row(rows[own]), [Row(rows[1 - own])]), ejection=Ejection(failures_max=2))
        for own in range(2)
    )
    return first, second


def in_flight(fleet: Fleet) -> dict[str, int]:
    return {backend.name: backend.in_flight for pool in fleet.snapshot(0.0).pools for backend in pool.backends}


def test_each_of_two_processes_decides_on_what_both_have_in_flight() -> None:
    first, second = two_processes()
    for fleet, times in ((first, 2), (second, 3)):
        for _ in range(times):
            fleet.apply(Started("base-0"))
    assert in_flight(first)["base-0"] == in_flight(second)["base-0"] == 5
    first.apply(Finished("base-0", answered=True))
    assert in_flight(first)["base-0"] == in_flight(second)["base-0"] == 4


def test_a_process_cannot_finish_what_another_one_started() -> None:
    first, second = two_processes()
    first.apply(Started("base-0"))
    with pytest.raises(ValueError, match="never started"):
        second.apply(Finished("base-0"))


def test_what_is_in_flight_at_a_scrape_is_that_of_all_processes() -> None:
    first, second = two_processes()
    first.apply(Started("base-0"))
    second.apply(Scraped("base-0", EngineSignals(running=1.0), 1.0))
    (backend, *_) = second.snapshot(1.0).pools[0].backends
    assert (backend.in_flight_at_scrape, backend.load) == (1, 1.0)


def test_requests_that_fail_in_other_processes_take_an_engine_out_unless_one_was_answered_between() -> None:
    first, _ = two_processes()
    first.apply(ProbeSucceeded("base-0"))
    for answered in (False, True, False, None):
        first.apply(EndedElsewhere("base-0", answered=answered))
    assert first.health("base-0") is Health.READY
    first.apply(EndedElsewhere("base-0", answered=False))
    assert first.health("base-0") is Health.EJECTED


def names(fleet: Fleet) -> list[str]:
    return [backend.name for pool in fleet.snapshot(0.0).pools for backend in pool.backends]


def test_a_drained_backend_is_given_no_requests_whatever_its_engine_does_until_it_is_resumed(watched: Watched) -> None:
    fleet = watched.fleet
    fleet.apply(ProbeSucceeded("spec-0"))
    fleet.apply(Started("spec-0"))
    fleet.apply(Drained("spec-0"))
    assert (watched.of("spec-0").health, watched.of("spec-0").draining) == (Health.DRAINING, True)
    assert watched.of("spec-0").in_flight == 1
    fleet.apply(Finished("spec-0", answered=True))
    fleet.apply(ConnectRefused("spec-0"))
    assert (watched.of("spec-0").health, watched.of("spec-0").draining) == (Health.DOWN, True)
    fleet.apply(ProbeSucceeded("spec-0"))
    assert watched.of("spec-0").health is Health.DRAINING
    fleet.apply(Resumed("spec-0"))
    assert (watched.of("spec-0").health, watched.of("spec-0").draining) == (Health.READY, False)
    assert [health for _, _, health in watched.changes] == [
        Health.READY,
        Health.DRAINING,
        Health.DOWN,
        Health.DRAINING,
        Health.READY,
    ]


def test_draining_twice_is_draining_and_nobody_hears_of_it_again(watched: Watched) -> None:
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    for event in (Drained("spec-0"), Drained("spec-0"), Resumed("spec-0"), Resumed("spec-0")):
        watched.fleet.apply(event)
    assert [health for _, _, health in watched.changes] == [Health.READY, Health.DRAINING, Health.READY]


def test_a_fleet_that_is_drained_as_a_whole_is_not_ready(watched: Watched) -> None:
    for name in names(watched.fleet):
        watched.fleet.apply(ProbeSucceeded(name))
        watched.fleet.apply(Drained(name))
    assert not watched.fleet.ready()


def test_an_ejected_engine_is_ejected_still_when_it_is_resumed() -> None:
    watched = Watched(EJECTION)
    watched.fleet.apply(ProbeSucceeded("spec-0"))
    watched.request("spec-0", False, False, False)
    watched.fleet.apply(Drained("spec-0"))
    watched.fleet.apply(Resumed("spec-0"))
    assert watched.of("spec-0").health is Health.EJECTED


def reconfigured(watched: Watched, *backends: str, renewed: tuple[str, ...] = ()) -> None:
    """One pool with these backends from now on."""
    watched.fleet.reconfigure((PoolSpec("one", PoolKind.PLAIN, "none", 0, backends),), 3, NEVER, renewed)


def test_what_is_believed_of_a_backend_that_stays_stays(watched: Watched) -> None:
    fleet = watched.fleet
    fleet.apply(ProbeSucceeded("spec-1"))
    fleet.apply(ModelsListed("spec-1", frozenset({"m"})))
    fleet.apply(Started("spec-1"))
    fleet.apply(Drained("spec-1"))
    before = watched.of("spec-1")
    reconfigured(watched, "new", "spec-1")
    assert watched.of("spec-1") == before
    assert watched.of("new") == BackendView("new", Health.UNKNOWN)
    fleet.apply(Finished("spec-1"))
    assert watched.of("spec-1").in_flight == 0
    assert [pool.name for pool in fleet.snapshot(0.0).pools] == ["one"]


def test_of_another_engine_of_the_same_name_only_what_runs_and_the_wish_to_drain_stay(watched: Watched) -> None:
    fleet = watched.fleet
    fleet.apply(ProbeSucceeded("spec-1"))
    fleet.apply(ModelsListed("spec-1", frozenset({"m"})))
    fleet.apply(Started("spec-1"))
    fleet.apply(Drained("spec-1"))
    reconfigured(watched, "spec-1", renewed=("spec-1",))
    assert watched.of("spec-1") == BackendView("spec-1", Health.UNKNOWN, 1, draining=True)
    fleet.apply(Finished("spec-1"))
    assert watched.of("spec-1").in_flight == 0


def test_requests_of_a_backend_that_is_gone_end_as_ever_and_change_nothing_else(watched: Watched) -> None:
    fleet = watched.fleet
    fleet.apply(Started("spec-0"))
    reconfigured(watched, "spec-1")
    for event in (ProbeSucceeded("spec-0"), ConnectRefused("spec-0"), Started("spec-0")):
        fleet.apply(event)
    fleet.apply(Finished("spec-0", answered=False))
    fleet.apply(Finished("spec-0", answered=False))
    assert names(fleet) == ["spec-1"]
    assert watched.changes == []
    with pytest.raises(KeyError):
        fleet.health("spec-0")


def test_what_ran_there_is_counted_when_the_name_comes_back(watched: Watched) -> None:
    fleet = watched.fleet
    fleet.apply(Started("spec-0"))
    fleet.apply(Drained("spec-0"))
    reconfigured(watched, "spec-1")
    reconfigured(watched, "spec-0", "spec-1")
    assert watched.of("spec-0") == BackendView("spec-0", Health.UNKNOWN, 1)
    fleet.apply(Finished("spec-0"))
    assert watched.of("spec-0").in_flight == 0


def test_only_so_many_names_that_are_gone_are_remembered(watched: Watched) -> None:
    for number in range(GONE_MAX + 10):
        reconfigured(watched, f"pod-{number}")
    assert len(watched.fleet._gone) == GONE_MAX
    with pytest.raises(KeyError):
        watched.fleet.apply(Started("pod-0"))
    watched.fleet.apply(Started(f"pod-{GONE_MAX}"))


def test_a_configuration_with_a_name_twice_changes_nothing(watched: Watched) -> None:
    with pytest.raises(ValueError, match="unique"):
        reconfigured(watched, "spec-0", "spec-0")
    assert names(watched.fleet) == ["base-0", "spec-0", "spec-1"]


def test_only_what_is_configured_is_known(watched: Watched) -> None:
    assert watched.fleet.knows("spec-0")
    reconfigured(watched, "spec-1")
    assert not watched.fleet.knows("spec-0")
