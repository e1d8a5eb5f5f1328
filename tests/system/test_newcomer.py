"""The policy that CONTRIBUTING shows is one: it obeys the laws, and a router decides by it, all from that one file."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

import breakeven_policies
from breakeven_policies.registry import build_policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot
from tests.field.client import body
from tests.field.stage import BASE, SPEC, staged
from tests.house.tree import ROOT, read
from tests.policies import test_laws
from tests.policies.fleets import fleets, requests

LAWS = [
    law.hypothesis.inner_test
    for name, law in vars(test_laws).items()
    if name.startswith("test_")
    and hasattr(law, "hypothesis")
    and set(inspect.signature(law.hypothesis.inner_test).parameters) == {"policy", "fleet", "request"}
]

PLACE = "policies/breakeven_policies/by_length.py"

LINES_MAX = 30


def shown() -> str:
    (block,) = re.findall(r"```python\n(.*?)```", read("CONTRIBUTING.md"), re.DOTALL)
    return str(block)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """On the path, with that one file in it."""
    package = tmp_path / "breakeven_policies"
    package.mkdir()
    (package / "by_length.py").write_text(shown())
    return tmp_path


def test_it_is_no_longer_than_promised_and_written_as_the_rest_is() -> None:
    assert len([line for line in shown().splitlines() if line.strip()]) <= LINES_MAX
    for words in (["check"], ["format", "--check"]):
        # Judged as if it lay where the others lie.
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", PLACE, "-"]
        done = subprocess.run(command, input=shown(), capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_it_obeys_every_law(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = [*breakeven_policies.__path__, str(folder / "breakeven_policies")]
    monkeypatch.setattr(breakeven_policies, "__path__", path)
    policy = build_policy("by_length:100")
    assert len(LAWS) >= 6

    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(fleet=fleets(), request=requests())
    def all_laws(fleet: FleetSnapshot, request: RequestView) -> None:
        for law in LAWS:
            law(policy, fleet=fleet, request=request)

    try:
        all_laws()
    finally:
        del sys.modules["breakeven_policies.by_length"]


@pytest.mark.slow
async def test_a_router_decides_by_it_and_explains_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH")))))
    settings = {"policy": "by_length:300", "shadow": ["by_length"], "workers": 2}
    async with staged(tmp_path_factory.mktemp("router"), settings) as stage:
        for padding, pool in (("", SPEC), ("x" * 400, BASE)):
            reached, _, reply = await stage.routed(body(temperature=1.9, padding=padding))
            assert (reached, reply["x-breakeven-reason"], reply["x-breakeven-policy"]) == (
                pool,
                "own_rule",
                "by_length:300",
            )
        async with await stage.admin() as client:
            explained = (await client.ask(body(padding="x" * 400), path="/explain?policy=by_length")).json()
        assert explained["decision"]["pool"] == SPEC
        stage.check()
