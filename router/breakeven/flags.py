"""Command-line flags made from the settings, so that a setting is declared in one place only."""

import argparse
from typing import Any

from pydantic.fields import FieldInfo

from breakeven.config import Settings

FILE_ONLY = frozenset(("pools", "models", "defaults"))
"""Structure does not fit on a command line; the file and the environment take it as YAML."""

REPEATABLE = frozenset(("baseline", "speculative", "aliases", "cors_origins", "extra_paths"))


def add_setting_flags(parser: argparse.ArgumentParser, names: frozenset[str] | None = None) -> None:
    """One flag for each setting, or for those of `names`; what is not given leaves no trace in the result."""
    for name, setting in Settings.model_fields.items():
        if name in FILE_ONLY or (names is not None and name not in names):
            continue
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            action="append" if name in REPEATABLE else "store",
            default=argparse.SUPPRESS,
            metavar=_metavar(name),
            help=_help(name, setting),
        )


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line names, as text; a repeated flag and a comma mean the same."""
    given = {name: value for name, value in vars(arguments).items() if name in Settings.model_fields}
    return {name: ",".join(value) if isinstance(value, list) else value for name, value in given.items()}


def _metavar(name: str) -> str:
    if name in {"baseline", "speculative"}:
        return "URL"
    last = name.rpartition("_")[2]
    return {"s": "SECONDS", "bytes": "BYTES", "config": "FILE"}.get(last, last.upper())


def _help(name: str, setting: FieldInfo) -> str:
    text = (setting.description or "").replace("%", "%%")
    if name in REPEATABLE or setting.default is None:
        return text
    return f"{text} (default {setting.default})"
