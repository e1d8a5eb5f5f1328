"""`breakeven.mirror`: a worker believes of its engines what the supervisor does, and tells what only it sees."""

import pytest

from breakeven.fleet import (
    Believed,
    ConnectRefused,
    EndedElsewhere,
    Erred,
    Finished,
    PoolSpec,
    Scraped,
    Started,
)
from breakeven.in_flight import InFlight
from breakeven.mirror import Mirror
from breakeven_policies.snapshot import EngineSignals, Health, PoolKind, Suspicion

POOLS = (PoolSpec("base", PoolKind.PLAIN, "none", 0, ("base-0",)),)


class Told:
    """A mirror and what it told."""

    def __init__(self):
        self.said = []
        self.mirror = Mirror(POOLS, InFlight(), self.said.append)

    def request(self, answered):
        self.mirror.apply(Started("base-0"))
        self.mirror.apply(Finished("base-0", answered))


@pytest.mark.parametrize("health", Health)
@pytest.mark.parametrize("before", Health)
def test_it_believes_what_it_is_told_whatever_it_believed(before, health):
    told = Told()
    for each in (before, health):
        told.mirror.apply(Believed("base-0", each))
    assert told.mirror.health("base-0") is health
    assert told.said == []


@pytest.mark.parametrize("health", [Health.DOWN, Health.READY])
def test_an_engine_is_closed_for_as_long_as_it_is_to_be_drained_whatever_its_health(health):
    told = Told()
    told.mirror.apply(Believed("base-0", health, draining=True))
    assert told.mirror.is_closed("base-0")
    assert told.mirror.health("base-0") is (Health.DRAINING if health is Health.READY else health)
    told.mirror.apply(Believed("base-0", health))
    assert not told.mirror.is_closed("base-0")


def test_a_refused_connection_takes_the_engine_out_at_once_and_is_told():
    told = Told()
    told.mirror.apply(Believed("base-0", Health.READY))
    told.mirror.apply(ConnectRefused("base-0"))
    assert told.mirror.health("base-0") is Health.DOWN
    assert told.said == [ConnectRefused("base-0")]


def test_failures_are_told_and_judged_by_nobody_here():
    told = Told()
    told.mirror.apply(Believed("base-0", Health.READY))
    for answered in (True, None, False, False):
        told.request(answered)
    assert told.said == [EndedElsewhere("base-0", answered=False)] * 2
    assert told.mirror.health("base-0") is Health.READY


def test_figures_are_shown_and_bring_nothing_back():
    told = Told()
    told.mirror.apply(Believed("base-0", Health.EJECTED))
    for tokens in (1.0, 2.0):
        told.mirror.apply(Scraped("base-0", EngineSignals(running=1.0, generation_tokens=tokens), tokens))
    ((backend,),) = (pool.backends for pool in told.mirror.snapshot(3.0).pools)
    assert (backend.health, backend.signals.generation_tokens, backend.scraped_at_s) == (Health.EJECTED, 2.0, 2.0)


def test_what_an_engine_measured_before_it_was_gone_is_forgotten():
    told = Told()
    told.mirror.apply(Believed("base-0", Health.READY))
    told.mirror.apply(Scraped("base-0", EngineSignals(running=1.0), 1.0))
    told.mirror.apply(Believed("base-0", Health.DOWN))
    assert told.mirror.snapshot(3.0).pools[0].backends[0].signals is None


def test_a_trial_holds_here_until_the_first_answer_that_this_worker_sees():
    told = Told()
    told.mirror.apply(Believed("base-0", Health.READY, Suspicion.TRIAL))
    told.mirror.apply(Started("base-0"))
    assert not told.mirror.has_room("base-0")
    told.mirror.apply(Finished("base-0", answered=True))
    told.mirror.apply(Started("base-0"))
    assert told.mirror.has_room("base-0")
    assert told.said == []


def test_a_server_error_is_told_and_judged_by_nobody_here():
    told = Told()
    told.mirror.apply(Believed("base-0", Health.READY))
    error = Erred("base-0", 7, 1.0)
    told.mirror.apply(error)
    assert told.said == [error]
    assert told.mirror.health("base-0") is Health.READY
