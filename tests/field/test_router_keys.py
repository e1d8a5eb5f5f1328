"""B63: with keys of its own the router lets nobody in without one, and tells its keys to no engine."""

import json
from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio

from tests.field.client import CHAT, HI, JSON, Reply, body, refused, request
from tests.field.router import until
from tests.field.scripted_engine import Engine
from tests.field.scripts import Link, answers
from tests.field.stage import BASE, REQUESTS, SPEC, Stage, pools, staged
from tests.field.test_keys import CLIENT_KEY, ENDPOINTS, POOL_KEY

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEAM_KEY = "sk-of-the-team-77aa"
BATCH_KEY = "sk-of-the-batch-jobs-0d3c"
KEYS = (TEAM_KEY, BATCH_KEY, POOL_KEY, CLIENT_KEY)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The router has two keys, the baseline pool has one of its own, the speculative pool has none."""
    folder = tmp_path_factory.mktemp("router")
    (folder / "keys").write_text(f"# mounted\nbatch={BATCH_KEY}\n")
    base, spec = Engine(f"{BASE}-0"), Engine(f"{SPEC}-0")
    await base.listen()
    await spec.listen()
    both = pools([base], [spec])
    both[0]["api_key"] = POOL_KEY
    settings = {
        "pools": both,
        "api_keys": {"team": TEAM_KEY},
        "api_keys_file": str(folder / "keys"),
        "cors_origins": ["https://chat.example.org"],
    }
    async with staged(folder, settings, base=[base], spec=[spec]) as stage:
        yield stage


def bearer(token: str, scheme: str = "Bearer ") -> list[tuple[str, str]]:
    return [*JSON, ("Authorization", f"{scheme}{token}")]


def unauthorized(reply: Reply) -> None:
    error = refused(reply, 401)
    assert (error["code"], error["type"]) == ("invalid_api_key", "invalid_request_error")
    assert reply["www-authenticate"] == "Bearer"


REFUSED = [
    [],
    [("Authorization", "Bearer ")],
    [("Authorization", "")],
    [("Authorization", f"Bearer {CLIENT_KEY}")],
    [("Authorization", f"Bearer {TEAM_KEY}x")],
    [("Authorization", f"Bearer {TEAM_KEY[:-1]}")],
    [("Authorization", f"Bearer {POOL_KEY}")],
    [("Authorization", f"Basic {TEAM_KEY}")],
    [("Authorization", TEAM_KEY)],
    [("Authorization", "Bearer \u00fc\u4e16")],
    [("Authorization", f"Bearer {TEAM_KEY}"), ("authorization", f"Bearer {TEAM_KEY}")],
    [("Authorization", f"Bearer {CLIENT_KEY}"), ("Authorization", f"Bearer {TEAM_KEY}")],
    [("Proxy-Authorization", f"Bearer {TEAM_KEY}")],
    [("X-Api-Key", "")],
    [("X-Api-Key", f"Bearer {TEAM_KEY}")],
    [("Cookie", f"authorization=Bearer {TEAM_KEY}")],
]


@pytest.mark.parametrize("headers", REFUSED)
async def test_b63_without_a_known_key_nothing_reaches_an_engine(stage: Stage, headers: list[tuple[str, str]]) -> None:
    unauthorized(await stage.ask(body(), headers=[*JSON, *headers]))
    assert stage.seen == []


@pytest.mark.parametrize("path", [*ENDPOINTS, "/v1/audio/transcriptions", "/v1/nowhere", "/v1/../metrics"])
async def test_b63_every_endpoint_needs_a_key(stage: Stage, path: str) -> None:
    unauthorized(await stage.ask(body(), path=path))
    assert stage.seen == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/", "/v1/models/m"])
async def test_b63_the_list_of_models_needs_a_key(stage: Stage, method: str, path: str) -> None:
    async with await stage.client() as client:
        reply = await client.ask(None, method=method, path=path)
        assert (reply.status, reply["www-authenticate"], reply.complete) == (401, "Bearer", True)
        known = await client.ask(None, method=method, path=path, headers=bearer(TEAM_KEY))
        assert known.status == 200


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_b63_balancers_need_no_key(stage: Stage, path: str) -> None:
    assert (await stage.router.get(path)).status == 200
    assert (await stage.router.get(path, headers=(("Authorization", "Bearer wrong"),))).status == 200


async def test_b63_a_browser_asks_beforehand_without_a_key_and_reads_the_refusal(stage: Stage) -> None:
    origin = [("Origin", "https://chat.example.org"), ("Access-Control-Request-Method", "POST")]
    preflight = await stage.ask(None, method="OPTIONS", headers=origin)
    assert (preflight.status, preflight["access-control-allow-origin"]) == (204, "https://chat.example.org")
    reply = await stage.ask(body(), headers=[*JSON, *origin[:1]])
    unauthorized(reply)
    assert reply["access-control-allow-origin"] == "https://chat.example.org"


ACCEPTED = [
    [("Authorization", f"Bearer {TEAM_KEY}")],
    [("authorization", f"bearer {TEAM_KEY}")],
    [("Authorization", f"BEARER  {BATCH_KEY}")],
    [("x-api-key", BATCH_KEY)],
    [("X-Api-Key", TEAM_KEY), ("Authorization", f"Bearer {CLIENT_KEY}")],
    [
        ("X-Api-Key", TEAM_KEY),
        ("Authorization", f"Bearer {BATCH_KEY}"),
        ("Proxy-Authorization", f"Bearer {CLIENT_KEY}"),
    ],
]


@pytest.mark.parametrize("headers", ACCEPTED)
@pytest.mark.parametrize("temperature", [0.5, 1.5])
async def test_b63_no_key_of_a_client_goes_to_an_engine(
    stage: Stage, headers: list[tuple[str, str]], temperature: float
) -> None:
    pool, seen, _ = await stage.routed(body(temperature=temperature), headers=[*JSON, *headers])
    assert seen.values("authorization") == ([f"Bearer {POOL_KEY}"] if pool == BASE else [])
    assert seen.values("x-api-key") == seen.values("proxy-authorization") == []
    for key in (TEAM_KEY, BATCH_KEY, CLIENT_KEY):
        assert key.encode() not in seen.raw


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_b63_nor_at_any_endpoint(stage: Stage, path: str) -> None:
    content = body(temperature=1.5, prompt="x", input="x")
    pool, seen, _ = await stage.routed(content, path=path, headers=bearer(TEAM_KEY))
    assert seen.values("authorization") == ([f"Bearer {POOL_KEY}"] if pool == BASE else [])
    assert TEAM_KEY.encode() not in seen.raw


async def test_b63_nor_when_another_engine_stands_in(stage: Stage) -> None:
    async def script(link: Link) -> None:
        await answers(status=503 if len(stage.seen) == 1 else 200)(link)

    stage.script(script)
    assert (await stage.ask(body(temperature=0.5), headers=bearer(TEAM_KEY))).status == 200
    assert stage.spec.requests[0].values("authorization") == []
    assert stage.base.requests[0].values("authorization") == [f"Bearer {POOL_KEY}"]


async def test_b63_who_has_no_key_need_not_send_the_body(stage: Stage) -> None:
    """The refusal comes with the head; an upload that goes on is not waited for."""
    async with await stage.client() as client:
        head = request(None, headers=[*JSON, ("Content-Length", "50000000")])
        await client.send(head + b"{", "POST")
        unauthorized(await client.end())
    async with await stage.client() as client:
        await client.send(request(None, headers=[*JSON, ("Content-Length", "9"), ("Expect", "100-continue")]), "POST")
        reply = await client.end()
        unauthorized(reply)
        assert b"100 Continue" not in reply.raw
    assert stage.seen == []


async def test_b63_a_head_that_came_before_opens_no_door_to_another_key(stage: Stage) -> None:
    async with await stage.client() as client:
        for _ in range(3):
            assert (await client.ask(body(), headers=bearer(TEAM_KEY))).status == 200
        unauthorized(await client.ask(body(), headers=bearer(TEAM_KEY[:-1] + "b")))
    assert len(stage.seen) == 3


async def test_b63_openais_client_raises_its_own_error(stage: Stage) -> None:
    async with openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{stage.router.port}/v1", api_key="sk-wrong", max_retries=0
    ) as client:
        with pytest.raises(openai.AuthenticationError) as caught:
            await client.chat.completions.create(model="m", messages=HI)
        assert caught.value.code == "invalid_api_key"
        client.api_key = TEAM_KEY
        assert (await client.chat.completions.create(model="m", messages=HI)).choices[0].message.content == "hello"


async def test_b63_the_log_names_the_key_and_nothing_shows_one(stage: Stage) -> None:
    ids = {"b63-team": bearer(TEAM_KEY), "b63-batch": [*JSON, ("x-api-key", BATCH_KEY)], "b63-none": bearer(CLIENT_KEY)}
    async with stage.counting("client_error", reason="invalid_api_key"):
        refusal = await stage.ask(body(), headers=[*ids["b63-none"], ("x-request-id", "b63-none")])
    replies = [
        await stage.ask(body(), headers=[*headers, ("x-request-id", name)])
        for name, headers in ids.items()
        if name != "b63-none"
    ]
    await stage.router.logged("b63-batch")

    def logged() -> dict[str, str | None]:
        lines = [json.loads(line) for line in stage.router.log if '"request_id":"b63-' in line]
        return {line["request_id"]: line["client_key"] for line in lines}

    async def all_logged() -> bool:
        return len(logged()) == 3

    await until(all_logged, "three lines")
    assert logged() == {"b63-team": "team", "b63-batch": "batch", "b63-none": None}
    replies += [refusal, *[await stage.router.get(path, admin=True) for path in ("/metrics", "/fleet", "/policy")]]
    for text in [*(reply.raw.decode("latin-1") for reply in replies), *stage.router.log]:
        assert not any(key in text for key in KEYS)


async def test_b63_refusals_are_few_words_in_the_metrics_whatever_was_tried(stage: Stage) -> None:
    before = set(await stage.router.samples(REQUESTS))
    for token in ("a", "b" * 5000, 'c"}\\', "\u00fc"):
        unauthorized(await stage.ask(body(), headers=bearer(token)))
    added = set(await stage.router.samples(REQUESTS)) - before
    assert all(("reason", "invalid_api_key") in labels for _, labels in added)
    assert len(added) <= 1


async def test_b63_a_request_on_the_same_connection_after_a_refusal_without_a_body_is_served(stage: Stage) -> None:
    async with await stage.client() as client:
        assert (await client.ask(None, method="GET", path="/v1/models")).status == 401
        assert (await client.ask(body(), path=CHAT, headers=bearer(TEAM_KEY))).status == 200
