"""Faults: what a request for one may say, whom it hits, and when it is over."""

import pytest

from breakeven_bench.engine.faults import DESCRIPTIONS, FaultKind, FaultSwitch, parse_fault

NOW = 100.0


def switched(**document):
    switch = FaultSwitch()
    switch.set(parse_fault(document), NOW)
    return switch


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "body: Input should be"),
        ({}, "fault: Field required"),
        ({"fault": "explode"}, "fault: Input should be 'none', 'loading'"),
        ({"fault": "loading", "second": 5}, "second: Extra inputs are not permitted"),
        ({"fault": "loading", "seconds": 0}, "seconds: Input should be greater than 0"),
        ({"fault": "loading", "seconds": 7200}, "seconds: Input should be less than or equal to 3600"),
        ({"fault": "refuse"}, "seconds: refuse needs it"),
        ({"fault": "status", "code": 418}, "code: 418 is not one of 429, 500, 503"),
        ({"fault": "status", "count": 0}, "count: Input should be greater than or equal to 1"),
        ({"fault": "slow_events", "count": 2}, "count: slow_events does not hit single requests"),
        ({"fault": "die_mid_stream", "after_events": 0}, "after_events: Input should be greater than or equal to 1"),
        ({"fault": "core_dead", "seconds": 5}, "seconds: nothing revives a dead core"),
        ({"fault": "slow_events", "gap_ms": -1}, "gap_ms: Input should be greater than or equal to 0"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_why_in_one_line(document, message):
    with pytest.raises(ValueError, match="^" + message.replace("'", ".")) as caught:
        parse_fault(document)
    assert "\n" not in str(caught.value)


def test_every_fault_is_described():
    assert set(DESCRIPTIONS) == set(FaultKind)


def test_an_engine_begins_without_a_fault():
    switch = FaultSwitch()
    assert switch.current(NOW) is None
    assert switch.strike(NOW, stream=True) is None
    assert switch.describe(NOW) == {"fault": "none", "hits": 0, "seconds_left": None}


def test_a_fault_ends_after_its_seconds():
    switch = switched(fault="loading", seconds=5)
    assert switch.is_on(FaultKind.LOADING, NOW + 4.9)
    assert not switch.is_on(FaultKind.LOADING, NOW + 5)
    assert switch.describe(NOW + 1)["seconds_left"] == 4.0


def test_a_fault_without_seconds_stays_until_it_is_switched_off():
    switch = switched(fault="loading")
    assert switch.is_on(FaultKind.LOADING, NOW + 1e9)
    switch.set(parse_fault({"fault": "none"}), NOW)
    assert switch.current(NOW) is None


def test_a_fault_hits_as_many_requests_as_it_was_told():
    switch = switched(fault="status", code=429, count=2)
    assert [switch.strike(NOW, stream=False) is not None for _ in range(3)] == [True, True, False]
    assert switch.hits == 2
    assert switch.describe(NOW)["fault"] == "none"


def test_a_fault_of_streams_leaves_other_requests_alone():
    for kind in ("die_mid_stream", "error_event"):
        switch = switched(fault=kind, after_events=7)
        assert switch.strike(NOW, stream=False) is None
        assert switch.strike(NOW, stream=True).after_events == 7
        assert switch.hits == 1


@pytest.mark.parametrize(
    "document",
    [{"fault": "loading"}, {"fault": "refuse", "seconds": 1}, {"fault": "slow_events"}, {"fault": "core_dead"}],
)
def test_a_fault_of_the_whole_engine_hits_no_single_request(document):
    assert switched(**document).strike(NOW, stream=True) is None


def test_slow_events_make_a_step_longer_and_nothing_else_does():
    assert switched(fault="slow_events", gap_ms=250).extra_step_s(NOW) == 0.25
    assert switched(fault="loading").extra_step_s(NOW) == 0.0
    assert FaultSwitch().extra_step_s(NOW) == 0.0


def test_what_is_on_is_shown_with_its_settings():
    shown = switched(fault="die_mid_stream", after_events=5, count=3).describe(NOW)
    assert (shown["fault"], shown["after_events"], shown["count"], shown["hits"]) == ("die_mid_stream", 5, 3, 0)
