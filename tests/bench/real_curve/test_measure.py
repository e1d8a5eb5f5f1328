"""What is measured belongs to the engine that was asked, and to nobody else's requests; on scripted engines."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from aiohttp import web

from breakeven_bench.load import new_session
from breakeven_bench.real_curve import measure
from breakeven_bench.real_curve.extent import QUICK
from breakeven_bench.real_curve.fleet import Engine
from breakeven_bench.real_curve.greedy import NoAnswerError
from breakeven_bench.real_curve.measure import MeasureError, acceptance, arms, compare, curve, times, warm_up
from breakeven_bench.real_curve.result import BASELINE, DIRECT, GREEDY, PROBABILISTIC, ROUTER
from breakeven_bench.real_curve.timing import Place
from tests.bench.streaming_server import DONE, chunk, respond, serving

EXTENT = replace(
    QUICK,
    temperatures=(0.0, 1.0),
    acceptance_prompts=4,
    greedy_prompts=3,
    timing_temperatures=(0.0, 1.0),
    concurrencies=(1, 2),
    timing_requests=(1, 2),
    rounds=3,
)

TOKENS = 5
"""Of every scripted answer: two in its first event, three in its second."""


STEP_S = 0.001
"""Of a scripted engine: events that come at once leave no gap to measure."""


class Scripted:
    """Engine and router in one: answers in the name of a pool and counts what it generated, and what it is told to."""

    def __init__(self, name):
        self.name = name
        self.pool = name
        self.running = 0
        self.others_tokens = 0
        self.status = 200
        self.said = ["a", "b", "c"]

    async def __call__(self, server, request, body):
        if self.status != 200:
            return await refuse(request, self.status)
        headers = {"x-breakeven-pool": self.pool}
        if body.get("logprobs"):
            return await whole(request, self.said)
        answer = await respond(request, chunk("a", 2), headers=headers)
        await asyncio.sleep(STEP_S)
        await answer.write(chunk("b", TOKENS, "stop") + DONE)
        return answer

    def page(self, server):
        answers = len(server.bodies)
        return (
            f"vllm:generation_tokens_total {TOKENS * answers + (self.others_tokens if answers else 0)}\n"
            f"vllm:num_requests_running {self.running}\n"
            f"vllm:spec_decode_num_drafts_total {2 * answers}\n"
            f"vllm:spec_decode_num_draft_tokens_total {6 * answers}\n"
            f"vllm:spec_decode_num_accepted_tokens_total {3 * answers}\n"
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="0"}} {3 * answers}\n'
        )


async def refuse(request, status):
    return web.Response(status=status, text="not now")


async def whole(request, said):
    content = [{"token": text, "logprob": -0.1, "top_logprobs": []} for text in said]
    return web.json_response({"choices": [{"logprobs": {"content": content} if said else None}]})


class Stage:
    """Three scripted engines by name, their servers, and what was reported."""

    def __init__(self, engines, scripts, servers, session):
        self.engines = engines
        self.scripts = scripts
        self.servers = servers
        self.session = session
        self.reported = []

    def bodies(self, name):
        return self.servers[name].bodies


@pytest.fixture
async def stage():
    scripts = {name: Scripted(name) for name in (BASELINE, GREEDY, PROBABILISTIC)}
    async with AsyncExitStack() as stack:
        servers = {
            name: await stack.enter_async_context(serving(script, metrics=script.page))
            for name, script in scripts.items()
        }
        engines = {name: Engine(name, server.url, server.url) for name, server in servers.items()}
        yield Stage(engines, scripts, servers, await stack.enter_async_context(new_session()))


async def test_a_request_that_fails_ends_the_measurement_with_its_reason(stage):
    stage.scripts[GREEDY].status = 503
    with pytest.raises(MeasureError, match=r"eagle3-greedy: short_qa-0 failed \(http_5xx\): 503: not now"):
        await acceptance(stage.session, stage.engines[GREEDY], 0.0, EXTENT, 1)
    with pytest.raises(MeasureError, match="eagle3-greedy answers 503 to short_qa-0: not now"):
        await compare(stage.session, stage.engines, EXTENT, 1, stage.reported.append)


async def test_an_answer_of_another_pool_is_nobodys_figure(stage):
    stage.scripts[GREEDY].pool = BASELINE
    with pytest.raises(MeasureError, match="short_qa-0 was meant for eagle3-greedy and answered by baseline"):
        await acceptance(stage.session, stage.engines[GREEDY], 0.0, EXTENT, 1)


async def test_an_engine_that_served_somebody_else_meanwhile_is_found_out(stage):
    stage.scripts[GREEDY].others_tokens = 7
    with pytest.raises(MeasureError, match="eagle3-greedy generated 27 tokens where 20 came: it served others"):
        await acceptance(stage.session, stage.engines[GREEDY], 0.0, EXTENT, 1)


async def test_an_engine_that_never_becomes_idle_is_given_up(stage, monkeypatch):
    monkeypatch.setattr(measure, "SETTLE_TIMEOUT_S", 0.0)
    stage.scripts[GREEDY].running = 1
    with pytest.raises(MeasureError, match="is not idle, or has not counted its tokens, after 0 s"):
        await acceptance(stage.session, stage.engines[GREEDY], 0.0, EXTENT, 1)


async def test_counters_that_come_late_are_waited_for(stage, monkeypatch):
    monkeypatch.setattr(measure, "LOOK_AGAIN_S", 0.0)
    looks = iter(range(100))
    monkeypatch.setattr(stage.scripts[GREEDY], "others_tokens", 0)
    page = stage.scripts[GREEDY].page

    def late(server):
        stage.scripts[GREEDY].running = 1 if next(looks) < 3 else 0
        return page(server)

    async with serving(stage.scripts[GREEDY], metrics=late) as server:
        point = await acceptance(stage.session, Engine(GREEDY, server.url, server.url), 0.0, EXTENT, 1)
    assert (next(looks) > 3, point.generated_tokens) == (True, 20)


async def test_a_point_is_what_the_counters_gained_over_all_prompts(stage):
    point = await acceptance(stage.session, stage.engines[GREEDY], 0.7, EXTENT, 1)
    assert (point.engine, point.temperature, point.generated_tokens) == (GREEDY, 0.7, 4 * TOKENS)
    assert (point.drafts, point.draft_tokens, point.accepted_tokens, point.accepted_per_position) == (8, 24, 12, (12,))
    again = await acceptance(stage.session, stage.engines[GREEDY], 0.7, EXTENT, 1)
    assert again == point


async def test_the_curve_has_both_drafting_modes_at_every_temperature_and_the_baseline_is_left_alone(stage):
    points = await curve(stage.session, stage.engines, EXTENT, 1, stage.reported.append)
    assert [(point.temperature, point.engine) for point in points] == [
        (0.0, GREEDY),
        (0.0, PROBABILISTIC),
        (1.0, GREEDY),
        (1.0, PROBABILISTIC),
    ]
    assert stage.bodies(BASELINE) == []
    assert stage.reported[0] == "T = 0: tokens per verification 2.50 (eagle3-greedy), 2.50 (eagle3-probabilistic)"


async def test_no_request_shares_a_cache_salt_with_another(stage):
    await curve(stage.session, stage.engines, EXTENT, 1, print)
    await times(stage.session, stage.engines, EXTENT, 1, print, lambda: 0.0)
    salts = [body["cache_salt"] for name in stage.engines for body in stage.bodies(name)]
    assert len(salts) == len(set(salts)) > 40


async def test_equal_greedy_answers_are_counted_and_different_ones_told(stage):
    same = await compare(stage.session, stage.engines, EXTENT, 1, stage.reported.append)
    assert (same.prompts, same.tokens, same.divergences) == (3, 9, ())
    stage.scripts[GREEDY].said = ["a", "x"]
    parted = await compare(stage.session, stage.engines, EXTENT, 1, stage.reported.append)
    assert [(each.prompt_id, each.position, each.plain, each.speculative) for each in parted.divergences] == [
        (prompt_id, 1, "bc", "x") for prompt_id in ("short_qa-0", "code-0", "structured-0")
    ]
    assert "code-0: the greedy answers part after 1 tokens" in stage.reported
    assert {body["temperature"] for body in stage.bodies(BASELINE)} == {0}


async def test_a_greedy_answer_without_log_probabilities_is_refused(stage):
    stage.scripts[BASELINE].said = []
    with pytest.raises(NoAnswerError):
        await compare(stage.session, stage.engines, EXTENT, 1, stage.reported.append)


async def test_a_round_asks_every_engine_on_both_ways_for_the_same(stage):
    samples = await times(stage.session, stage.engines, replace(EXTENT, rounds=1), 1, print, lambda: 0.0)
    assert {(sample.engine, sample.path) for sample in samples if sample.temperature == 1.0} == {
        (name, path) for name in (BASELINE, GREEDY, PROBABILISTIC) for path in (ROUTER, DIRECT)
    }
    assert [len(sample.tpot_ms) for sample in samples] == [1] * 4 + [2] * 4 + [1] * 6 + [2] * 6
    asked = [
        [body["messages"] for body in stage.bodies(name) if body["temperature"] == 1] for name in (BASELINE, GREEDY)
    ]
    assert asked[0] == asked[1]


async def test_a_round_that_would_end_too_late_is_left_out_and_said(stage):
    clock = iter([0.0, 100.0, 100.0, 100.0, 150.0])
    limited = replace(EXTENT, limit_s=170.0, rounds=5)
    samples = await times(stage.session, stage.engines, limited, 1, stage.reported.append, lambda: next(clock, 170.0))
    assert {sample.round for sample in samples} == {0}
    assert stage.reported[-1] == "round 2 would end after the limit of 3 min: left out"


async def test_one_round_there_is_however_late_it_is(stage):
    samples = await times(stage.session, stage.engines, replace(EXTENT, limit_s=1.0), 1, print, lambda: 500.0)
    assert {sample.round for sample in samples} == {0}


async def test_warming_up_asks_every_engine_at_every_temperature_for_as_many_answers_as_there_are_streams(stage):
    await warm_up(stage.session, list(stage.engines.values()), EXTENT, 1)
    for name in stage.engines:
        assert sorted(body["temperature"] for body in stage.bodies(name)) == [0, 0, 1, 1]


def test_everybody_comes_first_once_before_anybody_comes_first_twice():
    firsts = [arms(Place(1.0, 4), number)[0] for number in range(6)]
    assert len(set(firsts)) == 6
    assert {len(arms(Place(1.0, 4), number)) for number in range(6)} == {6}


def test_at_temperature_0_probabilistic_drafting_is_left_out():
    assert {name for name, _ in arms(Place(0.0, 1), 3)} == {BASELINE, GREEDY}
