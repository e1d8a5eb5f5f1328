"""`breakeven.admin`: what it shows, whom it lets, and that every error has the shape OpenAI clients know."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from breakeven.admin import EXPLAIN_BYTES_MAX, AdminServer, admin_app, is_loopback
from breakeven.body import ModelTable
from breakeven.config import Settings
from breakeven.endpoints import EndpointTable
from breakeven.fleet import Fleet, ModelsListed, PoolSpec, ProbeSucceeded
from breakeven.fleet_json import decode_fleet
from breakeven.metrics import Metrics
from breakeven.policy_in_force import PolicyInForce
from breakeven.sights import Sights
from breakeven_policies.snapshot import Health, PoolKind

POOLS = (
    PoolSpec("plain", PoolKind.PLAIN, "none", 0, ("plain-0",)),
    PoolSpec("eagle", PoolKind.SPECULATIVE, "eagle3", 3, ("eagle-0",)),
)


def fleet_of_two() -> Fleet:
    fleet = Fleet(POOLS)
    for backend in ("plain-0", "eagle-0"):
        fleet.apply(ProbeSucceeded(backend))
        fleet.apply(ModelsListed(backend, frozenset({"m"})))
    return fleet


def sights(fleet: Fleet, admin_key: str | None = None) -> Sights:
    in_force = PolicyInForce(Settings(pools=[{"name": "plain", "kind": "plain", "backends": ["http://127.0.0.1:1"]}]))
    return Sights(
        snapshot=lambda: fleet.snapshot(1.0),
        policy=lambda: in_force.current,
        ready=fleet.ready,
        metrics=Metrics(POOLS),
        models=ModelTable(aliases={"fast": "m"}),
        endpoints=EndpointTable(),
        admin_key=admin_key,
        apply=fleet.apply,
        build=in_force.build,
        configured=lambda: in_force.configured,
        switch=lambda spec, _: in_force.switch(spec),
    )


@asynccontextmanager
async def admin(fleet: Fleet | None = None, admin_key: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    app = admin_app(sights(fleet or fleet_of_two(), admin_key))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://admin") as client:
        yield client


def error_of(response: httpx.Response) -> dict[str, str | None]:
    answer = response.json()
    assert set(answer) == {"error"}
    assert set(answer["error"]) == {"message", "type", "param", "code"}
    error: dict[str, str | None] = answer["error"]
    return error


async def test_unknown_paths_and_methods_have_shaped_errors() -> None:
    async with admin() as client:
        for method, path, status in (("GET", "/v1/models", 404), ("GET", "/explain", 405), ("POST", "/metrics", 405)):
            response = await client.request(method, path)
            assert response.status_code == status
            assert error_of(response)["type"] == "invalid_request_error"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 20_000, b'{"model": 3}'])
async def test_a_body_that_cannot_be_viewed_is_answered_as_the_router_would(body: bytes) -> None:
    async with admin() as client:
        response = await client.post("/explain", content=body)
        assert response.status_code == 400
        assert error_of(response)["type"] == "invalid_request_error"


async def test_a_body_above_the_limit_is_refused_whatever_length_it_declares() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * (EXPLAIN_BYTES_MAX // 2)

    async with admin() as client:
        response = await client.post("/explain", content=pieces())
        assert response.status_code == 413
        assert error_of(response)["code"] == "request_too_large"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("policy=least_loaded&policy=fastest", "policy"),
        ("policy=pinned:nowhere", "policy"),
        ("&".join(["policy=threshold"] * 9), "policy"),
        ("endpoint=chat", "endpoint"),
        ("ticket=1", "ticket"),
        ("ticket=x", "ticket"),
    ],
)
async def test_unfit_query_parameters_are_named(query: str, param: str) -> None:
    async with admin() as client:
        response = await client.post(f"/explain?{query}", json={"model": "m"})
        assert response.status_code == 400
        assert error_of(response)["param"] == param


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic sesame", "sesame", "Bearer sesame2", "Bearer sésame"],
)
async def test_with_a_key_posting_needs_it_and_reading_does_not(header: str | None) -> None:
    headers = [] if header is None else [(b"authorization", header.encode())]
    async with admin(admin_key="sesame") as client:
        response = await client.post("/explain", json={"model": "m"}, headers=headers)
        assert response.status_code == 401
        assert error_of(response)["code"] == "invalid_api_key"
        assert (await client.get("/fleet")).status_code == 200


@pytest.mark.parametrize("header", ["Bearer sesame", "bearer  sesame"])
async def test_the_right_key_opens(header: str) -> None:
    async with admin(admin_key="sesame") as client:
        response = await client.post("/explain", json={"model": "m"}, headers={"authorization": header})
        assert response.status_code == 200


@pytest.mark.parametrize(
    ("body", "pool", "reason"),
    [
        ({"model": "m", "temperature": 0.7}, "eagle", "temperature_within_threshold"),
        ({"model": "m", "temperature": 1.2}, "plain", "temperature_above_threshold"),
        ({"model": "fast"}, "eagle", "default_temperature_within_threshold"),
        ({"model": "m", "temperature": 0.7, "min_p": 0.05}, "plain", "capability"),
    ],
)
async def test_a_request_is_explained(body: dict[str, object], pool: str, reason: str) -> None:
    async with admin() as client:
        document = (await client.post("/explain", json=body)).json()
    assert (document["decision"]["pool"], document["decision"]["reason"]) == (pool, reason)
    assert [verdict["pool"] for verdict in document["pools"]] == ["plain", "eagle"]


async def test_a_request_is_explained_under_several_policies_and_none_is_put_in_force() -> None:
    async with admin() as client:
        query = "/explain?policy=pinned:plain&policy=least_loaded"
        document = (await client.post(query, json={"model": "m", "temperature": 0.7})).json()
        assert (await client.get("/policy")).json()["policy"] == "threshold"
    assert document["decision"]["policy"] == "pinned:plain"
    assert [other["decision"]["policy"] for other in document["others"]] == ["least_loaded"]


async def test_any_name_of_a_model_can_be_explained() -> None:
    async with admin() as client:
        response = await client.post("/explain", content=rb'{"model": "\ud83d"}')
    assert response.status_code == 200
    assert response.json()["request"]["model"] == "\ud83d"


async def test_a_request_that_would_be_refused_is_explained_too() -> None:
    async with admin() as client:
        response = await client.post("/explain?endpoint=/v1/completions", json={"model": "other", "prompt": "x"})
    assert response.status_code == 200
    assert response.json()["decision"]["reason"] == "unknown_model"


async def test_the_fleet_can_be_saved_and_read_back_and_names_no_address() -> None:
    fleet = fleet_of_two()
    async with admin(fleet) as client:
        answer = await client.get("/fleet")
    assert answer.headers["content-type"] == "application/json"
    assert decode_fleet(answer.content) == fleet.snapshot(1.0)
    assert not re.search(rb"https?:|127\.0\.0\.1", answer.content)


async def test_metrics_are_what_prometheus_reads() -> None:
    async with admin() as client:
        answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    names = {family.name for family in text_string_to_metric_families(answer.text)}
    assert {"breakeven_requests", "breakeven_backend_ready", "process_resident_memory_bytes"} <= names


async def test_the_policy_is_named_with_its_threshold_and_the_pools_it_prefers() -> None:
    async with admin() as client:
        assert (await client.get("/policy")).json() == {
            "policy": "threshold",
            "configured": "threshold",
            "switched": False,
            "threshold": 1.0,
            "up_to_threshold": ["eagle"],
            "above_threshold": ["plain"],
        }


async def test_alive_is_not_ready() -> None:
    async with admin(Fleet(POOLS)) as client:
        assert (await client.get("/health")).status_code == 200
        response = await client.get("/ready")
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert error_of(response)["code"] == "not_ready"
    async with admin() as client:
        assert (await client.get("/ready")).json() == {"status": "ready"}


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_pages_load_nothing_from_elsewhere(path: str) -> None:
    async with admin() as client:
        answer = await client.get(path)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert not re.search(r"(src|href|url)\s*[=(]\s*[\"']?(https?:)?//", answer.text)


async def test_the_documentation_names_every_route() -> None:
    async with admin() as client:
        page = (await client.get("/docs")).text
        paths = (await client.get("/openapi.json")).json()["paths"]
    for path in paths:
        assert path in page
    changing = {"/backends/{name}/drain", "/backends/{name}/resume"}
    assert {"/metrics", "/fleet", "/policy", "/explain", "/health", "/ready", "/", "/docs"} | changing == set(paths)


async def test_the_server_serves_on_the_given_socket_until_it_is_told_to_stop() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        server = AdminServer(admin_app(sights(fleet_of_two())), [listening])
        serving = asyncio.create_task(server.run_until_stopped())
        await server.listening.wait()
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{port}/policy")
        assert json.loads(answer.content)["policy"] == "threshold"
        assert "server" not in answer.headers
        server.should_exit = True
        await serving


@pytest.mark.parametrize(
    ("host", "ours"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False),
     ("::ffff:10.0.0.1", False), ("testclient", False), ("", False)],
)  # fmt: skip
def test_which_addresses_are_this_machines_own(host: str, ours: bool) -> None:
    assert is_loopback(host) is ours


@asynccontextmanager
async def changing(fleet: Fleet, admin_key: str | None, peer: str) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(admin_app(sights(fleet, admin_key)), client=(peer, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
        yield client


@pytest.mark.parametrize(
    ("admin_key", "peer", "headers", "status", "code"),
    [
        (None, "10.0.0.1", {}, 403, "admin_key_required"),
        (None, "127.0.0.1", {"origin": "https://elsewhere.test"}, 403, "foreign_origin"),
        (None, "127.0.0.1", {"origin": "null"}, 403, "foreign_origin"),
        (None, "127.0.0.1", {"origin": "http://rebound.test:81", "host": "rebound.test:81"}, 403, "foreign_origin"),
        ("k", "127.0.0.1", {}, 401, "invalid_api_key"),
        ("k", "10.0.0.1", {"authorization": "Bearer x"}, 401, "invalid_api_key"),
    ],
)
async def test_who_may_not_drain_an_engine_nor_switch_the_policy_is_told_why(
    admin_key: str | None, peer: str, headers: dict[str, str], status: int, code: str
) -> None:
    fleet = fleet_of_two()
    async with changing(fleet, admin_key, peer) as client:
        for wish in ("drain", "resume"):
            answer = await client.post(f"/backends/plain-0/{wish}", headers=headers)
            assert (answer.status_code, error_of(answer)["code"]) == (status, code)
            assert answer.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
        for answer in (
            await client.put("/policy", json={"policy": "least_loaded"}, headers=headers),
            await client.delete("/policy", headers=headers),
        ):
            assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        assert (await client.get("/policy")).json()["policy"] == "threshold"
    assert fleet.health("plain-0") is Health.READY


@pytest.mark.parametrize(
    ("admin_key", "peer", "headers"),
    [
        (None, "127.0.0.1", {}),
        (None, "127.0.0.1", {"origin": "http://localhost:8081", "host": "localhost:8081"}),
        (None, "::1", {"origin": "http://[::1]:8081", "host": "[::1]:8081"}),
        ("k", "::1", {"authorization": "Bearer k", "origin": "http://admin"}),
        ("k", "10.0.0.1", {"authorization": "Bearer k"}),
    ],
)
async def test_draining_the_last_of_a_pool_is_done_and_warned_of(
    admin_key: str | None, peer: str, headers: dict[str, str]
) -> None:
    fleet = fleet_of_two()
    async with changing(fleet, admin_key, peer) as client:
        drained = (await client.post("/backends/plain-0/drain", headers=headers)).json()
        assert drained["warning"] == "no backend of pool plain is ready: other pools take what they can"
        assert (await client.get("/ready")).status_code == 200
        drained = (await client.post("/backends/eagle-0/drain", headers=headers)).json()
        assert drained["warning"].endswith("no engine is left and requests are refused")
        assert (await client.get("/ready")).status_code == 503
        resumed = (await client.post("/backends/plain-0/resume", headers=headers)).json()
    assert resumed == {"backend": "plain-0", "pool": "plain", "draining": False, "health": "ready", "in_flight": 0}


async def test_an_engine_that_is_not_there_cannot_be_drained() -> None:
    async with changing(fleet_of_two(), None, "127.0.0.1") as client:
        answer = await client.post("/backends/nobody/drain")
    assert (answer.status_code, error_of(answer)["code"]) == (404, "unknown_backend")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b'"least_loaded"', b"\xff", b"[" * 20_000, b'{"policy": 1}',
     b'{"policy": "pinned:plain", "x": 1}', b'{"policy": "fastest"}',
     b'{"policy": "pinned:nowhere"}', b'{"policy": "pinned:\\ud800"}', b'{"policy": ""}'],
)  # fmt: skip
async def test_what_names_no_policy_is_refused_and_changes_nothing(body: bytes) -> None:
    async with changing(fleet_of_two(), None, "127.0.0.1") as client:
        answer = await client.put("/policy", content=body)
        assert (answer.status_code, error_of(answer)["param"]) == (400, "policy")
        assert (await client.get("/policy")).json()["switched"] is False


async def test_another_policy_is_switched_to_and_taken_back() -> None:
    async with changing(fleet_of_two(), None, "127.0.0.1") as client:
        answer = (await client.put("/policy", json={"policy": "pinned:plain"})).json()
        assert answer == {"policy": "pinned:plain", "configured": "threshold", "switched": True, "prefers": ["plain"]}
        decided = (await client.post("/explain", json={"model": "m", "temperature": 0.7})).json()["decision"]
        assert (decided["pool"], decided["reason"]) == ("plain", "pinned")
        answer = (await client.delete("/policy")).json()
    assert (answer["policy"], answer["switched"]) == ("threshold", False)
