"""A router process before one engine that costs next to nothing, and what it holds: memory, descriptors, series."""

import asyncio
import re
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psutil

from tests.field.router import Router
from tests.system.bond import dies_with_us


@dataclass(frozen=True, slots=True)
class Held:
    """What the router held at one moment."""

    requests: int
    memory_mb: float
    descriptors: int
    series: int


@asynccontextmanager
async def site(folder, **settings):
    """The router, settled."""
    pipe = asyncio.subprocess.PIPE
    engine = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "breakeven_bench.overhead.canned", stdout=pipe, preexec_fn=dies_with_us()
    )
    try:
        port = int(re.search(rb":(\d+)$", (await engine.stdout.readline()).rstrip())[1])
        pool = {
            "name": "speculative",
            "kind": "speculative",
            "backends": [{"name": "e", "url": f"http://127.0.0.1:{port}"}],
        }
        router = Router(folder, {"pools": [pool], "drain_timeout_s": 5, **settings})
        try:
            await router.start()
            await router.settled()
            yield router
            await router.stop()
        finally:
            await router.kill()
    finally:
        engine.kill()
        await engine.wait()


async def held(router, requests=0):
    """Look now."""
    page = (await router.get("/metrics", admin=True)).body
    process = psutil.Process(router.pid)
    series = sum(1 for line in page.splitlines() if line and not line.startswith(b"#"))
    return Held(requests, process.memory_info().rss / 2**20, process.num_fds(), series)
