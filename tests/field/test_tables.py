"""Measured tables in a real router of two workers: used while they fit the engines, and known for it everywhere."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from breakeven_policies.measured import short_hash
from tests.field.client import body
from tests.field.router import until
from tests.field.scripts import answers
from tests.field.stage import BASE, SPEC, Stage, staged
from tests.policies.tables import table, written

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

FITS: dict[str, Any] = {
    "provenance__model": "m",
    "provenance__expires_on": "2999-01-01",
    "setups__1__speculative_tokens": 5,
    "setups__1__draft_model": ...,
    "setups__1__drafting": ...,
    "cells__2__accepted_per_position": [0.9],
}
"""What the scripted engines and their pools are: model m, k = 5, vLLM 0.33.0."""

HASH = short_hash(table(**FITS))
APPLIES = "breakeven_policy_table_applies"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Two workers, a table, and the policy that goes by it."""
    folder = tmp_path_factory.mktemp("router")
    (folder / "table.json").write_bytes(written(**FITS))
    settings = {"workers": 2, "policy": "breakeven", "tables": [str(folder)], "models_interval_s": 0.1}
    async with staged(folder, settings) as stage:
        yield stage


async def applies(stage: Stage, base: str, spec: str) -> None:
    """Wait until these words stand beside the two pools, and what they say."""

    async def shown() -> bool:
        samples = await stage.router.samples(APPLIES)
        found = {(dict(labels)["pool"], dict(labels)["why"]): value for (_, labels), value in samples.items()}
        return found == {(BASE, base): float(base == "applies"), (SPEC, spec): float(spec == "applies")}

    await until(shown, f"tables: {base}, {spec}")


async def named_everywhere(stage: Stage, expected: str | None) -> None:
    """Wait until answers of whoever serves name that table."""

    async def all_name_it() -> bool:
        named = [await stage.ask(body(temperature=0.2, max_tokens=8)) for _ in range(6)]
        return all(reply.values("x-breakeven-table") == ([expected] if expected else []) for reply in named)

    await until(all_name_it, f"table {expected} in answers")


async def test_a_table_is_used_while_it_fits_and_no_longer(stage: Stage) -> None:
    await applies(stage, "applies", "applies")
    await named_everywhere(stage, HASH)
    shown = (await stage.router.get("/policy", admin=True)).json()
    assert [(pool["pool"], pool["hash"]) for pool in shown["pools"]] == [(BASE, HASH), (SPEC, HASH)]
    stage.spec.probes["/version"] = answers(b'{"version":"0.34.0"}')
    await applies(stage, "applies", "engine_version")
    await named_everywhere(stage, None)
    lines = [line for line in stage.router.log if "unmeasured" in line and "it is about 0.33.0" in line]
    assert len(lines) == 1
    assert re.search(
        rf"WARNING .*{SPEC}: unmeasured; nearest table llama-on-a100 \({HASH}\): .* the pool runs 0\.34\.0", lines[0]
    )


async def test_a_table_that_is_broken_leaves_the_one_before_in_force(stage: Stage, site: Stage) -> None:
    await applies(stage, "applies", "applies")
    path = Path(stage.router.folder) / "table.json"
    try:
        path.write_bytes(b'{"format": 2}')
        stage.router.hang_up()

        async def told() -> bool:
            return any("configuration not reloaded: tables: " in line for line in stage.router.log[stage.log_mark :])

        await until(told, "why it was not reloaded")
        await named_everywhere(stage, HASH)
    finally:
        path.write_bytes(written(**FITS))
