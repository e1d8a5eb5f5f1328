"""How the keys of clients are written down: in the configuration, or in a file of their own. No error repeats a key."""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr
from pydantic_settings import NoDecode

from breakeven.config_values import NAME_PATTERN, reject, split_list

KEYS_MAX = 1000
"""An unknown token is compared with each, 0.3 ms for so many, in which nothing is relayed."""

_match_named = re.compile(NAME_PATTERN.strip("^$") + r"=(?=.*[^=])").match
_is_visible = re.compile(r"[!-~]+").fullmatch


def named_keys(value: Any) -> Any:
    """`api_keys` as it may be written: a mapping of name to key, or a list of keys or name=key, or that with commas.

    A key without a name is called after its place.
    """
    if value is None:
        return None
    entries = split_list(value)
    if isinstance(entries, Mapping):
        pairs = [(str(name), entry) for name, entry in entries.items()]
    elif isinstance(entries, list):
        pairs = [_named(entry, f"key-{place}") for place, entry in enumerate(entries, 1)]
    else:
        reject("expected a list of keys, or names with their keys")
    return keys_of(pairs)


def read_keys(text: str) -> dict[str, SecretStr]:
    """The keys of an `api_keys_file`: one a line, name=key or not; empty lines and lines from # on say nothing."""
    lines = [line.strip() for line in text.splitlines()]
    entries = [line for line in lines if line and not line.startswith("#")]
    return keys_of([_named(entry, f"file-key-{place}") for place, entry in enumerate(entries, 1)])


def keys_of(pairs: Iterable[tuple[str, Any]]) -> dict[str, SecretStr]:
    """The keys by name; ValueError where one cannot be used, or there is none: an empty list must not open the door."""
    keys: dict[str, SecretStr] = {}
    owners: dict[str, str] = {}
    for name, key in pairs:
        secret = key.get_secret_value() if isinstance(key, SecretStr) else key
        if not re.fullmatch(NAME_PATTERN, name):
            reject("a name of a key has lower-case letters, digits and hyphens, 63 at most")
        if not isinstance(secret, str):
            reject(f"the key {name!a} must be text; put it in quotes")
        secret = secret.strip()
        if not _is_visible(secret):
            reject(f"the key {name!a} must be visible ASCII characters, at least one")
        if name in keys:
            reject(f"there are two keys named {name!a}")
        if secret in owners:
            reject(f"{owners[secret]!a} and {name!a} are the same key")
        owners[secret] = name
        keys[name] = SecretStr(secret)
    if not keys:
        reject("expected at least one key; leave it out to let everybody in")
    if len(keys) > KEYS_MAX:
        reject(f"{KEYS_MAX} keys at most")
    return keys


def _named(entry: Any, otherwise: str) -> tuple[str, Any]:
    """Name and key of name=key. A name is followed by more than the = that pads many keys."""
    text = entry.get_secret_value() if isinstance(entry, SecretStr) else entry
    if isinstance(text, str) and (named := _match_named(text.strip())):
        name = named[0][:-1]
        return name, text.strip()[len(name) + 1 :]
    return otherwise, entry


KeyList = Annotated[dict[str, SecretStr] | None, NoDecode, BeforeValidator(named_keys)]
"""The keys by name; None: there are none, and everybody may come in."""
