"""B63: a key goes where it belongs and nowhere else."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.field.client import JSON, body
from tests.field.router import until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, answers
from tests.field.stage import BASE, SPEC, Stage, pools, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

POOL_KEY = "sk-of-the-pool-4f1c"
CLIENT_KEY = "sk-of-the-client-9b2e"
ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/tokenize"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The baseline pool has a key of its own, the speculative pool has none."""
    base, spec = Engine(f"{BASE}-0"), Engine(f"{SPEC}-0")
    await base.listen()
    await spec.listen()
    both = pools([base], [spec])
    both[0]["api_key"] = POOL_KEY
    async with staged(tmp_path_factory.mktemp("router"), {"pools": both}, base=[base], spec=[spec]) as stage:
        yield stage


def temperature_of(pool: str) -> float:
    """One that sends a request there."""
    return 1.5 if pool == BASE else 0.5


CLIENT_WORDS = [
    f"Bearer {CLIENT_KEY}",
    f"bearer {CLIENT_KEY}",
    f"Bearer  {CLIENT_KEY}",
    "Bearer ",
    "Basic eDp5",
    "Bearer \u00fc",
]


@pytest.mark.parametrize("value", CLIENT_WORDS)
async def test_b63_without_a_pool_key_the_clients_own_goes_on_as_it_is(stage: Stage, value: str) -> None:
    headers = [*JSON, ("Authorization", value)]
    _, seen, _ = await stage.routed(body(temperature=0.5), headers=headers)
    assert [each.encode("latin-1").decode() for each in seen.values("authorization")] == [value.strip()]


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_b63_a_pool_with_a_key_sees_that_key_only(stage: Stage, path: str) -> None:
    """Endpoints that sample nothing may be served by either pool; each pool must see what belongs to it."""
    headers = [*JSON, ("Authorization", f"Bearer {CLIENT_KEY}"), ("authorization", "Bearer again")]
    content = body(temperature=1.5, prompt="x", input="x")
    pool, seen, _ = await stage.routed(content, path=path, headers=headers)
    expected = [f"Bearer {POOL_KEY}"] if pool == BASE else [f"Bearer {CLIENT_KEY}", "Bearer again"]
    assert seen.values("authorization") == expected
    assert (CLIENT_KEY.encode() in seen.raw) == (pool == SPEC)


async def test_b63_without_any_key_none_is_made_up(stage: Stage) -> None:
    _, seen, _ = await stage.routed(body(temperature=0.5))
    assert seen.values("authorization") == []
    _, seen, _ = await stage.routed(body(temperature=1.5))
    assert seen.values("authorization") == [f"Bearer {POOL_KEY}"]


async def test_b63_failover_gives_each_engine_the_key_of_its_own_pool(stage: Stage) -> None:
    async def script(link: Link) -> None:
        await answers(status=503 if len(stage.seen) == 1 else 200)(link)

    stage.script(script)
    headers = [*JSON, ("Authorization", f"Bearer {CLIENT_KEY}")]
    assert (await stage.ask(body(temperature=0.5), headers=headers)).status == 200
    assert stage.spec.requests[0].values("authorization") == [f"Bearer {CLIENT_KEY}"]
    assert stage.base.requests[0].values("authorization") == [f"Bearer {POOL_KEY}"]


@pytest.mark.slow
async def test_b63_probes_carry_the_key_of_the_pool_and_no_clients(stage: Stage) -> None:
    await stage.ask(body(temperature=0.5), headers=[*JSON, ("Authorization", f"Bearer {CLIENT_KEY}")])

    async def both_listed() -> bool:
        return all("/v1/models" in [seen.target for seen in each.probed] for each in (stage.base, stage.spec))

    await until(both_listed, "the models are listed")
    base, spec = ({tuple(seen.values("authorization")) for seen in each.probed} for each in (stage.base, stage.spec))
    assert spec == {()}
    assert base <= {(f"Bearer {POOL_KEY}",), ()}
    listed = [seen.values("authorization") for seen in stage.base.probed if seen.target == "/v1/models"]
    assert listed[0] == [f"Bearer {POOL_KEY}"]


async def test_b63_no_key_is_told_to_anyone(stage: Stage) -> None:
    headers = [*JSON, ("Authorization", f"Bearer {CLIENT_KEY}")]
    replies = [await stage.ask(content, headers=headers) for content in (body(), body(temperature=1.5), b"{")]
    replies += [await stage.router.get(path, admin=True) for path in ("/metrics", "/fleet", "/policy")]
    for text in [*(reply.raw.decode("latin-1") for reply in replies), *stage.router.log]:
        assert POOL_KEY not in text
        assert CLIENT_KEY not in text
