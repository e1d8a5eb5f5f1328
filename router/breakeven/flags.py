"""Command-line flags made from the settings, so that a setting is declared in one place only."""

import argparse
from collections.abc import Sequence
from typing import Any, get_args

from pydantic.fields import FieldInfo

from breakeven.config import Settings
from breakeven.config_sources import did_you_mean

FILE_ONLY = frozenset(("pools", "models", "defaults"))
"""Structure does not fit on a command line; the file and the environment take it as YAML."""

REPEATABLE = frozenset(
    (
        "alias_policies", "aliases", "api_keys", "baseline", "cors_origins", "extra_paths", "policy_choices", "shadow",
        "speculative", "tables",
    )
)  # fmt: skip


class Parser(argparse.ArgumentParser):
    """As inherited, with what was probably meant by a flag that there is not."""

    def parse_known_args(  # type: ignore[override]  # the base has overloads for its namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As inherited; told first, since a mistyped flag makes other arguments look missing or misplaced."""
        if args is not None and self._subparsers is None:
            before_values = list(args)[: list(args).index("--")] if "--" in args else args
            for name in (word.partition("=")[0] for word in before_values if word.startswith("--")):
                if name not in self._option_string_actions:
                    self.error(f"unknown flag {name}{did_you_mean(name, self._option_string_actions)}")
        return super().parse_known_args(args, namespace)


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
    if name in REPEATABLE:
        return f"{text}; repeat, or separate by commas"
    if setting.default is None:
        return text
    values = get_args(setting.annotation)
    if values and all(isinstance(value, str) for value in values):
        text = f"{text}: {', '.join(values)}"
    return f"{text} (default {setting.default})"
