"""Whether each pure source file is fully covered, lines and branches, by its own same-named test and by nothing else.

    python tests/house/own_coverage.py [part of a path ...]

Covered by chance, through some other test, does not count: whoever changes the file must find what it promises in one
place. Each test runs in a process of its own, so that nothing is imported or cached on another's behalf. `.ci/run`
calls this; it takes minutes, so `make test` does not.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from threading import Lock

from coverage import Coverage

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the tests are no installed package

from tests.house.test_imports import pure_modules
from tests.house.test_tree import WITHOUT_OWN_TEST, own_test
from tests.house.tree import ROOT, module_name, sources

REPORTING = Lock()
"""Reports are made one at a time: they read the files' own lines, and a process of its own for each takes 0.5 s."""


def missing(source: Path) -> str | None:
    """What the file's own test leaves uncovered, as coverage prints it; None where that is nothing."""
    with tempfile.TemporaryDirectory() as folder:
        data = f"--data-file={folder}/data"
        coverage = [sys.executable, "-m", "coverage"]
        # /dev/null: the project's own settings measure whole packages.
        run = ["run", "--rcfile=/dev/null", "--branch", f"--include={source}", data, "-m", "pytest", "-q"]
        tested = subprocess.run(
            [*coverage, *run, "-p", "no:cacheprovider", own_test(source)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if tested.returncode:
            return tested.stdout[-500:]
        report = StringIO()
        measured = Coverage(data_file=f"{folder}/data", config_file=False, branch=True)
        with REPORTING:
            measured.load()
            covered = measured.report(file=report, show_missing=True, precision=1)
        return None if covered == 100.0 else report.getvalue()


def main(parts: list[str]) -> int:
    pure = pure_modules()
    chosen = [path for path in sources() if module_name(path) in pure and path.name not in WITHOUT_OWN_TEST]
    chosen = [path for path in chosen if not parts or any(part in str(path) for part in parts)]
    lacking = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, report in zip(chosen, pool.map(missing, chosen), strict=True):
            lacking += report is not None
            print(f"{source}: {'its own test covers it' if report is None else report}", flush=True)
    print(f"{len(chosen)} pure files, {lacking} not fully covered by their own test")
    return 1 if lacking or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
