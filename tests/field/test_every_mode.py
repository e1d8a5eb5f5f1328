"""B42: whatever the policy and the endpoint, the upstream lives until the last byte has been passed on."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from breakeven.endpoints import EndpointTable
from tests.field.client import body
from tests.field.scripts import ANSWER, LAST_CHUNK, answers, streams
from tests.field.stage import BASE, Stage, staged

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENDPOINTS = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/messages"]
EVENTS = [
    *(b'data: {"choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n' % number for number in range(1000)),
    b"data: [DONE]\n\n",
]
MODES = ["threshold:0.5", "least_loaded", f"pinned:{BASE}"]


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=MODES)
async def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """One router for each way of routing."""
    async with staged(tmp_path_factory.mktemp("router"), {"policy": request.param}) as stage:
        yield stage


@pytest.mark.slow
@pytest.mark.parametrize("path", ENDPOINTS)
async def test_b42_a_thousand_events_come_whole_with_their_terminator(stage: Stage, path: str) -> None:
    policy = str(stage.router.settings["policy"])
    stage.script(streams(EVENTS))
    async with stage.counting("completed", times=2):
        for stream in (True, False):
            pool, _, reply = await stage.routed(body(stream=stream, input="x", prompt="x", temperature=0.2), path=path)
            assert (reply.body, reply.complete) == (b"".join(EVENTS), True)
            assert reply.raw.endswith(LAST_CHUNK)
            assert reply["x-breakeven-policy"] == policy
            if policy.startswith("pinned:"):
                assert (pool, reply["x-breakeven-reason"]) == (policy.removeprefix("pinned:"), "pinned")


FORM = "form-of-the-test"
PARTS = {"model": "m", "temperature": "0.2", "stream": "true"}
MULTIPART = "".join(f'--{FORM}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in PARTS.items())


@pytest.mark.parametrize("path", sorted({endpoint.path for endpoint in EndpointTable()} - set(ENDPOINTS)))
async def test_b42_every_other_endpoint_passes_on_a_stream_to_its_terminator_too(stage: Stage, path: str) -> None:
    stage.script(streams(EVENTS[-20:]))
    content, kind = body(stream=True, input="x", query="x", documents=["y"], text_1="x", text_2="y"), "application/json"
    if "/audio/" in path:
        content, kind = f"{MULTIPART}--{FORM}--\r\n".encode(), f"multipart/form-data; boundary={FORM}"
    _, seen, reply = await stage.routed(content, path=path, headers=[("Content-Type", kind)])
    assert (reply.body, reply.complete, reply.raw.endswith(LAST_CHUNK)) == (b"".join(EVENTS[-20:]), True, True)
    assert (seen.target, seen.body) == (path, content)


async def test_b42_a_connection_serves_stream_after_answer_after_stream(stage: Stage) -> None:
    async with await stage.client() as client:
        for _ in range(3):
            stage.script(streams(EVENTS[-20:]))
            reply = await client.ask(body(stream=True))
            assert (reply.body, reply.complete, reply.closed) == (b"".join(EVENTS[-20:]), True, False)
            stage.script(answers())
            reply = await client.ask(body())
            assert (reply.body, reply.complete) == (ANSWER, True)


async def test_b01_no_mode_breaks_what_the_speculative_pool_refuses(stage: Stage) -> None:
    pool, _, _ = await stage.routed(body(temperature=0.2, min_p=0.05))
    assert pool == BASE
