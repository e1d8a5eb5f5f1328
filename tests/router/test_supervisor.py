"""`breakeven.supervisor`: it alone judges the engines; workers are told, and tell what only they see."""

import asyncio
from datetime import UTC, datetime

import pytest

from breakeven.config import Settings
from breakeven.fleet import (
    Believed,
    ConnectRefused,
    Drained,
    EndedElsewhere,
    Erred,
    ModelsListed,
    ProbeSucceeded,
    Resumed,
    Revived,
    Scraped,
    SignalsForgotten,
)
from breakeven.metric_table import ATTEMPTS, REQUESTS
from breakeven.metrics import Metrics
from breakeven.recorder import Recorder
from breakeven.reload import plan_of
from breakeven.supervisor import Supervisor
from breakeven.table_book import Identified
from breakeven.worker_messages import AskedWell, Listed, Measured, PolicySwitched, Well
from breakeven_policies.measurement import measurement_of
from breakeven_policies.snapshot import EngineSignals, Health, Suspicion
from tests.policies.tables import DOCUMENT, table

SIGNALS = EngineSignals(running=1.0)
SETTINGS = Settings(baseline=["http://127.0.0.1:1"], workers=2, engine_failures_max=2)
PAIR = Settings(baseline=["http://127.0.0.1:1"], speculative=["http://127.0.0.1:2"], workers=2, engine_failures_max=2)


class Crew:
    """Takes what the supervisor tells."""

    serving = True
    up_to_date = True

    def is_up_to_date(self, worker):
        return self.up_to_date

    def __init__(self):
        self.told = []
        self.tell = self.send = self.told.append
        self.reconfigured = []

    def reconfigure(self, settings, keys):
        self.reconfigured.append((settings, keys))


def supervising(settings):
    made = Supervisor(settings, Recorder(None, lambda: datetime.now(UTC)), clock=lambda: 5.0)
    made._crew = Crew()
    return made


@pytest.fixture
def supervisor():
    return supervising(SETTINGS)


def told(supervisor):
    said = list(supervisor._crew.told)
    supervisor._crew.told.clear()
    return said


def test_what_a_probe_finds_out_is_told_to_all_workers(supervisor):
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    supervisor._found_out(Scraped("baseline-0", SIGNALS, 4.0))
    supervisor._directory.update("baseline-0", ({"id": "m\ud800"},))
    supervisor._found_out(ModelsListed("baseline-0", frozenset({"m"})))
    supervisor._found_out(SignalsForgotten("baseline-0"))
    assert told(supervisor) == [
        Believed("baseline-0", Health.READY),
        Scraped("baseline-0", SIGNALS, 4.0),
        Listed("baseline-0", b'[{"id": "m\\ud800"}]'),
        SignalsForgotten("baseline-0"),
    ]


def test_a_policy_that_is_switched_to_is_told_to_all_workers_and_to_those_that_come(supervisor):
    with pytest.raises(ValueError, match="unknown policy"):
        supervisor.switch_policy("fastest", "a test")
    assert told(supervisor) == []
    supervisor.switch_policy("least_loaded", "a test")
    assert told(supervisor) == [PolicySwitched("least_loaded")]
    supervisor._greet(supervisor._crew)
    assert PolicySwitched("least_loaded") in told(supervisor)
    supervisor.switch_policy(None, "a test")
    assert told(supervisor) == [PolicySwitched(None)]
    supervisor._greet(supervisor._crew)
    assert told(supervisor) == [Believed("baseline-0", Health.UNKNOWN)]


def test_workers_hear_that_an_engine_is_drained_also_while_it_is_down(supervisor):
    for health in (Health.UNKNOWN, Health.DRAINING):
        supervisor._sights.apply(Drained("baseline-0"))
        drained = Believed("baseline-0", health, draining=True)
        assert told(supervisor) == [drained]
        supervisor._greet(supervisor._crew)
        assert told(supervisor) == [drained]
        supervisor._sights.apply(Resumed("baseline-0"))
        assert told(supervisor) == [Believed("baseline-0", Health.READY if health is Health.DRAINING else health)]
        supervisor._found_out(ProbeSucceeded("baseline-0"))
        told(supervisor)


def test_what_tables_say_of_pools_is_told_to_all_workers_and_to_those_that_come(supervisor):
    supervisor._tables.reconfigure(SETTINGS.identities(), [table()])
    supervisor._identified(Identified("baseline-0", frozenset({DOCUMENT["provenance"]["model"]}), "0.33.0"))
    measured = Measured({"baseline": measurement_of(table(), table().setups[0])})
    assert told(supervisor) == [measured]
    supervisor._greet(supervisor._crew)
    assert told(supervisor)[0] == measured
    supervisor.take_over(plan_of(SETTINGS, SETTINGS), None, None, ())
    assert measured not in told(supervisor)
    assert supervisor.measurements == {}


def test_a_worker_that_comes_later_is_told_what_is_known(supervisor):
    supervisor._greet(supervisor._crew)
    assert told(supervisor) == [Believed("baseline-0", Health.UNKNOWN)]
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    supervisor._found_out(Scraped("baseline-0", SIGNALS, 4.0))
    supervisor._found_out(ModelsListed("baseline-0", frozenset()))
    told(supervisor)
    supervisor._greet(supervisor._crew)
    assert told(supervisor) == [
        Believed("baseline-0", Health.READY),
        Listed("baseline-0", b"[]"),
        Scraped("baseline-0", SIGNALS, 4.0),
    ]


def test_a_refused_connection_of_one_worker_is_told_to_all(supervisor):
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    told(supervisor)
    supervisor._hear(supervisor._crew, ConnectRefused("baseline-0"))
    assert told(supervisor) == [Believed("baseline-0", Health.DOWN)]


def test_failures_of_all_workers_count_unless_one_of_them_had_an_answer_between(supervisor):
    failure = EndedElsewhere("baseline-0", answered=False)
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    worker = Metrics(SETTINGS.pool_specs(), supervisor._rows[1])
    told(supervisor)
    supervisor._hear(supervisor._crew, failure)
    worker.attempt("baseline", "baseline-0", "answered")
    supervisor._hear(supervisor._crew, failure)
    assert told(supervisor) == []
    supervisor._hear(supervisor._crew, failure)
    assert told(supervisor) == [Believed("baseline-0", Health.EJECTED, Suspicion.FAILURES)]


def test_errors_that_workers_tell_count_where_another_engine_has_answered_one_of_them():
    supervisor = supervising(PAIR)
    for backend in ("baseline-0", "speculative-0"):
        supervisor._found_out(ProbeSucceeded(backend))
    worker = Metrics(PAIR.pool_specs(), supervisor._rows[1])
    told(supervisor)
    for number in range(6):
        supervisor._hear(supervisor._crew, Erred("baseline-0", number, 2.0 * number))
    assert told(supervisor) == []
    worker.attempt("speculative", "speculative-0", "answered")
    supervisor._hear(supervisor._crew, Erred("baseline-0", 7, 20.0))
    assert told(supervisor) == [Believed("baseline-0", Health.EJECTED, Suspicion.ERRORS)]


def test_an_engine_that_has_answered_nothing_yet_speaks_against_no_other():
    supervisor = supervising(SETTINGS)
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    supervisor._hear(supervisor._crew, Erred("baseline-0", 0, 0.0))
    supervisor.take_over(plan_of(SETTINGS, PAIR), None, None, ())
    supervisor._found_out(ProbeSucceeded("speculative-0"))
    told(supervisor)
    for number in range(1, 8):
        supervisor._hear(supervisor._crew, Erred("baseline-0", number, 3.0 * number))
    assert told(supervisor) == []


def test_workers_hear_of_a_trial_that_an_engine_passed_by_making_tokens(supervisor):
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    for _ in range(2):
        supervisor._hear(supervisor._crew, EndedElsewhere("baseline-0", answered=False))
    supervisor._found_out(Revived("baseline-0"))
    assert told(supervisor)[-1] == Believed("baseline-0", Health.READY, Suspicion.TRIAL)
    signals = [EngineSignals(running=1.0, generation_tokens=tokens) for tokens in (5.0, 6.0)]
    for number, each in enumerate(signals):
        supervisor._found_out(Scraped("baseline-0", each, 6.0 + number))
    assert told(supervisor) == [
        Scraped("baseline-0", signals[0], 6.0),
        Believed("baseline-0", Health.READY),
        Scraped("baseline-0", signals[1], 7.0),
    ]


def test_what_workers_count_is_shown_together(supervisor):
    for row in supervisor._rows[1:3]:
        row.cells[row.place(REQUESTS.name, ("p", "r", "o"))] += 2
        row.cells[row.place(ATTEMPTS.name, ("p", "b", "answered"))] += 1
    assert supervisor.metrics.counted(REQUESTS) == {("p", "r", "o"): [4]}
    assert supervisor.metrics.counted(ATTEMPTS)["p", "b", "answered"] == [2]


def test_it_is_ready_where_an_engine_and_a_worker_are(supervisor):
    assert not supervisor.ready()
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    assert supervisor.ready()
    supervisor._crew.serving = False
    assert not supervisor.ready()


async def test_it_asks_an_engine_on_behalf_of_a_worker(supervisor):
    answered = asyncio.Event()
    supervisor._crew.send = lambda message: (supervisor._crew.told.append(message), answered.set())
    supervisor._hear(supervisor._crew, AskedWell(7, "baseline-0"))
    async with asyncio.timeout(10):
        await answered.wait()
    assert told(supervisor) == [Well(7, well=False)]


@pytest.mark.parametrize(
    "word",
    [ConnectRefused("baseline-0"), EndedElsewhere("baseline-0", answered=False), Erred("baseline-0", 1, 1.0)],
    ids=["refused", "failed", "error"],
)
def test_a_worker_that_has_not_heard_of_a_reload_speaks_of_the_engine_that_had_the_name_before(supervisor, word):
    moved = Settings(baseline=["http://127.0.0.1:9"], workers=2, engine_failures_max=1)
    supervisor.take_over(plan_of(SETTINGS, moved), None, None, ())
    supervisor._found_out(ProbeSucceeded("baseline-0"))
    heard, learned = supervisor._crew, []
    heard.up_to_date = False
    supervisor._learn = learned.append
    supervisor._hear(heard, word)
    assert learned == []
    heard.up_to_date = True
    supervisor._hear(heard, word)
    assert learned == [word]
