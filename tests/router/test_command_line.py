"""`breakeven.command_line`: commands, exit codes, and one readable line for every mistake; never a traceback."""

import io
import json
import socket
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from breakeven.command_line import main
from breakeven.fleet_json import encode_fleet
from breakeven_policies.snapshot import BackendView, FleetSnapshot, PoolKind, PoolView

pytestmark = pytest.mark.usefixtures("clean_environment")

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


def test_without_a_command_and_with_an_unknown_one_usage_is_shown() -> None:
    for arguments in ([], ["route"], ["serve", "--treshold", "1"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2


@pytest.mark.parametrize("command", ["serve", "check"])
def test_every_mistake_of_the_configuration_is_a_line_and_the_code_is_2(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--baseline", "engine", "--port", "x"]) == 2
    assert capsys.readouterr().err == (
        "breakeven: baseline[0]: expected http://HOST:PORT or https://HOST:PORT, got 'engine' (from --baseline)\n"
        "breakeven: port: expected a whole number, got 'x' (from --port)\n"
    )


def test_a_missing_file_and_bad_yaml_are_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--config", str(tmp_path / "none.yaml")]) == 2
    bad = tmp_path / "bad.yaml"
    bad.write_text("pools: [")
    assert main(["check", "--config", str(bad)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("none.yaml: cannot read it: No such file or directory")
    assert "bad.yaml: line 1, column 9: " in lines[1]


@pytest.mark.parametrize("setting", ["port", "admin_port"])
def test_a_port_in_use_is_a_line_and_the_code_is_1(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        other = "admin_port" if setting == "port" else "port"
        flags = [f"--{setting.replace('_', '-')}", port, f"--{other.replace('_', '-')}", "0"]
        assert main(["serve", "--baseline", "http://127.0.0.1:1", "--host", "127.0.0.1", *flags]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"breakeven: {setting}: cannot listen on 127.0.0.1:{port}: address already in use"
    )


def test_an_access_log_that_cannot_be_written_is_a_line_and_the_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--port", "0", "--admin-port", "0", "--access-log", str(tmp_path)]
    assert main(["serve", "--baseline", "http://127.0.0.1:1", *flags]) == 1
    assert capsys.readouterr().err.endswith(f"breakeven: access_log: cannot write {tmp_path}: is a directory\n")


def test_check_says_that_all_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--baseline", "http://a:1", "--speculative", "http://b:2"]) == 0
    assert "0 problems, 0 warnings" in capsys.readouterr().out


def test_explain_reads_a_request_from_standard_input(
    fleet_path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"model": "m", "temperature": 1.2}')))
    assert main(["explain", "--fleet", fleet_path, "-"]) == 0
    assert capsys.readouterr().out.startswith("route to plain/plain-0 ")


def test_explain_takes_policy_and_threshold_from_flags(
    fleet_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = tmp_path / "request.json"
    body.write_text('{"model": "m", "temperature": 0.9}')
    for flags, pool in ((["--threshold", "0.5"], "plain"), (["--policy", "pinned:eagle"], "eagle")):
        assert main(["explain", "--fleet", fleet_path, "--json", *flags, str(body)]) == 0
        assert json.loads(capsys.readouterr().out)["decision"]["pool"] == pool


def test_explain_shows_several_policies_side_by_side(
    fleet_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = tmp_path / "body.json"
    body.write_text('{"model": "m", "temperature": 0.9}')
    flags = ["--policy", "threshold:0.5", "--policy", "pinned:eagle"]
    assert main(["explain", "--fleet", fleet_path, *flags, str(body)]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("policy")] == [
        "policy: threshold:0.5",
        "policy: pinned:eagle",
    ]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--policy", "fastest"], "policy: unknown policy 'fastest'"),
        (["--policy", "pinned:foo"], "policy: there is no pool 'foo'; there are: plain, eagle (in "),
        (["--threshold", "high"], "threshold: expected a finite number, at least 0, got 'high' (from --threshold)"),
        (["--threshold", "nan"], "threshold: expected a finite number, at least 0, got 'nan' (from --threshold)"),
        (["--threshold", "-1"], "threshold: expected a finite number, at least 0, got '-1' (from --threshold)"),
    ],
)
def test_explain_refuses_a_policy_that_serve_would_refuse(
    fleet_path: str, flags: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--fleet", fleet_path, *flags, fleet_path]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"breakeven: {line}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--treshold", "1"], "unknown flag --treshold; did you mean --threshold?"),
        (["check", "--prob"], "unknown flag --prob; did you mean --probe?"),
        (["explain", "--flet=x", "-"], "unknown flag --flet; did you mean --fleet?"),
        (["serve", "--zzz"], "unknown flag --zzz\n"),
        (["--versoin"], "the following arguments are required: COMMAND"),
    ],
)
def test_a_mistyped_flag_is_told_with_what_was_probably_meant(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_explain_lists_the_endpoints_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explain", "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    assert {"chat.completions", "completions", "embeddings"} <= set(words)


def test_explain_takes_aliases_and_defaults_from_a_file(
    fleet_path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, body = tmp_path / "breakeven.yaml", tmp_path / "request.json"
    config.write_text(
        "baseline: http://a:1\naliases: {fast: m}\nmodels: {m: {defaults: {temperature: 1.3}}}\nthreshold: 1.2\n"
    )
    body.write_text('{"model": "fast"}')
    assert main(["explain", "--fleet", fleet_path, "--config", str(config), "--json", str(body)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["request"]["model"] == "m"
    assert document["decision"]["reason"] == "default_temperature_above_threshold"


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"breakeven {version('breakeven')}\n"


@pytest.mark.parametrize("command", ["serve", "check", "explain"])
def test_help_teaches_by_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"breakeven {command} --" in capsys.readouterr().out.split("usage:")[1].split("\n\n", 1)[1]
