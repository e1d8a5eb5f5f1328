"""Greedy answers compared in a real router of two workers: an engine whose answers are others is given no more."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.field.client import body
from tests.field.router import total, until
from tests.field.scripts import answers
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

BROKEN = "breakeven_equivalence_broken"
WINDOW = 5


def completion(*ids: int) -> bytes:
    return json.dumps({"choices": [{"text": "".join(map(chr, ids)), "token_ids": list(ids)}]}).encode()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """As often as is allowed, with the smallest window."""
    settings = {
        "workers": 2,
        "equivalence_interval_s": 1,
        "equivalence_window": WINDOW,
        "equivalence_action": "drain",
    }
    async with staged(tmp_path_factory.mktemp("router"), settings) as stage:
        yield stage


async def test_an_engine_whose_answers_are_others_is_taken_out_on_all_workers(stage: Stage) -> None:
    stage.base.script, stage.spec.script = answers(completion(1, 2, 3)), answers(completion(1, 9, 9))

    async def is_broken() -> bool:
        return total(await stage.router.samples(BROKEN), BROKEN, pool=SPEC) == 1

    await until(is_broken, "the engine is broken", deadline_s=60)

    async def is_out() -> bool:  # a connection of its own each, so whichever worker; they hear of it a moment later
        replies = [await stage.ask(body(temperature=0.2)) for _ in range(4)]
        return all((reply["x-breakeven-pool"], reply["x-breakeven-reason"]) == (BASE, "health") for reply in replies)

    await until(is_out, "the engine is given no more")
    (told,) = [line for line in stage.router.log if "greedy answers differ" in line]
    assert f"{SPEC}-0: {WINDOW} of {WINDOW} greedy answers differ" in told
    asked = [json.loads(seen.body) for seen in stage.base.requests if seen.target == "/v1/completions"]
    assert all(question["temperature"] == 0 and question["return_token_ids"] for question in asked)
