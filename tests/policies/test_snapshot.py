"""What a picture of the fleet says of load and age."""

from breakeven_policies.snapshot import BackendView, EngineSignals


def test_an_engine_that_reports_no_load_has_none_rather_than_zero() -> None:
    assert EngineSignals().load is None


def test_running_and_waiting_add_up_and_either_alone_will_do() -> None:
    assert EngineSignals(running=3, waiting=2).load == 5
    assert EngineSignals(running=3).load == 3
    assert EngineSignals(waiting=2).load == 2


def test_without_a_scrape_our_own_count_is_the_load() -> None:
    assert BackendView("b", in_flight=4).load == 4
    assert BackendView("b", in_flight=4, signals=EngineSignals()).load == 4


def test_what_others_sent_counts_and_what_we_sent_since_the_scrape_too() -> None:
    view = BackendView("b", in_flight=6, signals=EngineSignals(running=10), in_flight_at_scrape=4)
    assert view.load == 12


def test_a_scrape_that_is_behind_never_hides_our_own_requests() -> None:
    view = BackendView("b", in_flight=6, signals=EngineSignals(running=0), in_flight_at_scrape=6)
    assert view.load == 6


def test_a_backend_without_a_limit_is_never_full() -> None:
    assert not BackendView("b", in_flight=10_000).full


def test_a_backend_is_full_from_its_last_place_on() -> None:
    assert [BackendView("b", in_flight=count, in_flight_max=2).full for count in (0, 1, 2, 3)] == [
        False,
        False,
        True,
        True,
    ]


def test_the_age_of_a_scrape_is_unknown_where_there_was_none() -> None:
    assert BackendView("b").signals_age_s(10.0) is None
    assert BackendView("b", scraped_at_s=7.5).signals_age_s(10.0) == 2.5
