"""What a test needs beyond Python and make: where it is missing the test says so and skips, except in CI.

`.ci/run` installs everything and sets `TESTS_REQUIRE_ALL=1`, so that a skip there is a failure: a test that never
ran anywhere proves nothing. (The variable is not called BREAKEVEN_something, since the router refuses such names that
are no setting of its own, and tests start routers.)
"""

import os
import shutil

import pytest


def required() -> bool:
    return os.environ.get("TESTS_REQUIRE_ALL") == "1"


def needs(program: str, install: str) -> str:
    """The path of a program on PATH, for use in a test or a fixture; `install` says how one gets it."""
    path = shutil.which(program)
    if path is not None:
        return path
    return missing(f"needs {program}: {install}")


def missing(what: str) -> str:
    """Skip the running test with this reason, or fail it where nothing may be skipped."""
    if required():
        pytest.fail(f"TESTS_REQUIRE_ALL=1, but this {what}", pytrace=False)
    pytest.skip(what)
