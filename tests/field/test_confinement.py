"""B93: without root, name, home or anything to write on but /tmp the router serves, large bodies and metrics too."""

import asyncio
import hashlib
from collections.abc import Callable
from subprocess import Popen

import pytest

from tests.field.client import Client, body
from tests.field.router import until, unused_ports
from tests.field.scripted_engine import Engine
from tests.field.stage import SPEC
from tests.house.test_container import contained, installed

__all__ = ["contained", "installed"]
"""The container without an engine that runs containers, from the tests of the image."""

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

LARGE = body(temperature=0.2, user="x" * 9_000_000)


def read_until_ready(router: Popen[str]) -> list[str]:
    """Its log so far."""
    log: list[str] = []
    assert router.stdout is not None
    for line in router.stdout:
        log.append(line)
        if "ready on" in line:
            return log
    raise AssertionError("".join(log))


async def test_b93_on_a_read_only_root_under_a_number_a_large_body_passes_and_metrics_are_shown(
    contained: Callable[..., Popen[str]],
) -> None:
    engine = Engine(f"{SPEC}-0")
    await engine.listen()
    port, admin_port = unused_ports(2)
    settings = {"HOST": "127.0.0.1", "PORT": str(port), "ADMIN_PORT": str(admin_port), "SPECULATIVE": engine.url}
    router = contained("serve", **{f"BREAKEVEN_{name}": value for name, value in settings.items()})
    await asyncio.to_thread(read_until_ready, router)

    async def get(path: str, at: int) -> int | None:
        async with await Client.connect(at) as client:
            return (await client.ask(None, method="GET", path=path)).status

    async def ready() -> bool:
        return await get("/ready", port) == 200

    await until(ready, "ready")
    async with await Client.connect(port) as client:
        assert (await client.ask(LARGE)).status == 200
    assert engine.requests[0].sha256 == hashlib.sha256(LARGE).hexdigest()
    assert await get("/metrics", admin_port) == 200
    router.terminate()
    rest, _ = await asyncio.to_thread(router.communicate)
    assert (router.returncode, "Traceback" in rest) == (0, False)
    await engine.refuse()
