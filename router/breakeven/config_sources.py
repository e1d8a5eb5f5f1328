"""Where settings come from, and what a person is told when they are wrong.

pydantic-settings merges the sources: flags, then BREAKEVEN_* variables, then the YAML file. Each source refuses keys
that it does not know, because a misspelt key that is silently ignored is a setting that is silently missing.
"""

import os
import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, PydanticBaseSettingsSource

from breakeven.config_values import load_yaml
from breakeven.errors import shown

ENV_PREFIX = "BREAKEVEN_"

FOREIGN_PREFIXES = ("BREAKEVEN_SERVICE_", "BREAKEVEN_PORT_", "BREAKEVEN_BENCH_")
"""Not ours: Kubernetes sets the first two for every Service named breakeven, the suite reads the third."""

CONFIG_FILE_BYTES_MAX = 2**20
"""A thousand engines fill 100 KB; whatever is larger was named by mistake."""

SELF_EVIDENT = frozenset(("missing", "extra_forbidden", "too_short"))
"""Mistakes for which the value says nothing further."""

EXPECTATIONS = {
    "missing": "required, but not given",
    "extra_forbidden": "unknown setting",
    "too_short": "expected at least one item",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "int_type": "expected a whole number",
    "float_parsing": "expected a number",
    "float_type": "expected a number",
    "bool_parsing": "expected true or false",
    "bool_type": "expected true or false",
    "string_type": "expected text",
    "list_type": "expected a list",
    "dict_type": "expected key: value pairs",
    "model_type": "expected key: value pairs",
    "enum": "expected {expected}",
    "literal_error": "expected {expected}",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "string_pattern_mismatch": "expected lower-case letters, digits and hyphens, 63 at most",
}
"""What pydantic's error types mean in the words of a configuration; any other type keeps pydantic's own sentence."""

SETTING = re.compile(r"[a-z_]+(?=[:.\[])")
"""A line begins with the key of a setting, or with the way to one inside it."""

SECRET = re.compile(r"_key$|^api_keys\b")
"""Settings whose values are shown to nobody."""

WITH_SECRET = re.compile("key", re.IGNORECASE)
"""Text that may well hold one: a pool whose api_key is inside, written where something else is expected."""

SettingsT = TypeVar("SettingsT", bound=BaseSettings)


class ConfigError(Exception):
    """The configuration cannot be used; `lines` are fit to be shown, one mistake each, without secrets."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def settings_sources(
    settings_class: type[BaseSettings], flags: PydanticBaseSettingsSource
) -> tuple[PydanticBaseSettingsSource, ...]:
    """Flags over environment over the file that either of them names."""
    environment = EnvironmentSource(settings_class)
    path = config_path(flags(), environment())
    file = {} if path is None else read_config_file(path, settings_class.model_fields.keys() - {"config"})
    return flags, environment, InitSettingsSource(settings_class, init_kwargs=file)


def config_path(flags: Mapping[str, Any], environment: Mapping[str, Any]) -> Path | None:
    """The file that either of them names."""
    path = flags.get("config") or environment.get("config")
    return None if path is None else Path(path)


def origins(settings_class: type[BaseSettings], flags: Mapping[str, Any]) -> dict[str, str]:
    """Which flag, variable or file each given setting comes from; a default comes from nowhere."""
    environment = EnvironmentSource(settings_class)()
    path = config_path(flags, environment)
    file = {} if path is None else read_config_file(path, settings_class.model_fields.keys() - {"config"})
    return {
        **dict.fromkeys(file, str(path)),
        **{name: ENV_PREFIX + name.upper() for name in environment},
        **{name: f"--{name.replace('_', '-')}" for name in flags},
    }


class EnvironmentSource(EnvSettingsSource):
    """BREAKEVEN_* variables; an empty one counts as absent, an unknown one is an error."""

    def __init__(self, settings_class: type[BaseSettings]) -> None:
        super().__init__(settings_class, env_ignore_empty=True)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        ours = {name: value for name, value in os.environ.items() if name.startswith(ENV_PREFIX) and value}
        # Kubernetes again: for a Service named breakeven this is an address, tcp://10.0.0.1:8080.
        if ours.get("BREAKEVEN_PORT", "").startswith("tcp://"):
            del ours["BREAKEVEN_PORT"]
        ours = {name: value for name, value in ours.items() if not name.startswith(FOREIGN_PREFIXES)}
        known = [ENV_PREFIX + field.upper() for field in self.settings_cls.model_fields]
        unknown = [
            f"{name}: unknown environment variable{did_you_mean(name, known)}" for name in ours if name not in known
        ]
        if unknown:
            raise ConfigError(*unknown)
        return {name.lower(): value for name, value in ours.items()}


def read_config_file(path: Path, known: Collection[str]) -> dict[str, Any]:
    """The settings in a YAML file; ConfigError if it cannot be read, is no mapping, or has a key not in `known`."""
    try:
        with path.open("rb") as file:
            content = file.read(CONFIG_FILE_BYTES_MAX + 1)
        if len(content) > CONFIG_FILE_BYTES_MAX:
            raise ConfigError(f"{path}: larger than {CONFIG_FILE_BYTES_MAX} bytes; is this a configuration file?")
        values = load_yaml(content.decode())
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text; is this a configuration file?") from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    if not isinstance(values, dict | None):
        raise ConfigError(f"{path}: expected settings as key: value, got a {type(values).__name__}")
    unknown = [
        f"{path}: {key}: unknown setting{did_you_mean(str(key), known)}" for key in values or {} if key not in known
    ]
    if unknown:
        raise ConfigError(*unknown)
    return dict(values or {})


def did_you_mean(word: str, known: Collection[str]) -> str:
    """'; did you mean ...?' where a known word is near, else nothing."""
    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def build_settings(settings_class: type[SettingsT], flags: Mapping[str, Any]) -> SettingsT:
    """The merged and judged settings; ConfigError with one line per mistake."""
    try:
        return settings_class(**flags)
    except ValidationError as error:
        known = origins(settings_class, flags)
        lines = (with_origin(describe(detail), known) for detail in error.errors(include_url=False))
        raise ConfigError(*dict.fromkeys(lines)) from None


def with_origin(line: str, known: Mapping[str, str]) -> str:
    """The line, and where the setting that it begins with was given."""
    key = SETTING.match(line)
    origin = known.get(key[0]) if key else None
    return line if origin is None else f"{line} (from {origin})"


def describe(detail: ErrorDetails) -> str:
    """One mistake as `key: what is expected, got what`; the value is left out where it may be a secret or is long."""
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in detail["loc"]).removeprefix(".")
    context = {
        name: f"{bound:g}" if isinstance(bound, float) else bound for name, bound in detail.get("ctx", {}).items()
    }
    expected = EXPECTATIONS.get(detail["type"], "").format(**context) or detail["msg"]
    if detail["type"] == "value_error":
        expected = str(detail["ctx"]["error"])
    elif detail["type"] in EXPECTATIONS and detail["type"] not in SELF_EVIDENT and not SECRET.search(key):
        expected += _got(detail["input"])
    return f"{key}: {expected}" if key else expected


def _got(value: object) -> str:
    """What was given instead. Of a structure only its kind: a pool in the wrong place holds the key of its engines."""
    if isinstance(value, Mapping | list):
        return f", got {'key: value pairs' if isinstance(value, Mapping) else 'a list'}"
    return "" if WITH_SECRET.search(str(value)) else f", got {shown(str(value))}"
