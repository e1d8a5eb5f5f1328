"""B23, B60 and B61: which names exist, where they are served, and one true list of them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.field.client import body, refused
from tests.field.scripted_engine import Engine
from tests.field.scripts import PATIENCE_S, Link, answers, hangs
from tests.field.stage import BASE, SPEC, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")


def card(name: str, **fields: Any) -> dict[str, Any]:
    """A model card as vLLM writes it, with a field that nobody knows."""
    permission = [{"id": f"modelperm-{name}", "object": "model_permission", "allow_logprobs": True}]
    known = {
        "id": name,
        "object": "model",
        "created": 7,
        "owned_by": "vllm",
        "root": f"/weights/{name}",
        "parent": None,
    }
    return {**known, "permission": permission, "x_future": {"deep": [1, None]}, **fields}


def listing(*cards: dict[str, Any]) -> bytes:
    """A /v1/models answer."""
    return json.dumps({"object": "list", "data": cards}).encode()


BASE_CARDS = (card("m", max_model_len=8192, created=9), card("m-lora", parent="m"), card("org/slashed"))
SPEC_CARDS = (card("m", max_model_len=4096, created=7), card("spec-only"), card("org/slashed"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Each pool serves something that the other does not."""
    settings = {"aliases": {"fast": "m", "tuned": "m-lora"}}
    base, spec = Engine(f"{BASE}-0", listing(*BASE_CARDS)), Engine(f"{SPEC}-0", listing(*SPEC_CARDS))
    async with staged(tmp_path_factory.mktemp("router"), settings, base=[base], spec=[spec]) as stage:
        yield stage


@pytest.mark.parametrize(
    ("model", "temperature", "pool", "reason"),
    [
        ("m-lora", 0.2, BASE, "model"),
        ("m-lora", 1.5, BASE, "temperature_above_threshold"),
        ("spec-only", 1.5, SPEC, "model"),
        ("spec-only", 0.2, SPEC, "temperature_within_threshold"),
        ("tuned", 0.2, BASE, "model"),
        ("org/slashed", 0.2, SPEC, "temperature_within_threshold"),
    ],
)
async def test_b23_a_name_that_one_pool_serves_goes_there_whatever_the_temperature(
    stage: Stage, model: str, temperature: float, pool: str, reason: str
) -> None:
    at, _, reply = await stage.routed(body(model=model, temperature=temperature))
    assert (at, reply["x-breakeven-reason"], reply.status) == (pool, reason, 200)


@pytest.mark.parametrize(
    "model",
    ["nope", "M", " m", "m ", "", "m\n", "m\u0000", "x" * 10_240, "../m", "org/m", "m/", "m-lora/..", "m%2e", "м"],
)
async def test_b23_a_name_that_nobody_serves_is_404_and_reaches_no_engine(stage: Stage, model: str) -> None:
    async with stage.counting("client_error"):
        error = refused(await stage.ask(body(model=model)), 404, param="model")
    assert (error["code"], error["type"], stage.seen) == ("model_not_found", "invalid_request_error", [])


async def test_b23_what_only_the_speculative_pool_serves_is_not_sent_there_with_min_p(stage: Stage) -> None:
    """No pool will ever take it, so it is no 503, which clients would retry; the engine would have said 400 too."""
    reply = await stage.ask(body(model="spec-only", min_p=0.05))
    assert (reply.status, stage.seen) == (400, [])


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/"])
async def test_b61_models_are_listed_once_with_every_field(stage: Stage, path: str) -> None:
    replies = [await stage.router.get(path) for _ in range(3)]
    assert {(reply.status, reply["Content-Type"]) for reply in replies} == {(200, "application/json")}
    assert len({reply.body for reply in replies}) == 1
    listed = replies[0].json()
    names = [each["id"] for each in listed["data"]]
    assert listed["object"] == "list"
    assert sorted(names) == ["fast", "m", "m-lora", "org/slashed", "spec-only", "tuned"]
    cards = {each["id"]: each for each in listed["data"]}
    assert cards["m"] == card("m", max_model_len=4096, created=9)
    assert cards["m-lora"] == card("m-lora", parent="m")
    assert cards["spec-only"] == card("spec-only")
    assert cards["fast"]["object"] == "model"
    assert b"127.0.0.1" not in replies[0].body


async def test_b61_one_model_is_shown_with_every_field(stage: Stage) -> None:
    reply = await stage.router.get("/v1/models/m-lora")
    if reply.status != 404:
        assert (reply.status, reply.json()) == (200, card("m-lora", parent="m"))
    reply = await stage.router.get("/v1/models/nope")
    assert reply.status == 404


async def test_b61_the_list_is_only_to_be_read(stage: Stage) -> None:
    reply = await stage.ask(body(), path="/v1/models")
    refused(reply, 405)
    assert "GET" in reply["Allow"]


async def test_b23_embeddings_of_an_adapter_follow_the_name_too(stage: Stage) -> None:
    pool, seen, _ = await stage.routed(b'{"model":"m-lora","input":"x"}', path="/v1/embeddings")
    assert (pool, seen.target) == (BASE, "/v1/embeddings")


@pytest.mark.slow
async def test_b60_dead_hanging_and_odd_engines_do_not_spoil_the_list(tmp_path_factory: pytest.TempPathFactory) -> None:
    dead, healthy, hanging, odd = engines = [Engine(f"{BASE}-{number}") for number in range(4)]
    await dead.listen()
    await dead.refuse()
    hanging.probes["/v1/models"] = hangs
    pages = iter([answers(b"not json"), answers(b'{"data":5}'), answers(b"[]"), answers(b"", 404)])
    all_served = asyncio.Event()

    async def next_page(link: Link) -> None:
        page = next(pages, None)
        if page is None:
            all_served.set()
        await (page or answers(b"", 500))(link)

    odd.probes["/v1/models"] = next_page
    async with staged(tmp_path_factory.mktemp("b60"), base=engines, spec=[], settle=False) as stage:
        await stage.router.settled(healthy.name)
        await stage.router.settled(hanging.name, odd.name, listed=False)
        await asyncio.wait_for(all_served.wait(), PATIENCE_S)
        for path in ("/v1/models", "/v1/models/"):
            asked_s = time.monotonic()
            reply = await stage.router.get(path)
            assert time.monotonic() - asked_s < 1
            assert (reply.status, [each["id"] for each in reply.json()["data"]]) == (200, ["m"])
            assert b"127.0.0.1" not in reply.body
        for _ in range(40):
            assert (await stage.ask(body())).status == 200
        assert [engine.name for engine in engines if engine.requests] == [healthy.name, hanging.name, odd.name]
