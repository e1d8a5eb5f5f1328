"""B56: health checks cost no tokens, carry the pool's key, and take nobody out for a page that is not there."""

from pathlib import Path

import pytest

from tests.field.client import body
from tests.field.router import until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, Script, answers
from tests.field.stage import BASE, SPEC, Stage, pools, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = "k-of-the-pool"
UNAUTHORIZED = b'{"error":"Unauthorized"}'
PROBES = 3


def guarded(script: Script) -> Script:
    """The script for who carries the key; 401 for all others."""

    async def answer(link: Link) -> None:
        allowed = link.seen.values("authorization") == [f"Bearer {KEY}"]
        await (script if allowed else answers(UNAUTHORIZED, 401))(link)

    return answer


async def probed(engine: Engine, path: str) -> None:
    """Wait until it was asked there a few times more."""

    def times() -> int:
        return sum(seen.target == path for seen in engine.probed)

    wanted = times() + PROBES

    async def so_often() -> bool:
        return times() >= wanted

    await until(so_often, f"{PROBES} questions for {path}")


def with_key(stage_pools: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{**pool, "api_key": KEY} for pool in stage_pools]


@pytest.mark.slow
async def test_b56_engines_that_want_a_key_are_probed_without_generating_and_served_with_the_pools_own(
    tmp_path: Path,
) -> None:
    base, spec = [Engine(f"{BASE}-0")], [Engine(f"{SPEC}-0")]
    for engine in (*base, *spec):
        await engine.listen()
        engine.probes["/v1/models"] = guarded(engine.probes["/v1/models"])
        engine.script = guarded(answers())
    async with staged(tmp_path, {"pools": with_key(pools(base, spec))}, base=base, spec=spec) as stage:
        for engine in stage.all_engines:
            await probed(engine, "/health")
            assert engine.requests == []
        assert (await stage.ask(body(temperature=0.2))).status == 200
        assert (await stage.ask(body(temperature=1.5))).status == 200


@pytest.mark.parametrize(("status", "word"), [(404, "is this address a vLLM server"), (401, "api_key is missing")])
async def test_b56_a_health_page_that_is_not_there_or_not_for_us_is_a_warning_and_no_ejection(
    stage: Stage, status: int, word: str
) -> None:
    for engine in stage.all_engines:
        engine.probes["/health"] = answers(b"{}", status)
        await probed(engine, "/health")
    assert set((await stage.router.health_of()).values()) == {"ready"}
    assert (await stage.ask(body())).status == 200
    await stage.router.logged(f"health: .*{status}.*{word}")
    assert not any(KEY in line for line in stage.router.log)
