"""Work in steps: one in each turn, an error ends it, and who has left or is told to go hears of nothing else."""

import asyncio
from collections.abc import Iterator

import pytest

from breakeven.errors import too_large
from breakeven.turns import InTurns


class Work:
    """Counts its steps, and what it was told."""

    def __init__(self, steps: int, failure: Exception | None = None) -> None:
        self.done = 0
        self.refused: list[int] = []
        self.abandoned = 0
        self.given_up: list[InTurns] = []
        self._failure = failure
        self.turns = InTurns(
            self._steps(steps), lambda error: self.refused.append(error.status), self._abandon, self.given_up.append
        )

    def _steps(self, count: int) -> Iterator[None]:
        for _ in range(count):
            self.done += 1
            yield
        if self._failure is not None:
            raise self._failure

    def _abandon(self) -> None:
        self.abandoned += 1


async def run(turns: int) -> None:
    """Let the loop turn so often."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_an_error_of_a_step_is_a_refusal_and_ends_it() -> None:
    work = Work(1, too_large(1))
    work.turns.step()
    await run(9)
    work.turns.step()
    assert (work.done, work.refused) == (1, [413])


async def test_a_fault_of_a_step_is_told_once_and_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    work = Work(1, KeyError("a fault of ours"))
    work.turns.step()
    await run(9)
    work.turns.step()
    assert (work.done, work.refused, work.given_up) == (1, [], [work.turns])
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_who_leaves_stops_it() -> None:
    work = Work(9)
    work.turns.step()
    work.turns.on_client_gone()
    await run(9)
    assert (work.done, work.abandoned, work.refused) == (1, 1, [])


async def test_a_router_that_stops_refuses() -> None:
    work = Work(9)
    work.turns.step()
    work.turns.on_expired()
    await run(9)
    assert (work.done, work.abandoned, work.refused) == (1, 0, [503])


async def test_others_get_their_turn_between_two_steps() -> None:
    work, seen = Work(3), []
    work.turns.step()
    work.turns.on_client_slow()  # nothing is written yet
    work.turns.on_client_reading()
    for _ in range(4):
        seen.append(work.done)
        await run(1)
    assert (seen, work.refused, work.abandoned) == ([1, 2, 3, 3], [], 0)
