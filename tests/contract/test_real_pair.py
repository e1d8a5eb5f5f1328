"""The real pair behind the router: an OpenAI client streams from both pools, and vLLM's own counters say so."""

import asyncio

import httpx
import openai
import pytest

from breakeven_bench.launch import Launcher
from breakeven_bench.vllm import host
from breakeven_bench.vllm.pair import Ports, start_pair
from tests.contract.engine import POLL_S
from tests.contract.metrics_page import GENERATED, Page
from tests.contract.targets import VLLM

TOKENS = 32
DRAFTS = "vllm:spec_decode_num_drafts_total"


async def counted(urls):
    """By engine: tokens generated and drafts verified so far; a plain engine has no counter of drafts."""
    async with httpx.AsyncClient() as client:
        pages = [Page.read((await client.get(f"{url}/metrics")).text) for url in urls]
    return [[sum(page.by_label(name, "engine").values()) for name in (GENERATED, DRAFTS)] for page in pages]


async def moved(urls, before):
    """What `counted` has gained, once it holds the whole answer; counters move a moment after it."""
    async with asyncio.timeout(VLLM.patience_s):
        while True:
            after = await counted(urls)
            gained = [[now - then for then, now in zip(*both, strict=True)] for both in zip(before, after, strict=True)]
            if sum(tokens for tokens, _ in gained) >= TOKENS:
                return gained
            await asyncio.sleep(POLL_S)


async def stream(client, temperature):
    """The pool that serves it, and the tokens of the answer by its usage."""
    async with client.chat.completions.with_streaming_response.create(
        model=host.SERVED_MODEL,
        messages=[{"role": "user", "content": "Why is the sky blue?"}],
        temperature=temperature,
        max_tokens=TOKENS,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"ignore_eos": True},
    ) as answer:
        events = [event async for event in await answer.parse()]
        return answer.headers["x-breakeven-pool"], events[-1].usage.completion_tokens


@pytest.mark.vllm
@pytest.mark.timeout(600)
async def test_each_temperature_is_served_by_its_pool_and_counted_by_its_engine_alone(tmp_path, real_vllm):
    async with Launcher(tmp_path) as launcher:
        pair = await start_pair(launcher, real_vllm, Ports(0, 0, 0, 0), print)
        client = openai.AsyncOpenAI(base_url=f"{pair.router_url}/v1", api_key="none")
        urls = (pair.baseline_url, pair.eagle3_url)
        for temperature, pool, expected in ((0.7, "speculative", (0, TOKENS)), (1.2, "baseline", (TOKENS, 0))):
            before = await counted(urls)
            assert await stream(client, temperature) == (pool, TOKENS)
            (plain_tokens, plain_drafts), (tokens, drafts) = await moved(urls, before)
            assert (plain_tokens, tokens) == expected
            assert (plain_drafts, drafts > 0) == (0, pool == "speculative")
        await client.close()
