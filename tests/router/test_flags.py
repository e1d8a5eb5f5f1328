"""`breakeven.flags`: the command line follows from the settings."""

import argparse

import pytest

from breakeven.config import Settings
from breakeven.config_sources import build_settings
from breakeven.flags import FILE_ONLY, Parser, add_setting_flags, given_settings

pytestmark = pytest.mark.usefixtures("clean_environment")


def parser(names: frozenset[str] | None = None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(allow_abbrev=False)
    add_setting_flags(made, names)
    return made


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(["--treshold", "1"])
    assert caught.value.code == 2


@pytest.mark.parametrize("name", sorted(FILE_ONLY))
def test_structure_has_no_flag(name: str) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args([f"--{name}", "x"])


def test_what_is_not_given_is_not_set_so_that_the_other_sources_count() -> None:
    assert given_settings(parser().parse_args([])) == {}


def test_a_repeated_flag_and_a_comma_mean_the_same() -> None:
    repeated = parser().parse_args(["--baseline", "http://a:1", "--baseline", "http://b:2", "--aliases", "x=y"])
    separated = parser().parse_args(["--baseline", "http://a:1,http://b:2", "--aliases", "x=y"])
    assert given_settings(repeated) == given_settings(separated)
    assert build_settings(Settings, given_settings(repeated)).aliases == {"x": "y"}


def test_flags_are_settings_and_other_arguments_are_not() -> None:
    made = parser()
    made.add_argument("--probe", action="store_true")
    assert given_settings(made.parse_args(["--probe", "--admin-port", "1"])) == {"admin_port": "1"}


def test_what_follows_two_dashes_is_no_flag() -> None:
    made = Parser(allow_abbrev=False)
    made.add_argument("file")
    assert made.parse_args(["--", "--treshold"]).file == "--treshold"


def test_help_says_which_values_there_are_and_how_several_are_given() -> None:
    text = " ".join(parser().format_help().split())
    assert "own log on stderr: debug, info, warning, error (default info)" in text
    for name in ("without speculation", "EAGLE-3 for example", "alias=model", "* for any", "/v1/custom for example"):
        assert f"{name}; repeat, or separate by commas" in text


def test_only_the_named_settings_get_flags() -> None:
    with pytest.raises(SystemExit):
        parser(frozenset(("policy",))).parse_args(["--port", "1"])


def test_every_setting_that_has_a_flag_explains_itself_with_its_default_and_its_unit() -> None:
    text = parser().format_help()
    for name in Settings.model_fields.keys() - FILE_ONLY:
        assert f"--{name.replace('_', '-')}" in text
    assert "--drain-timeout-s SECONDS" in text
    assert "--body-max-bytes BYTES" in text
    assert "--baseline URL" in text
    assert "(default threshold)" in text
