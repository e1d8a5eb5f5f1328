"""A client that leaves takes its request with it, at any stage: the engine's room is for those who wait.

What remains of it in the counters is what it had cost until then. It has not finished, so that nothing of it is in the
histograms of finished requests, nor, whatever the name suggests, in `finished_reason="abort"`.
"""

import pytest

from tests.contract.engine import COMPLETIONS, started
from tests.contract.metrics_page import FINISHED, GENERATED, RUNNING, WAITING
from tests.contract.targets import SEQUENCES_MAX

LONG = {"max_tokens": 1800, "ignore_eos": True}
LONG_PROMPT = {"messages": [{"role": "user", "content": "The river. " * 200}], "max_tokens": 1300}
DEPARTURES = ("fin", "reset", "half_close")


async def leave(engine, departure, stage, **fields):
    """Ask for a long answer, leave at that stage, and wait until the engine does nothing. What moved meanwhile."""
    before = await engine.idle()
    async with await engine.connect() as client:
        await client.send(started(**{**LONG, **fields}), "POST")
        await stage(engine, client)
        getattr(client, departure)()
        page = await engine.idle()
    return page.since(before)


async def after_some_text(engine, client):
    await client.has(b'"content":" ')


async def while_it_runs(engine, client):
    await engine.until(lambda page: page.value(RUNNING) == 1)


async def while_all_three_run(engine, client):
    await engine.until(lambda page: page.value(RUNNING) == 3)


def unfinished(moved, tokens_max):
    """Nothing ended, and far from everything was generated."""
    assert moved.value(GENERATED) < tokens_max
    assert moved.value(FINISHED) == moved.value("vllm:e2e_request_latency_seconds_count") == 0
    assert moved.value("vllm:request_generation_tokens_count") == moved.value("vllm:request_params_n_count") == 0


@pytest.mark.parametrize("departure", DEPARTURES)
async def test_leaving_a_stream_ends_it(engine, departure):
    unfinished(await leave(engine, departure, after_some_text, stream=True), LONG["max_tokens"])


@pytest.mark.parametrize("departure", DEPARTURES)
async def test_leaving_before_a_whole_answer_has_come_ends_it(engine, departure):
    unfinished(await leave(engine, departure, while_it_runs), LONG["max_tokens"])


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_leaving_while_the_prompt_is_read_ends_it(engine, stream):
    before = await engine.idle()
    async with await engine.connect() as client:
        await client.send(started(stream=stream, **{**LONG, **LONG_PROMPT}), "POST")
        # vLLM may miss a departure in the very moment in which it hands a request to its core (`generate` while it
        # awaits `add_request`, `v1/engine/async_llm.py`). Two answers later that is behind it.
        for _ in range(2):
            await engine.get("/version")
        client.fin()
        # The gauges are written at the end of a step, so only an answer behind it shows that the engine is free again.
        await engine.answer(max_tokens=1)
    moved = await engine.after(before)
    assert moved.value(FINISHED) == moved.value("vllm:request_params_n_count") == 1
    assert moved.value(GENERATED) < LONG_PROMPT["max_tokens"]


async def test_leaving_while_all_slots_are_taken_leaves_the_queue(plain):
    await plain.idle()
    async with await plain.connect() as running, await plain.connect() as waiting:
        many = {**LONG, "n": SEQUENCES_MAX + 4, "temperature": 1, "max_tokens": 500}
        await running.send(started(stream=True, **many), "POST")
        await plain.until(lambda page: page.value(WAITING) == 4)
        await waiting.send(started(**LONG), "POST")
        await plain.until(lambda page: page.value(WAITING) == 5)
        waiting.fin()
        page = await plain.until(lambda page: page.value(WAITING) == 4)
        assert page.value(RUNNING) == SEQUENCES_MAX
    await plain.idle()


async def test_leaving_takes_every_choice_along(plain):
    unfinished(await leave(plain, "fin", while_all_three_run, n=3, temperature=1), 3 * LONG["max_tokens"])


async def test_leaving_a_text_completion_ends_it(plain):
    unfinished(await leave(plain, "fin", while_it_runs, path=COMPLETIONS), LONG["max_tokens"])


async def test_the_others_are_served_on(engine):
    await engine.idle()
    async with await engine.connect() as leaving:
        await leaving.send(started(stream=True, **LONG), "POST")
        await leaving.has(b'"content":" ')
        async with await engine.connect() as staying:
            await staying.send(started(stream=True, max_tokens=60, ignore_eos=True), "POST")
            await staying.has(b'"content":" ')
            leaving.fin()
            reply = await staying.end()
    assert reply.complete
    assert reply.body.endswith(b"data: [DONE]\n\n")
    await engine.idle()
