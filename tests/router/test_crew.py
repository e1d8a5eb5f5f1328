"""`breakeven.crew`: workers are started, replaced, told, and led out."""

import asyncio
import errno
import os
import socket
import sys
from contextlib import asynccontextmanager

import pytest

from breakeven import crew as crew_module
from breakeven.addresses import bound_sockets
from breakeven.clock import monotonic_s
from breakeven.config import Settings
from breakeven.crew import PAUSE_MAX_S, PAUSE_MIN_S, SETTLED_S, Crew, pause_before
from breakeven.fleet import ConnectRefused, SignalsForgotten
from breakeven.shared_table import new_table, rows_of
from breakeven.wiring import StartError
from breakeven.worker_messages import Listed

IN_FLIGHT, REQUESTS = "breakeven_requests_in_flight", "breakeven_requests_total"
ROWS = 5


class Stage:
    """A crew of two idle workers."""

    def __init__(self, how):
        self.table = new_table(ROWS)
        self.rows = rows_of(self.table, ROWS)
        self.greeted, self.heard, self.replaced = [], [], asyncio.Semaphore(0)
        self.crew = Crew(
            Settings(baseline=["http://127.0.0.1:1"], workers=2),
            self.table,
            self.rows,
            monotonic_s,
            greet=self.greeted.append,
            hear=lambda worker, message: self.heard.append((worker.number, message)),
            on_replaced=self.replaced.release,
            command=(sys.executable, "-m", "tests.router.idle_worker", how),
        )

    def sums(self, metric):
        return sum(sum(numbers) for row in self.rows for _, numbers in row.series(metric))

    async def serving(self, number):
        """Wait until so many of those who were ever started serve."""
        while len(self.greeted) < number:  # noqa: ASYNC110  # a process tells nobody that it has been started
            await asyncio.sleep(0.01)
        for worker in self.greeted:
            await worker.serving.wait()


@asynccontextmanager
async def staged(how="obeys"):
    stage = Stage(how)
    try:
        stage.port = await stage.crew.listen_at(await bound_sockets("127.0.0.1", 0))
        yield stage
    finally:
        stage.crew.close()
        for worker in stage.greeted:
            await worker.ended.wait()
        os.close(stage.table)


@pytest.mark.parametrize(
    ("lived_s", "before_s", "pause_s"),
    [
        (0.0, None, 0.0),
        (SETTLED_S, 8.0, 0.0),
        (0.1, 0.0, PAUSE_MIN_S),
        (0.1, PAUSE_MIN_S, 2 * PAUSE_MIN_S),
        (0.1, PAUSE_MAX_S, PAUSE_MAX_S),
    ],
)
def test_a_worker_that_dies_again_soon_after_its_start_is_replaced_after_a_pause_that_doubles(
    lived_s, before_s, pause_s
):
    assert pause_before(lived_s, before_s) == pause_s


@pytest.mark.slow
async def test_a_worker_that_ends_before_it_served_is_an_error_at_the_start():
    with pytest.raises(StartError, match=r"number \d ended with 3 before it served"):
        async with staged("dies"):
            pass


@pytest.mark.slow
async def test_a_killed_worker_is_replaced_its_counts_stay_and_what_it_held_is_held_no_more():
    async with staged() as stage:
        assert (stage.sums(IN_FLIGHT), stage.sums(REQUESTS)) == (2, 2)
        victim = stage.greeted[0]
        victim.kill()
        await stage.replaced.acquire()
        assert (stage.sums(IN_FLIGHT), stage.sums(REQUESTS)) == (1, 2)
        assert victim.process.returncode == -9
        await stage.serving(3)
        assert (stage.sums(IN_FLIGHT), stage.sums(REQUESTS)) == (2, 3)
        assert await stage.crew.drain(10)
        assert stage.sums(IN_FLIGHT) == 0


@pytest.mark.slow
@pytest.mark.parametrize("lacking", ["create_subprocess_exec", "socketpair"])
async def test_a_worker_that_cannot_be_started_is_tried_again(monkeypatch, lacking):
    monkeypatch.setattr(crew_module, "PAUSE_MIN_S", 0.01)
    owner = asyncio if lacking == "create_subprocess_exec" else socket
    start, failures = getattr(owner, lacking), iter(range(4))

    def cannot(*arguments, **how):
        if next(failures, None) is None:
            return start(*arguments, **how)
        raise OSError(errno.EAGAIN, "no process")

    async with staged() as stage:
        monkeypatch.setattr(owner, lacking, cannot)
        stage.greeted[0].kill()
        async with asyncio.timeout(20):
            await stage.serving(3)
        assert next(failures, None) is None


@pytest.mark.slow
async def test_a_worker_that_leaves_is_replaced_while_it_still_lives():
    async with staged() as stage:
        leaving = stage.greeted[0]
        leaving.send(SignalsForgotten("leave"))
        await stage.replaced.acquire()
        assert leaving.process.returncode is None
        await stage.serving(3)
        assert len({worker.row for worker in stage.greeted}) == 3
        assert stage.crew.serving


@pytest.mark.slow
async def test_draining_closes_the_port_and_waits_for_all_of_them():
    async with staged() as stage:
        with socket.create_connection(("127.0.0.1", stage.port)):
            pass
        assert await stage.crew.drain(10)
        assert [worker.process.returncode for worker in stage.greeted] == [0, 0]
        assert not stage.crew.serving
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", stage.port))


@pytest.mark.slow
async def test_workers_hear_that_others_serve_at_their_sockets_which_stay_open_there():
    async with staged() as stage:
        with stage.crew.sockets[0].dup() as held:
            assert await stage.crew.drain(10, idle_s=1)
            assert sorted(stage.heard) == [(1, ConnectRefused("succeeded")), (2, ConnectRefused("succeeded"))]
            with socket.create_connection(held.getsockname()):
                pass


@pytest.mark.slow
async def test_who_does_not_end_in_time_is_killed(monkeypatch):
    monkeypatch.setattr(crew_module, "PATIENCE_S", 0.0)
    async with staged("deaf") as stage:
        assert not await stage.crew.drain(0.1)
        assert [worker.process.returncode for worker in stage.greeted] == [-9, -9]


@pytest.mark.slow
async def test_draining_that_is_cancelled_hurries_them():
    async with staged("deaf") as stage:
        draining = asyncio.create_task(stage.crew.drain(60))
        await asyncio.sleep(0)
        draining.cancel()
        await asyncio.wait([draining])
        assert draining.cancelled()
        assert [worker.process.returncode for worker in stage.greeted] == [0, 0]


@pytest.mark.slow
async def test_a_worker_that_takes_nothing_is_killed_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(crew_module, "UNSENT_BYTES_MAX", 1_000_000)
    async with staged() as stage:
        victim = stage.greeted[0]
        os.kill(victim.process.pid, 19)  # SIGSTOP
        for _ in range(30):
            victim.send(Listed("b", b"x" * 100_000))
        await stage.replaced.acquire()
        assert victim.process.returncode == -9
        assert stage.greeted[1].process.returncode is None


@pytest.mark.slow
async def test_what_a_worker_says_is_heard_with_its_number():
    async with staged() as stage:
        stage.crew._heard(stage.greeted[1], ConnectRefused("b"))
        assert stage.heard == [(2, ConnectRefused("b"))]


@pytest.mark.slow
async def test_a_worker_is_up_to_date_once_it_says_so_and_one_that_comes_is_from_the_start():
    async with staged() as stage:
        first = stage.greeted[0]
        assert stage.crew.is_up_to_date(first)
        for _ in range(2):
            stage.crew.reconfigure(Settings(baseline=["http://127.0.0.1:2"], workers=2), None)
            assert not stage.crew.is_up_to_date(first)
        first.kill()
        await stage.serving(3)
        assert stage.crew.is_up_to_date(stage.greeted[2])
        async with asyncio.timeout(20):
            while not stage.crew.is_up_to_date(stage.greeted[1]):  # noqa: ASYNC110  # the list tells nobody
                await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_who_comes_while_the_router_is_not_ready_any_more_hears_of_it():
    async with staged() as stage:

        async def heard(times):
            async with asyncio.timeout(20):
                while len(stage.heard) < times:  # noqa: ASYNC110  # the list tells nobody
                    await asyncio.sleep(0.01)

        stage.crew.part()
        await heard(2)
        stage.greeted[0].kill()
        await heard(3)
        assert [number for number, _ in sorted(stage.heard, key=lambda each: each[0])] == [1, 1, 2]
