"""The notes on one backend: how many requests it may have, and what others are shown."""

import pytest

from breakeven.backend_state import BackendState
from breakeven_policies.snapshot import EngineSignals, Health, Suspicion


def state(in_flight_max: int = 0, in_flight: int = 0, elsewhere: int = 0) -> BackendState:
    made = BackendState("b", 0, 0, in_flight_max, [0.0, float(in_flight)], 1)
    made.elsewhere = elsewhere
    made.health = Health.READY
    return made


def test_requests_of_all_processes_count() -> None:
    busy = state(in_flight_max=5, in_flight=2, elsewhere=3)
    assert busy.in_flight == 5
    assert not busy.has_room
    assert state(in_flight=2, elsewhere=3).has_room


@pytest.mark.parametrize(("in_flight_max", "most"), [(0, 3), (2, 2), (9, 3)])
def test_on_trial_it_gets_one_request_beyond_those_it_holds_and_never_more_than_its_limit(
    in_flight_max: int, most: int
) -> None:
    tried = state(in_flight_max, in_flight=2)
    tried.try_out()
    assert tried.most == most
    assert tried.view().in_flight_max == most
    assert (tried.shown, tried.view().suspicion) == (Health.READY, Suspicion.TRIAL)
    tried.forgive()
    assert (tried.most, tried.suspicion) == (in_flight_max, None)


def test_an_ejected_backend_is_shown_so_only_while_its_health_checks_are_answered() -> None:
    out = state()
    out.suspicion = Suspicion.FROZEN
    assert out.shown is Health.EJECTED
    out.health = Health.DOWN
    assert out.shown is Health.DOWN


@pytest.mark.parametrize(
    ("health", "shown"), [(Health.DOWN, Health.DOWN), (Health.LOADING, Health.LOADING), (Health.READY, Health.DRAINING)]
)
@pytest.mark.parametrize("suspicion", [None, Suspicion.FROZEN, Suspicion.TRIAL])
def test_who_is_drained_is_shown_so_where_it_would_be_given_requests(
    health: Health, shown: Health, suspicion: Suspicion | None
) -> None:
    out = state()
    out.health, out.suspicion, out.draining = health, suspicion, True
    assert (out.shown, out.view().draining) == (shown, True)


def test_it_counts_where_its_metrics_tell_tokens() -> None:
    made = state()
    assert not made.counts
    made.signals = EngineSignals(running=1.0)
    assert not made.counts
    made.signals = EngineSignals(generation_tokens=0.0)
    assert made.counts
