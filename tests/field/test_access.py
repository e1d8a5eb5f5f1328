"""What is served at which path by which method: the table of endpoints, pages of our own, and nothing beside."""

import pytest

from breakeven.endpoints import EndpointTable
from tests.field.client import JSON, Reply, body, request
from tests.field.stage import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORWARDED = [endpoint.path for endpoint in EndpointTable()]
OWN = ["/health", "/ready", "/v1/models", "/v1/models/m"]
NOWHERE = ["/", "/metrics", "/fleet", "/docs", "/v1", "/v1/files", "/version", "/v1/load_lora_adapter", "/invocations"]
"""Of the admin port, of the engines, of nobody."""

METHODS = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"]


async def asked(stage: Stage, method: str, path: str, content: bytes | None = None) -> Reply:
    """The answer; a second request on the same connection shows that the framing of the first was right."""
    async with await stage.client() as client:
        await client.send(request(content, method=method, path=path, headers=JSON), method)
        reply = await client.end()
        assert reply.complete
        second = await client.ask(None, method="GET", path="/health")
        assert second.body == b'{"status":"ok"}'
    if method == "HEAD":
        assert reply.body == b""
    assert reply.values("x-request-id")
    return reply


@pytest.mark.parametrize("method", METHODS)
async def test_an_endpoint_is_there_for_post_and_says_so(stage: Stage, method: str) -> None:
    for path in FORWARDED:
        reply = await asked(stage, method, path)
        assert (reply.status, reply["allow"]) == (405, "POST"), path
    assert stage.seen == []


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
async def test_a_page_of_the_router_is_there_to_be_read_and_says_so(stage: Stage, method: str) -> None:
    for path in OWN:
        reply = await asked(stage, method, path, body() if method == "POST" else None)
        assert (reply.status, reply["allow"]) == (405, "GET, HEAD"), path
    assert stage.seen == []


async def test_the_head_of_a_page_is_that_of_the_page_without_its_body(stage: Stage) -> None:
    for path in OWN:
        page, head = [await asked(stage, method, path) for method in ("GET", "HEAD")]
        assert (page.status, head.status) == (200, 200), path
        assert head["content-length"] == page["content-length"] == str(len(page.body))


@pytest.mark.parametrize("method", ["POST", *METHODS])
async def test_nothing_else_is_anywhere(stage: Stage, method: str) -> None:
    for path in NOWHERE:
        reply = await asked(stage, method, path, body() if method == "POST" else None)
        assert (reply.status, reply.values("allow")) == (404, []), path
    assert stage.seen == []
