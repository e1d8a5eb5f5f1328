"""A contest: all arms get the same requests at the same times, on idle fleets, and are believed only if they may be."""

import asyncio

import aiohttp
import pytest

from breakeven_bench import contest
from breakeven_bench.contest import ContestSettings, EngineBusyError, run_rate, warm_up
from breakeven_bench.fleets import Fleet
from breakeven_bench.load import Tally, new_session
from breakeven_bench.record import ErrorClass
from breakeven_bench.summary import Target
from tests.bench.runs import arm
from tests.bench.streaming_server import DONE, chunk, respond, serving

SETTINGS = ContestSettings(seconds=2.0, seed=3, time_scale=20.0, run_id="run", target=Target(), stream_interval=4)


async def answer_at_once(server, request, body):
    return await respond(request, chunk("a", 2), chunk("b", 3, "stop"), DONE)


def page(running=0, steps=None, late=0):
    """A metrics page; without `steps`, that of a real engine."""
    text = f"vllm:num_requests_running {running}\n"
    if steps is not None:
        text += f"breakeven_sim_steps_total {steps}\nbreakeven_sim_steps_late_total {late}\n"
    return text


def fleet(name, server):
    return Fleet(arm(name), server.url, (server.url, server.url))


async def contest_of(metrics, names=("threshold", "two-plain"), script=answer_at_once):
    """The result of a rate of 10/s over 2 s, and the servers of the arms."""
    async with serving(script, metrics=metrics) as first, serving(script, metrics=metrics) as second:
        servers = [first, second][: len(names)]
        fleets = [fleet(name, server) for name, server in zip(names, servers, strict=True)]
        tallies = {name: Tally() for name in names}
        async with new_session() as session:
            result = await run_rate(session, fleets, 10.0, SETTINGS, tallies)
    return result, servers, tallies


async def test_an_engine_that_still_works_for_nobody_is_an_error(monkeypatch):
    monkeypatch.setattr(contest, "IDLE_TIMEOUT_S", 0.05)
    with pytest.raises(EngineBusyError, match=r"threshold \(T > 1.0\): 2 requests still run 0.05 s after"):
        await contest_of(lambda _: page(running=1))


async def test_an_engine_without_a_metrics_page_is_an_error():
    with pytest.raises(aiohttp.ClientResponseError, match="404"):
        await contest_of(None)


async def test_engines_that_become_idle_are_waited_for():
    looks = iter(range(100))
    result, _, _ = await contest_of(lambda _: page(running=int(next(looks) < 4)))
    assert len(result.runs.runs) == 2


async def test_steps_that_came_late_before_the_run_do_not_count_and_those_in_it_do():
    counts = {"steps": 1000, "late": 900}

    def growing(server):
        if server.bodies:
            counts.update(steps=2000, late=960)
        return page(**counts)

    result, _, _ = await contest_of(growing, names=("threshold",))
    assert "6.0% of engine steps late" in result.runs.runs[0].doubts


async def test_real_engines_have_no_steps_to_be_late_with():
    result, _, _ = await contest_of(lambda _: page())
    assert not any("steps" in doubt for run in result.runs.runs for doubt in run.doubts)


async def test_all_arms_get_the_same_requests_at_the_same_times():
    result, servers, _ = await contest_of(lambda _: page(steps=0))
    first, second = (result.records[name] for name in ("threshold", "two-plain"))
    assert len(first) == 20
    assert [record.scheduled_s for record in first] == [record.scheduled_s for record in second]
    asked = [
        sorted((body["temperature"], body["seed"], body["max_tokens"]) for body in server.bodies) for server in servers
    ]
    assert asked[0] == asked[1]
    assert {body["stream_interval"] for server in servers for body in server.bodies} == {4}


async def test_no_two_requests_of_a_contest_share_a_cache_salt():
    _, servers, _ = await contest_of(lambda _: page(steps=0))
    salts = [body["cache_salt"] for server in servers for body in server.bodies]
    assert len(set(salts)) == len(salts) == 40


async def test_the_result_names_its_rate_its_arms_and_how_far_they_came():
    result, _, tallies = await contest_of(lambda _: page(steps=0))
    assert result.runs.rate_per_s == 10.0
    assert [run.arm.name for run in result.runs.runs] == ["threshold", "two-plain"]
    assert [(tally.planned, tally.finished, tally.failed) for tally in tallies.values()] == [(20, 20, 0), (20, 20, 0)]


async def test_requests_that_fail_are_kept_as_failures():
    async def refuse(server, request, body):
        return aiohttp.web.Response(status=503)

    result, _, _ = await contest_of(lambda _: page(steps=0), script=refuse)
    assert {record.error for record in result.records["threshold"]} == {ErrorClass.HTTP_5XX}


async def test_a_warm_up_asks_every_arm_and_is_forgotten():
    async with serving(answer_at_once) as first, serving(answer_at_once) as second, new_session() as session:
        await warm_up(session, [fleet("threshold", first), fleet("two-plain", second)], SETTINGS)
        await asyncio.sleep(0)
        assert [len(server.bodies) for server in (first, second)] == [4, 4]
        assert {body["max_tokens"] for server in (first, second) for body in server.bodies} == {8}
