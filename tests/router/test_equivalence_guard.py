"""`breakeven.equivalence_guard`: engines are asked the same, and what differs too often is told and taken out."""

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import Any

import pytest

from breakeven.config import Settings
from breakeven.config_sources import build_settings
from breakeven.equivalence import PROMPTS, TOKENS, Finding
from breakeven.equivalence_guard import EquivalenceGuard, Pair, broken_line, busy, pairs_of
from breakeven.fleet import Drained, Fleet, ModelsListed, ProbeSucceeded, Resumed, Scraped
from breakeven.metric_table import EQUIVALENCE_CHECKS
from breakeven.metrics import Metrics
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolKind, PoolView
from tests.router.scripted_engine import says, scripted_engine

pytestmark = pytest.mark.usefixtures("clean_environment")


def says_tokens(*ids):
    choice = {"text": "".join(map(chr, ids)), "token_ids": list(ids)}
    return says(200, json.dumps({"choices": [choice]}).encode())


class Site:
    """A plain and a speculative engine, both ready, and the guard that compares them."""

    def __init__(self, plain, spec, **values: Any):
        self.plain, self.spec = plain, spec
        self.addresses = {
            "baseline": f"http://127.0.0.1:{plain.port}",
            "speculative": f"http://127.0.0.1:{spec.port}",
        }
        self.settings = self.settings_with(**values)
        self.fleet = Fleet(self.settings.pool_specs())
        self.metrics = Metrics(self.settings.pool_specs())
        for backend in ("baseline-0", "speculative-0"):
            self.fleet.apply(ProbeSucceeded(backend))
            self.fleet.apply(ModelsListed(backend, frozenset({"m"})))
        self.guard = EquivalenceGuard(self.settings, self.snapshot, self.metrics, self.fleet.apply)
        self.turn = 0

    def settings_with(self, **values):
        given = {"equivalence_interval_s": 1, "equivalence_window": 5, **self.addresses, **values}
        return build_settings(Settings, given)

    def snapshot(self):
        return self.fleet.snapshot(0.0)

    async def compare(self, times=1):
        for _ in range(times):
            await self.guard.compare(self.turn)
            self.turn += 1

    @property
    def results(self):
        return {labels[2]: int(count) for labels, (count,) in self.metrics.counted(EQUIVALENCE_CHECKS).items()}

    @property
    def health(self):
        return self.fleet.health("speculative-0")


USUAL = says_tokens(1, 2, 3)


@asynccontextmanager
async def site(plain=USUAL, spec=USUAL, **values):
    async with (
        scripted_engine(v1_completions=plain) as first,
        scripted_engine(v1_completions=spec) as second,
    ):
        yield Site(first, second, **values)


@pytest.mark.parametrize("answer", [says(500), says(200, b"{}"), says(200, b'{"choices": []}'), says(200, b"\xff")])
async def test_an_engine_that_does_not_answer_is_counted_and_says_nothing(answer):
    async with site(spec=answer) as made:
        await made.compare()
        assert made.results == {"failed": 1}
        assert made.metrics.equivalence == {}


async def test_engines_that_cannot_be_compared_are_told_of_once(caplog):
    async with site(spec=says(404)) as made:
        await made.compare(3)
        made.spec.answers["/v1/completions"] = says(500)
        await made.compare(2)
        made.spec.answers["/v1/completions"] = USUAL
        await made.compare()
        made.spec.answers["/v1/completions"] = says(500)
        await made.compare()
    both = "equivalence: speculative-0 and baseline-0 cannot be compared: POST /v1/completions answered"
    assert [record.message for record in caplog.records] == [f"{both} 404", f"{both} 500", f"{both} 500"]


async def test_where_requests_wait_no_further_ones_are_added():
    async with site() as made:
        made.fleet.apply(Scraped("baseline-0", EngineSignals(running=8.0, waiting=1.0), 0.0))
        await made.compare()
        assert made.results == {"skipped": 1}
        assert made.plain.heads == made.spec.heads == []


async def test_without_a_pair_that_is_ready_nobody_is_asked():
    async with site() as made:
        made.fleet.apply(Drained("speculative-0"))
        await made.compare()
        assert (made.results, made.plain.heads) == ({}, [])


async def test_the_plain_engine_is_asked_twice_and_the_speculative_one_once():
    async with site() as made:
        await made.compare()
        assert made.results == {"same": 1}
        assert (made.plain.times_asked("/v1/completions"), made.spec.times_asked("/v1/completions")) == (2, 1)
        assert made.metrics.equivalence == {"baseline-0": Finding(0.0, 1), "speculative-0": Finding(0.0, 1)}


async def test_an_engine_that_answers_otherwise_too_often_is_told_of_once_and_goes_on_serving(caplog):
    async with site(spec=says_tokens(1, 9, 9)) as made:
        await made.compare(7)
        assert made.results == {"diverged": 7}
        assert made.metrics.equivalence["speculative-0"] == Finding(1.0, 5, 1, broken=True)
        assert made.health is Health.READY
    (told,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert told == (
        "equivalence: speculative-0: 5 of 5 greedy answers differ from those of plain engines,"
        " from token 1 on in the middle"
    )


async def test_where_that_is_wanted_it_is_given_no_more_requests_and_begins_anew_once_resumed(caplog):
    async with site(spec=says_tokens(9), equivalence_action="drain") as made:
        await made.compare(6)
        assert made.health is Health.DRAINING
        assert made.spec.times_asked("/v1/completions") == 5
        assert made.metrics.equivalence["speculative-0"].broken
        assert "it is given no more requests until it is resumed" in caplog.text
        made.fleet.apply(Resumed("speculative-0"))
        await made.compare()
        assert made.metrics.equivalence["speculative-0"] == Finding(1.0, 1, 0)


async def test_an_engine_that_answers_as_it_should_again_is_told_of(caplog):
    caplog.set_level(logging.INFO)
    async with site(spec=says_tokens(9)) as made:
        await made.compare(5)
        made.spec.answers["/v1/completions"] = says_tokens(1, 2, 3)
        await made.compare(3)
        assert not made.metrics.equivalence["speculative-0"].broken
    assert "speculative-0 answers as plain engines do again" in caplog.text


async def test_switched_off_everything_is_forgotten_and_nothing_asked():
    async with site() as made:
        await made.compare()
        made.guard.reconfigure(made.settings_with(equivalence_interval_s=0))
        assert made.metrics.equivalence == {}
        running = asyncio.create_task(made.guard.run())
        await asyncio.sleep(0)
        assert not running.done()
        running.cancel()


async def test_engines_that_are_others_now_begin_anew():
    async with site() as made:
        await made.compare()
        made.guard.reconfigure(made.settings, strangers=["speculative-0"])
        assert list(made.metrics.equivalence) == ["baseline-0"]


async def test_it_compares_at_its_interval_and_outlives_a_comparison_that_goes_wrong(caplog):
    async with site() as made:
        settings = made.settings.model_copy(update={"equivalence_interval_s": 0.001})
        snapshots = iter([None])  # the first is no fleet
        broken = EquivalenceGuard(settings, lambda: next(snapshots, made.snapshot()), made.metrics, made.fleet.apply)
        running = asyncio.create_task(broken.run())
        async with asyncio.timeout(20):
            await made.plain.until_asked("/v1/completions", 2)
        running.cancel()
    assert "equivalence: the comparison failed" in caplog.text


def fleet(*pools):
    return FleetSnapshot(0.0, tuple(pools))


def backend(name, *models, **values):
    return BackendView(name, models=frozenset(models) or None, **values)


def test_each_speculative_engine_meets_each_plain_one_that_serves_the_same_model():
    made = fleet(
        PoolView("plain", PoolKind.PLAIN, (backend("p-0", "m", "n"), backend("p-1"), backend("p-2", "m"))),
        PoolView("k3", PoolKind.SPECULATIVE, (backend("s-0", "n", "m"), backend("s-1", "other"))),
        PoolView("k5", PoolKind.SPECULATIVE, (backend("t-0", "m", health=Health.LOADING), backend("t-1"))),
    )
    assert pairs_of(made) == [Pair("k3", "s-0", "p-0", "m"), Pair("k3", "s-0", "p-2", "m")]


@pytest.mark.parametrize(
    ("signals", "told"), [(None, False), (EngineSignals(), False), (EngineSignals(waiting=2), True)]
)
def test_an_engine_whose_queue_is_unknown_is_not_taken_for_busy(signals, told):
    made = fleet(PoolView("plain", PoolKind.PLAIN, (backend("p-0", "m", signals=signals),)))
    assert busy(made, Pair("k3", "s-0", "p-0", "m")) is told


def test_what_a_person_is_told():
    assert broken_line("s-0", Finding(0.6, 20, None), drained=False) == (
        "s-0: 12 of 20 greedy answers differ from those of plain engines"
    )


async def test_every_pair_meets_every_prompt():
    asked = []

    async def remember(backend, model, prompt):
        asked.append((backend, prompt))
        raise AssertionError

    async with site() as made:
        made.guard._ask = remember
        for turn in range(len(PROMPTS)):
            with pytest.raises(AssertionError):
                await made.guard.compare(turn)
    assert {prompt for _, prompt in asked} == set(PROMPTS)
    assert TOKENS <= 64
