"""What holds for all tests.

Tests that talk to real vLLM are asked for with `-m vllm` (`make test-vllm`); without it they are left out and the last
lines say so. They are no skips, because CI, where a skip is a failure, has no vLLM.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from breakeven_bench.vllm.host import Environment, missing

# A machine that has other work to do is no fault of a test.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

VLLM_MARK = "vllm"

LEFT_OUT = pytest.StashKey[int]()
"""How many tests against real vLLM there are and were not asked for."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if VLLM_MARK in str(config.getoption("markexpr")):
        return
    left_out = [item for item in items if item.get_closest_marker(VLLM_MARK)]
    items[:] = [item for item in items if not item.get_closest_marker(VLLM_MARK)]
    config.hook.pytest_deselected(items=left_out)
    config.stash[LEFT_OUT] = len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    count = config.stash.get(LEFT_OUT, 0)
    if count:
        terminalreporter.write_line(f"{count} tests against real vLLM were not asked for: make test-vllm runs them")


@pytest.fixture(scope="session")
def real_vllm() -> Environment:
    """Where vLLM is installed: whoever asks for tests against it is told that it is not, rather than shown a skip."""
    environment = Environment.of(os.environ)
    lacking = missing(environment)
    if lacking:
        pytest.fail(f"real vLLM was asked for, but {lacking}", pytrace=False)
    return environment
