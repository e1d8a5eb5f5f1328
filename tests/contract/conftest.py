"""The engines that the contract is held against, one of each kind for the whole session."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from breakeven_bench.launch import Launcher
from tests.contract.engine import Engine, running
from tests.contract.targets import SIMULATOR, TARGETS, VLLM, Shape, Target

VLLM_TEST_TIMEOUT_S = 600
"""A test may have to start two real engines one after the other, each within its five minutes."""


def pytest_generate_tests(metafunc):
    """Every test runs against both targets, one that is itself marked `vllm` against the real one alone."""
    if "target" in metafunc.fixturenames:
        real = pytest.param(VLLM.name, marks=[pytest.mark.vllm, pytest.mark.timeout(VLLM_TEST_TIMEOUT_S)])
        targets = [real] if metafunc.definition.get_closest_marker("vllm") else [SIMULATOR.name, real]
        metafunc.parametrize("target", targets, indirect=True, scope="session")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    found = TARGETS[request.param]
    if found is VLLM:
        request.getfixturevalue("real_vllm")
    return found


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def pair(target: Target, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Engine, Engine]]:
    """A plain and a speculative engine, started side by side."""
    async with Launcher(tmp_path_factory.mktemp(target.name)) as launcher:
        plain, speculative = await asyncio.gather(
            running(launcher, target, Shape()), running(launcher, target, Shape(speculative=True))
        )
        yield plain, speculative


@pytest.fixture(scope="session")
def plain(pair: tuple[Engine, Engine]) -> Engine:
    return pair[0]


@pytest.fixture(scope="session")
def speculative(pair: tuple[Engine, Engine]) -> Engine:
    return pair[1]


@pytest.fixture(params=["plain", "speculative"])
def engine(request: pytest.FixtureRequest, pair: tuple[Engine, Engine]) -> Engine:
    """Each of the two, for what holds of both."""
    return dict(zip(("plain", "speculative"), pair, strict=True))[request.param]


@pytest.fixture(scope="module")
def shape() -> Shape:
    """What `own_engine` is started with; a module may override it."""
    return Shape()


@pytest_asyncio.fixture
async def own_engine(target: Target, shape: Shape, tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine that the test may kill."""
    async with Launcher(tmp_path) as launcher:
        yield await running(launcher, target, shape)
