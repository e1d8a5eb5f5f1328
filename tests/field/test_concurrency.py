"""B51: no hidden cap: six hundred streams are at the engine at once, and pages of our own do not wait for them."""

import asyncio

import pytest

from tests.field.client import body, request
from tests.field.scripts import LAST_CHUNK, Link
from tests.field.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

STREAMS = 600
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
PATIENCE_S = 40.0


async def test_b51_six_hundred_streams_are_at_the_engine_at_once(stage: Stage) -> None:
    go = asyncio.Event()

    async def held(link: Link) -> None:
        await link.head()
        await link.chunk(EVENT)
        await go.wait()
        await link.chunk(END)
        await link.end()

    async def stream() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.router.port)
        writer.write(request(body(temperature=0.2, stream=True)))
        answer = await reader.readuntil(LAST_CHUNK)
        writer.close()
        return answer

    stage.spec.script = held
    streams = [asyncio.create_task(stream()) for _ in range(STREAMS)]
    async with asyncio.timeout(PATIENCE_S):
        await stage.spec.busy(STREAMS)
        for admin, path in ((False, "/health"), (False, "/ready"), (True, "/metrics")):
            assert (await stage.router.get(path, admin=admin)).status == 200
        go.set()
        answers = await asyncio.gather(*streams)
    assert all(answer.count(b"data: ") == 3 and b" 200 " in answer[:20] for answer in answers)
    await stage.idle()
