"""`breakeven.explain_command`: explains a request from a saved fleet, and says what is wrong with unusable files."""

import io
import json
import sys
from pathlib import Path

import pytest

from breakeven.body import ModelTable
from breakeven.config_sources import ConfigError
from breakeven.explain_command import explain_offline, read_input
from breakeven.fleet_json import encode_fleet
from breakeven_policies.snapshot import BackendView, FleetSnapshot, PoolKind, PoolView
from breakeven_policies.threshold import Threshold

FLEET = FleetSnapshot(
    0.0,
    (
        PoolView("plain", PoolKind.PLAIN, (BackendView("plain-0"),)),
        PoolView("eagle", PoolKind.SPECULATIVE, (BackendView("eagle-0"),)),
    ),
)


@pytest.fixture
def fleet_path(tmp_path: Path) -> str:
    path = tmp_path / "fleet.json"
    path.write_bytes(encode_fleet(FLEET))
    return str(path)


def body_file(folder: Path, text: str) -> str:
    path = folder / "request.json"
    path.write_text(text)
    return str(path)


def explained(
    body_path: str, fleet_path: str, endpoint: str = "chat.completions", *, as_json: bool = False
) -> tuple[int, list[str]]:
    said: list[str] = []
    code = explain_offline(
        body_path, fleet_path, endpoint, [Threshold()], ModelTable(), as_json=as_json, say=said.append
    )
    return code, said


@pytest.mark.parametrize("content", ["", "[]", "<html>"])
def test_a_file_that_is_no_fleet_is_a_configuration_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "fleet.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="not a fleet saved from GET /fleet"):
        explained(body_file(tmp_path, "{}"), str(path))


def test_a_missing_file_is_a_configuration_error(tmp_path: Path, fleet_path: str) -> None:
    with pytest.raises(ConfigError, match="cannot read it: No such file"):
        explained(str(tmp_path / "none.json"), fleet_path)


@pytest.mark.parametrize("body", ["", "{", "[]", "hello"])
def test_a_body_that_the_router_would_refuse_says_so(tmp_path: Path, fleet_path: str, body: str) -> None:
    code, said = explained(body_file(tmp_path, body), fleet_path)
    assert code == 1
    assert said[0].startswith("the router itself would answer 400: ")


def test_an_unknown_endpoint_says_which_there_are(tmp_path: Path, fleet_path: str) -> None:
    code, said = explained(body_file(tmp_path, "{}"), fleet_path, endpoint="chat")
    assert code == 1
    assert "chat.completions" in said[0]


@pytest.mark.parametrize(("temperature", "pool"), [(0.7, "eagle/eagle-0"), (1.2, "plain/plain-0")])
def test_a_request_is_explained_as_text(tmp_path: Path, fleet_path: str, temperature: float, pool: str) -> None:
    code, said = explained(body_file(tmp_path, json.dumps({"model": "m", "temperature": temperature})), fleet_path)
    assert code == 0
    assert said[0].startswith(f"route to {pool} ")


def test_a_request_is_explained_as_json(tmp_path: Path, fleet_path: str) -> None:
    code, said = explained(body_file(tmp_path, '{"model": "m", "min_p": 0.1}'), fleet_path, as_json=True)
    assert code == 0
    document = json.loads("\n".join(said))
    assert document["decision"]["pool"] == "plain"
    assert document["pools"][1]["obstacle"] == "capability"


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"model": "m"}')))
    assert read_input("-") == b'{"model": "m"}'
