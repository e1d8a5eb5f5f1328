"""`breakeven.config_sources`: where settings come from, which source wins, and what is said about a mistake."""

from pathlib import Path
from typing import Any

import pytest

from breakeven.config import Settings
from breakeven.config_sources import (
    CONFIG_FILE_BYTES_MAX,
    EXPECTATIONS,
    ConfigError,
    build_settings,
    describe,
    did_you_mean,
    read_config_file,
)

KNOWN = Settings.model_fields.keys()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(clean_environment: None) -> None:
    """The environment of whoever runs the tests says nothing here."""


def lines_of(**flags: Any) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        build_settings(Settings, flags)
    return caught.value.lines


def file_with(folder: Path, text: str) -> Path:
    path = folder / "breakeven.yaml"
    path.write_text(text)
    return path


def test_an_unknown_environment_variable_is_an_error_that_names_the_near_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_BASLINE", "http://a:1")
    assert lines_of() == ("BREAKEVEN_BASLINE: unknown environment variable; did you mean BREAKEVEN_BASELINE?",)


def test_an_unknown_key_of_the_file_is_an_error_that_names_file_and_key(tmp_path: Path) -> None:
    path = file_with(tmp_path, "treshold: 0.5\nzzz: 1\n")
    assert lines_of(config=path) == (
        f"{path}: treshold: unknown setting; did you mean threshold?",
        f"{path}: zzz: unknown setting",
    )


def test_an_unknown_key_inside_a_pool_is_an_error_that_shows_the_way_to_it(tmp_path: Path) -> None:
    path = file_with(tmp_path, "pools: [{name: a, kind: plain, backends: ['http://a:1'], hosts: 3}]\n")
    assert lines_of(config=path) == (f"pools[0].hosts: unknown setting (from {path})",)


def test_a_bad_value_names_the_flag_the_variable_or_the_file_that_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file_with(tmp_path, "baseline: http://a:1\nthreshold: x\nport: x\nadmin_port: x\npolicy: fast\n")
    monkeypatch.setenv("BREAKEVEN_PORT", "y")
    monkeypatch.setenv("BREAKEVEN_ADMIN_PORT", "y")
    assert lines_of(config=path, admin_port="z") == (
        "port: expected a whole number, got 'y' (from BREAKEVEN_PORT)",
        "admin_port: expected a whole number, got 'z' (from --admin-port)",
        f"threshold: expected a number, got 'x' (from {path})",
    )
    path.write_text("baseline: http://a:1\npolicy: fast\n")
    monkeypatch.delenv("BREAKEVEN_PORT")
    monkeypatch.delenv("BREAKEVEN_ADMIN_PORT")
    (line,) = lines_of(config=path)
    assert line.startswith("policy: unknown policy 'fast'")
    assert line.endswith(f" (from {path})")


def test_a_contradiction_that_a_default_is_part_of_is_from_nowhere() -> None:
    assert lines_of(baseline="http://a:1", port="8081") == ("admin_port: must differ from port, both are 8081",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "line 1, column 6: "),
        (b"- a\n", "expected settings as key: value, got a list"),
        (b"just words", "expected settings as key: value, got a str"),
        (b"\xff\xfe\x00", "not UTF-8 text"),
        (b"#" * (CONFIG_FILE_BYTES_MAX + 1), "larger than"),
        (b"1: 2\n", "1: unknown setting"),
    ],
    ids=["yaml", "list", "text", "binary", "size", "number as key"],
)
def test_a_file_that_is_no_configuration_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        read_config_file(path, KNOWN)
    assert len(caught.value.lines) == 1
    assert caught.value.lines[0].startswith(f"{path}: {message}")


def test_a_missing_file_and_a_folder_are_one_line(tmp_path: Path) -> None:
    assert lines_of(config=tmp_path / "none.yaml") == (
        f"{tmp_path}/none.yaml: cannot read it: No such file or directory",
    )
    assert lines_of(config=tmp_path) == (f"{tmp_path}: cannot read it: Is a directory",)


def test_a_file_cannot_name_another_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, "config: other.yaml\n")
    assert lines_of(config=path) == (f"{path}: config: unknown setting",)


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    assert read_config_file(file_with(tmp_path, "# nothing yet\n"), KNOWN) == {}


def test_flag_wins_over_environment_over_file_over_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file_with(tmp_path, "baseline: http://file:1\nport: 1001\nadmin_port: 1002\nthreshold: 0.1\n")
    monkeypatch.setenv("BREAKEVEN_ADMIN_PORT", "2002")
    monkeypatch.setenv("BREAKEVEN_THRESHOLD", "0.2")
    found = build_settings(Settings, {"config": path, "threshold": "0.3"})
    assert (found.threshold, found.admin_port, found.port, found.host) == (0.3, 2002, 1001, "0.0.0.0")


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_CONFIG", str(file_with(tmp_path, "baseline: http://file:1\n")))
    assert build_settings(Settings, {}).baseline == ["http://file:1"]


def test_every_kind_of_setting_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "BASELINE": "http://a:1,http://b:2",
        "ALIASES": "fast=m",
        "DEFAULTS": "{temperature: 0.6}",
        "MODELS": '{"m": {"defaults": {"min_p": 0.1}}}',
        "POOLS": "[{name: eagle, kind: speculative, backends: ['http://c:3']}]",
        "CORS_ORIGINS": "https://a.example, https://b.example",
        "IDLE_TIMEOUT_S": "1.5",
        "ADMIN_KEY": "sesame",
    }.items():
        monkeypatch.setenv(f"BREAKEVEN_{name}", value)
    found = build_settings(Settings, {})
    assert [pool.name for pool in found.pools] == ["eagle", "baseline"]
    assert found.aliases == {"fast": "m"}
    assert found.defaults.temperature == 0.6
    assert found.models["m"].defaults.min_p == 0.1
    assert found.cors_origins == ["https://a.example", "https://b.example"]
    assert found.idle_timeout_s == 1.5
    assert found.admin_key is not None
    assert found.admin_key.get_secret_value() == "sesame"


def test_an_empty_environment_variable_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_PORT", "")
    assert build_settings(Settings, {"baseline": "http://a:1"}).port == 8080


def test_what_kubernetes_sets_for_a_service_named_breakeven_is_not_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BREAKEVEN_PORT", "tcp://10.0.0.1:8080")
    monkeypatch.setenv("BREAKEVEN_PORT_8080_TCP_ADDR", "10.0.0.1")
    monkeypatch.setenv("BREAKEVEN_SERVICE_HOST", "10.0.0.1")
    assert build_settings(Settings, {"baseline": "http://a:1"}).port == 8080


def test_every_mistake_is_a_line_and_each_is_told_once() -> None:
    assert lines_of(baseline="http://a:1", port="abc", threshold="nan", body_max_bytes="3", log_level="loud") == (
        "port: expected a whole number, got 'abc' (from --port)",
        "threshold: expected a finite number (from --threshold)",
        "body_max_bytes: expected at least 1024, got '3' (from --body-max-bytes)",
        "log_level: expected 'debug', 'info', 'warning' or 'error', got 'loud' (from --log-level)",
    )


def test_a_secret_of_the_wrong_kind_is_not_repeated(tmp_path: Path) -> None:
    path = file_with(tmp_path, "baseline: http://a:1\nadmin_key: [hunter2]\n")
    (line,) = lines_of(config=path)
    assert line == f"admin_key: expected text (from {path})"


@pytest.mark.parametrize(
    ("pools", "line"),
    [
        ("{name: p, api_key: hunter2}", "pools: expected a list, got key: value pairs"),
        ("[[p, hunter2]]", "pools[0]: expected key: value pairs, got a list"),
        ("['api_key: hunter2']", "pools[0]: expected key: value pairs"),
        ("[p]", "pools[0]: expected key: value pairs, got 'p'"),
    ],
)
def test_a_secret_inside_something_in_the_wrong_place_is_not_repeated(tmp_path: Path, pools: str, line: str) -> None:
    path = file_with(tmp_path, f"pools: {pools}\n")
    assert lines_of(config=path) == (f"{line} (from {path})",)


def test_a_long_value_is_shown_in_part() -> None:
    (line,) = lines_of(baseline="http://a:1", port="9" * 5000)
    assert len(line) < 200


def test_an_error_of_a_kind_not_foreseen_keeps_the_words_of_pydantic() -> None:
    detail = {"type": "url_scheme", "loc": ("a", 1, "b"), "msg": "URL scheme should be http", "input": "x"}
    assert describe(detail) == "a[1].b: URL scheme should be http"  # type: ignore[arg-type]


def test_every_expectation_can_be_filled_in() -> None:
    for text in EXPECTATIONS.values():
        assert text.format(expected="'a' or 'b'", gt=0, ge=1, le=2)


def test_nothing_near_means_no_suggestion() -> None:
    assert did_you_mean("zzz", ["port", "host"]) == ""
