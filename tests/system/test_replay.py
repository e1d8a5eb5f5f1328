"""A journal that a real router wrote is decided again: alike by who wrote it, by others with the difference."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.field.client import body
from tests.field.router import until
from tests.field.stage import BASE, SPEC, staged

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

REQUESTS = 24


def replay(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "breakeven_bench", "replay", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def written(folder: Path) -> int:
    """Lines in all files of the journal."""
    return sum(path.read_bytes().count(b"\n") for path in folder.iterdir())


async def test_what_two_workers_wrote_into_a_journal_that_was_turned_over_is_decided_the_same_again(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    turned = {"journal": str(tmp_path), "journal_max_bytes": 4096, "journal_files": 100}
    async with staged(tmp_path_factory.mktemp("router"), {"workers": 2, "threshold": 0.8, **turned}) as stage:
        for number in range(REQUESTS):
            fields = {"min_p": 0.1} if number % 6 == 0 else {}
            await stage.ask(body(temperature=number / 20, stream=number % 2 == 0, **fields))
        await stage.ask(body(model="nobody's"))

        async def all_written() -> bool:
            return written(tmp_path) == REQUESTS + 1

        await until(all_written, "every decision in the journal")
        stage.check()
    assert (tmp_path / "journal.jsonl.2").exists()  # nobody waits here
    done = replay(tmp_path, "--threshold", "0.8", "--expect-agreement", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"# {REQUESTS + 1} decisions" in done.stdout

    out = tmp_path / "replay.out"
    done = replay(tmp_path, "--policy", f"pinned:{SPEC}", "--json", str(out), "--expect-agreement", "1")
    assert done.returncode == 1
    (policy,) = json.loads(out.read_bytes())["policies"]
    (way,) = policy["elsewhere"]
    # What needs plain sampling stays where it is, whoever decides.
    warm = sum(number / 20 > 0.8 and number % 6 != 0 for number in range(REQUESTS))
    assert (way["from"], way["to"], way["requests"]) == (BASE, SPEC, warm)
