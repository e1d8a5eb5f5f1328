"""`breakeven.takeover`: one process at a time may take over, and where it does not come to serve nothing changes."""

import asyncio
import logging

import pytest

from breakeven.notify import Notifier
from breakeven.successor import NoSuccessorError
from breakeven.takeover import INIT, Takeover

PID = 100


@pytest.fixture(autouse=True)
def _only_what_is_wrong(caplog):
    caplog.set_level(logging.WARNING)


SOCKETS = [("api", object())]


class Process:
    """A successor whose fate the test decides."""

    def __init__(self, number):
        self.pid = PID + number
        self.fate = asyncio.get_running_loop().create_future()
        self.ended = self.closed = 0

    async def ready(self, within_s):
        self.within_s = within_s
        await self.fate

    async def end(self):
        self.ended += 1

    def close(self):
        self.closed += 1


class House:
    """A takeover whose processes are the test's, and what the service manager hears."""

    def __init__(self, pid=PID, failure=None):
        self.processes, self.lines, self._failure = [], [], failure
        self.came = asyncio.Event()
        notifier = Notifier(None)
        notifier.tell = lambda *lines: self.lines.extend(lines)
        self.takeover = Takeover(self._start, lambda: SOCKETS, notifier, pid, within_s=7.0)
        self.running = asyncio.create_task(self.takeover.run())

    def _start(self, sockets):
        assert sockets == SOCKETS
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self.processes.append(Process(len(self.processes) + 1))
        self.came.set()
        return self.processes[-1]

    async def next_process(self):
        self.came.clear()
        self.takeover.ask()
        await self.came.wait()
        return self.processes[-1]

    async def settle(self):
        for _ in range(5):
            await asyncio.sleep(0)


async def test_one_that_does_not_come_to_serve_changes_nothing_and_the_next_may_try(caplog):
    house = House()
    first = await house.next_process()
    first.fate.set_exception(NoSuccessorError("process 101 ended with 2 before it served, see above"))
    await house.settle()
    assert (first.closed, first.ended, house.takeover.succeeded) == (1, 1, False)
    told = "not taken over, this process serves on: process 101 ended with 2 before it served, see above"
    assert caplog.messages == [told]
    assert house.lines == ["STATUS=not taken over: process 101 ended with 2 before it served, see above"]
    second = await house.next_process()
    second.fate.set_result(None)
    await house.running
    assert (second.closed, second.ended, house.takeover.succeeded) == (1, 0, True)


@pytest.mark.parametrize("failure", [OSError(11, "no process"), RuntimeError("no thread")])
async def test_where_no_process_can_be_started_this_one_serves_on(failure, caplog):
    house = House(failure=failure)
    house.takeover.ask()
    await house.settle()
    assert not house.running.done()
    assert caplog.messages == [f"not taken over, this process serves on: {failure}"]
    (await house.next_process()).fate.set_result(None)
    await house.running


async def test_it_ends_as_soon_as_another_process_serves_and_the_service_manager_hears_which(caplog):
    caplog.set_level(logging.INFO)
    house = House()
    process = await house.next_process()
    assert process.within_s == 7.0
    assert house.lines == []
    process.fate.set_result(None)
    await house.running
    assert house.lines == ["MAINPID=101"]
    assert caplog.messages[-1] == "process 101 serves now; this one finishes what it has begun and ends"


async def test_who_asks_again_meanwhile_or_afterwards_starts_nothing(caplog):
    house = House()
    process = await house.next_process()
    house.takeover.ask()
    process.fate.set_result(None)
    await house.running
    house.takeover.ask()
    await house.settle()
    assert len(house.processes) == 1
    assert caplog.messages == ["SIGUSR2: process 100 is being taken over already"] * 2


async def test_where_this_process_is_told_to_end_meanwhile_nobody_takes_over():
    house = House()
    process = await house.next_process()
    house.running.cancel()
    await asyncio.gather(house.running, return_exceptions=True)
    assert (process.closed, process.ended, house.takeover.succeeded) == (1, 1, False)


async def test_the_first_process_of_a_container_is_never_taken_over(caplog):
    house = House(INIT)
    house.takeover.ask()
    await house.settle()
    assert house.processes == []
    assert caplog.messages == ["not taken over: this is process 1, whose end would end every other one here"]
    house.running.cancel()
