"""The adaptive policy in a real router: it says that nothing is measured, learns from streams, and then decides.

Nothing is changed in a body for it, and the engines here have no metrics: steps are events as they pass.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
import pytest_asyncio

from tests.field.client import body
from tests.field.scripts import SSE_TYPE, Link, Script
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEP = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d}}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
STEPS = 12
REQUESTS_MAX = 600
"""Far more than it takes to see each of two pools twenty times with every fifth request."""


def paced(pieces: Iterable[bytes]) -> Script:
    """A stream whose steps take a moment each: this is the engine's time, which the router measures."""

    async def script(link: Link) -> None:
        await link.head(200, SSE_TYPE)
        for piece in pieces:
            await link.chunk(piece)
            await asyncio.sleep(0.001)
        await link.end()

    return script


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A router that learns, with a kind of requests that it knows by name."""
    async with staged(tmp_path_factory.mktemp("router"), {"policy": "breakeven", "workloads": ["code"]}) as stage:
        yield stage


@pytest.mark.slow
async def test_a_policy_without_a_table_says_so_and_decides_by_what_it_saw_as_soon_as_it_saw_enough(
    stage: Stage,
) -> None:
    steps = [STEP % (b"word %d" % number) for number in range(STEPS)]
    stage.base.script = paced([*steps, USAGE % STEPS, LAST, DONE])
    stage.spec.script = paced([*steps, USAGE % (3 * STEPS), LAST, DONE])
    reasons: dict[str, int] = {}
    chosen: dict[str, int] = {}
    async with await stage.client() as client:
        for _ in range(REQUESTS_MAX):
            reply = await client.ask(body(stream=True, temperature=0.2))
            assert reply.complete
            reason = reply["x-breakeven-reason"]
            reasons[reason] = reasons.get(reason, 0) + 1
            if reason == "lowest_cost":
                pool = reply["x-breakeven-pool"]
                chosen[pool] = chosen.get(pool, 0) + 1
                if sum(chosen.values()) == 20:
                    break
    assert reasons.keys() <= {"unmeasured", "exploration", "lowest_cost", "cost_within_error"}
    assert reasons["unmeasured"] > 0
    assert reasons["exploration"] > 0
    assert chosen == {SPEC: 20}  # three tokens in the time of one


async def test_what_samples_nothing_is_decided_as_ever(stage: Stage) -> None:
    _, _, reply = await stage.routed(body(input="x"), path="/v1/embeddings")
    assert reply["x-breakeven-reason"] == "not_sampled"


async def test_a_name_that_is_not_configured_changes_nothing(stage: Stage) -> None:
    for name in ("code", "nobody knows"):
        pool, _, reply = await stage.routed(body(min_p=0.05), headers=[("x-breakeven-workload", name)])
        assert (pool, reply["x-breakeven-reason"]) == (BASE, "capability")
