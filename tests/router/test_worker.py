"""`breakeven.worker`: a process that serves as it is told. `tests/field/test_workers.py` plays with whole processes."""

import asyncio
import logging
import os
import pickle
import socket
from datetime import UTC, datetime

import pytest

from breakeven.api_keys import ApiKeys
from breakeven.config import Settings
from breakeven.fleet import Believed, ConnectRefused, Scraped, Started
from breakeven.headers import Headers
from breakeven.recorder import Recorder
from breakeven.shared_table import new_table, rows_of
from breakeven.worker import Life, Questions, WorkerRouter
from breakeven.worker_messages import (
    AskedWell,
    Assignment,
    Drain,
    Hurry,
    Listed,
    Measured,
    Part,
    PolicySwitched,
    Reconfigured,
    TookOver,
    Well,
    encode,
)
from breakeven_policies.measurement import measurement_of
from breakeven_policies.snapshot import EngineSignals, Health
from tests.policies.tables import table as a_table

SETTINGS = Settings(baseline=["http://127.0.0.1:1"], workers=2)


class Sent:
    """A channel whose other end is the test."""

    def __init__(self):
        self.sent = []
        self.send = self.sent.append


@pytest.fixture
def table():
    descriptor = new_table(3)
    yield descriptor
    os.close(descriptor)


def a_worker(table, row=1, settings=SETTINGS, keys=None):
    channel = Sent()
    recorder = Recorder(None, lambda: datetime.now(UTC))
    return WorkerRouter(settings, recorder, None, Assignment(1, b"", (), table, row, 3), channel, keys), channel


async def test_it_believes_shows_and_lists_what_it_is_told(table):
    router, _ = a_worker(table)
    for message in (
        Believed("baseline-0", Health.READY),
        Scraped("baseline-0", EngineSignals(running=2.0), 1.0),
        Listed("baseline-0", b'[{"id": "m", "odd": "\\ud800"}]'),
    ):
        router.hear(message)
    (backend,) = router.fleet.snapshot(2.0).pools[0].backends
    assert (backend.health, backend.signals.running, backend.models) == (Health.READY, 2.0, {"m"})
    assert b'"id":"m"' in router._directory.listing()
    assert router.ready()
    router.hear(Part())
    assert not router.ready()


async def test_it_decides_by_the_policy_that_it_is_told(table):
    router, _ = a_worker(table)
    router.hear(PolicySwitched("least_loaded"))
    assert router._policy.current.name == "least_loaded"
    router.hear(Reconfigured(pickle.dumps((SETTINGS.model_copy(update={"threshold": 0.5}), None))))
    assert router._policy.current.name == "least_loaded"
    router.hear(PolicySwitched(None))
    assert router._policy.current.temperature_max == 0.5


async def test_what_tables_say_of_pools_it_is_told_and_keeps_over_a_reload(table):
    router, _ = a_worker(table)
    measured = {"baseline": measurement_of(a_table(), a_table().setups[0])}
    router.hear(Measured(measured))
    router.hear(Reconfigured(pickle.dumps((SETTINGS, None))))
    assert router.measurements == measured
    router.hear(Measured({}))
    assert router.measurements == {}


async def test_it_counts_in_its_own_row_and_tells_what_only_it_sees(table):
    first, channel = a_worker(table, 1)
    second, _ = a_worker(table, 2)
    first.fleet.apply(Started("baseline-0"))
    first.metrics.attempt("baseline", "baseline-0", "lost")
    assert second.fleet.snapshot(0.0).pools[0].backends[0].in_flight == 1
    assert (first._running(), second._running()) == (1, 0)
    labels = ("baseline", "baseline-0", "lost")
    assert dict(rows_of(table, 3)[1].series("breakeven_upstream_attempts_total"))[labels] == [1]
    first.fleet.apply(ConnectRefused("baseline-0"))
    assert channel.sent == [ConnectRefused("baseline-0")]


async def test_a_question_is_answered_by_its_number_and_a_departed_client_does_not_matter():
    channel = Sent()
    questions = Questions(channel)
    first, second, gone = (asyncio.create_task(questions.is_well("b")) for _ in range(3))
    await asyncio.sleep(0)
    assert channel.sent == [AskedWell(number, "b") for number in range(3)]
    gone.cancel()
    questions.answer(Well(1, well=False))
    questions.answer(Well(1, well=True))
    questions.answer(Well(0, well=True))
    assert (await first, await second) == (True, False)
    await asyncio.wait([gone])
    questions.answer(Well(2, well=True))
    left = asyncio.create_task(questions.is_well("b"))
    await asyncio.sleep(0)
    questions.give_up()
    assert await left
    async with asyncio.timeout(10):
        assert await questions.is_well("b")  # whoever asks later


async def test_the_level_of_the_log_is_that_of_the_settings_which_it_is_told(table, monkeypatch):
    levels = []
    monkeypatch.setattr(logging.getLogger(), "setLevel", levels.append)
    router, _ = a_worker(table)
    router.hear(Reconfigured(pickle.dumps((SETTINGS.model_copy(update={"log_level": "debug"}), None))))
    assert levels == ["DEBUG"]


async def test_its_keys_are_those_of_the_supervisor_whatever_has_become_of_their_file(table, tmp_path):
    settings = SETTINGS.model_copy(update={"api_keys_file": tmp_path / "gone"})
    router, _ = a_worker(table, settings=settings, keys=ApiKeys({"first": "sk-1"}))

    def holder(key):
        return router._serving._keys.holder(Headers([(b"x-api-key", key)]))

    assert (holder(b"sk-1"), holder(b"sk-2")) == ("first", None)
    router.hear(Reconfigured(pickle.dumps((settings, ApiKeys({"second": "sk-2"})))))
    assert (holder(b"sk-1"), holder(b"sk-2")) == (None, "second")


async def test_it_says_which_settings_it_serves_by_and_nothing_where_it_cannot_read_their_files(table, tmp_path):
    router, channel = a_worker(table)
    router.hear(Reconfigured(pickle.dumps((SETTINGS, None)), 3))
    assert channel.sent == [TookOver(3)]
    gone = SETTINGS.model_copy(update={"tls_cert": tmp_path / "gone", "tls_key": tmp_path / "gone"})
    router.hear(Reconfigured(pickle.dumps((gone, None)), 4))
    assert channel.sent == [TookOver(3)]


async def test_what_comes_before_the_router_exists_is_not_lost(table):
    life = Life()
    life._hear(Assignment(1, b"", (), table, 1, 3))
    life._hear(Believed("baseline-0", Health.READY))
    assert (await life.assigned).number == 1
    router, _ = a_worker(table)
    life.begin(router)
    assert router.fleet.health("baseline-0") is Health.READY
    life._hear(Believed("baseline-0", Health.DOWN))
    assert router.fleet.health("baseline-0") is Health.DOWN
    life._hear(Drain())
    assert (life.stop.is_set(), life.at_once.is_set(), life.succeeded) == (True, False, False)
    life._hear(Drain(succeeded=True))
    assert life.succeeded
    life._hear(Hurry())
    assert life.at_once.is_set()


async def test_a_supervisor_that_is_gone_ends_it_also_before_it_has_begun(table):
    for assigned in (False, True):
        life = Life()
        ours, theirs = socket.socketpair()
        await life.channel.open(ours)
        if assigned:
            theirs.sendall(encode(Assignment(1, b"", (), table, 1, 3)))
            life.begin(a_worker(table)[0])
        theirs.close()
        async with asyncio.timeout(10):
            await life.stop.wait()
        assert (await life.assigned is None) is not assigned
