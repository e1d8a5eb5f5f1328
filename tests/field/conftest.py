"""One router with one engine in each pool for all field cases that need no settings of their own.

A module that needs others overrides `site`. The engines forget everything between two tests; one event loop runs all.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.field.stage import Stage, staged


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """The router with its default settings, but for quick probes."""
    async with staged(tmp_path_factory.mktemp("router")) as stage:
        yield stage


@pytest_asyncio.fixture(loop_scope="session")
async def stage(site: Stage) -> AsyncIterator[Stage]:
    """The router with every backend ready and its engines cleared; afterwards nothing must have gone wrong unseen."""
    await site.prepare()
    yield site
    site.check()
