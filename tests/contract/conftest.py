"""The engines that the contract is held against, one of each kind for the whole session.

Real vLLM is asked for with `-m vllm` (`make test-vllm`); without it those tests are left out and the last lines say so.
They are no skips, because CI, where a skip is a failure, has no vLLM.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from breakeven_bench.launch import Launcher
from tests.contract.engine import Engine, running
from tests.contract.targets import TARGETS, VLLM, Shape, Target

VLLM_TEST_TIMEOUT_S = 600
"""A test may have to start two real engines one after the other, each within its five minutes."""

LEFT_OUT = pytest.StashKey[int]()
"""How many tests against real vLLM there are and were not asked for."""


def wants_vllm(config: pytest.Config) -> bool:
    return VLLM.name in str(config.getoption("markexpr"))


def pytest_generate_tests(metafunc):
    if "target" in metafunc.fixturenames:
        named = [
            pytest.param(name, marks=[pytest.mark.vllm, pytest.mark.timeout(VLLM_TEST_TIMEOUT_S)] * (name == VLLM.name))
            for name in TARGETS
        ]
        metafunc.parametrize("target", named, indirect=True, scope="session")


def pytest_collection_modifyitems(config, items):
    if wants_vllm(config):
        return
    left_out = [item for item in items if item.get_closest_marker("vllm")]
    items[:] = [item for item in items if not item.get_closest_marker("vllm")]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = len(left_out)


def pytest_terminal_summary(terminalreporter, config):
    count = config.stash.get(LEFT_OUT, 0)
    if count:
        terminalreporter.write_line(f"{count} tests against real vLLM were not asked for: make test-vllm runs them")


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> Target:
    found = TARGETS[request.param]
    lacking = found.missing()
    if lacking:
        pytest.fail(f"real vLLM was asked for, but {lacking}", pytrace=False)
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
