"""What the router's tests share."""

import os

import pytest


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No BREAKEVEN_* variable from whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("BREAKEVEN_")]:
        monkeypatch.delenv(name)
