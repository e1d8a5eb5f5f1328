"""Another policy is switched to while requests run, by whoever of the workers serves."""

from typing import Any

import pytest

from tests.field.client import JSON, body
from tests.field.router import total, until
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

SHADOWED = "breakeven_shadow_decisions_total"
SETTINGS = {
    "workers": 2,
    "shadow": ["least_loaded"],
    "policy_header": "x-breakeven-policy",
    "policy_choices": [f"pinned:{SPEC}"],
}


async def switch(stage: Stage, method: str, content: bytes | None = None) -> Any:
    async with await stage.admin() as client:
        return await client.ask(content, path="/policy", method=method, headers=JSON)


async def test_all_workers_switch_and_shadows_and_choices_of_clients_go_on(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Eight connections each time, so that both workers are asked."""
    async with staged(tmp_path_factory.mktemp("router"), SETTINGS) as stage:

        async def answered(**headers: str) -> set[tuple[str, str]]:
            asked = [*JSON, *((name.replace("_", "-"), value) for name, value in headers.items())]
            replies = [await stage.ask(body(temperature=0.5), headers=asked) for _ in range(8)]
            return {(reply["x-breakeven-pool"], reply["x-breakeven-policy"]) for reply in replies}

        assert await answered() == {(SPEC, "threshold")}
        assert (await switch(stage, "PUT", b'{"policy": "nobody"}')).status == 400
        pinned = f"pinned:{BASE}"
        switched = (await switch(stage, "PUT", b'{"policy": "%b"}' % pinned.encode())).json()
        assert (switched["policy"], switched["configured"], switched["switched"]) == (pinned, "threshold", True)

        async def all_switched() -> bool:
            return await answered() == {(BASE, pinned)}

        await until(all_switched, "both workers decide by the other policy")
        assert await answered(x_breakeven_policy=f"pinned:{SPEC}") == {(SPEC, f"pinned:{SPEC}")}
        assert not any(seen.values("x-breakeven-policy") for seen in stage.seen)
        assert (await switch(stage, "DELETE")).json()["policy"] == "threshold"

        async def all_back() -> bool:
            return await answered() == {(SPEC, "threshold")}

        await until(all_back, "both workers decide by the configured policy")

        async def all_shadowed() -> bool:
            samples = await stage.router.samples(SHADOWED)
            return total(samples, SHADOWED, policy="least_loaded") == len(stage.seen)

        await until(all_shadowed, "the shadow of every request is counted")
        stage.check()
