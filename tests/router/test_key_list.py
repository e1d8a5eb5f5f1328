"""`breakeven.key_list`: how keys are written down (field cases B63, B84)."""

import re
from typing import Any

import pytest
from pydantic import SecretStr

from breakeven.key_list import KEYS_MAX, named_keys, read_keys


def shown(keys: Any) -> dict[str, str]:
    return {name: key.get_secret_value() for name, key in keys.items()}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected at least one key; leave it out to let everybody in"),
        ("", "expected at least one key"),
        ({}, "expected at least one key"),
        (3, "expected a list of keys, or names with their keys"),
        ([123456], "the key 'key-1' must be text; put it in quotes"),
        ({"team": None}, "the key 'team' must be text; put it in quotes"),
        ({"team": ""}, "the key 'team' must be visible ASCII characters, at least one"),
        ({"team": "secret b"}, "the key 'team' must be visible ASCII characters"),
        (["secret\u00e4"], "the key 'key-1' must be visible ASCII characters"),
        ({"Team": "secret"}, "a name of a key has lower-case letters, digits and hyphens, 63 at most"),
        (["a=secret", "a=other"], "there are two keys named 'a'"),
        (["a=secret", "b=secret"], "'a' and 'b' are the same key"),
        ([f"k{place}" for place in range(KEYS_MAX + 1)], f"{KEYS_MAX} keys at most"),
    ],
)
def test_a_mistake_is_told_without_the_key(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as caught:
        named_keys(value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ("sk-1", {"key-1": "sk-1"}),
        ("sk-1, team=sk-2,", {"key-1": "sk-1", "team": "sk-2"}),
        (["team=sk-2", "sk-3"], {"team": "sk-2", "key-2": "sk-3"}),
        ({"team": "sk-2\n", 7: "sk-7"}, {"team": "sk-2", "7": "sk-7"}),
        (["c2VjcmV0=="], {"key-1": "c2VjcmV0=="}),
        (["c2vj=="], {"key-1": "c2vj=="}),
        (["team=c2vj=="], {"team": "c2vj=="}),
        (["Not a name=x"[:3] + "=x"], {"key-1": "Not=x"}),
        ([SecretStr("team=sk-2")], {"team": "sk-2"}),
        ({"team": SecretStr("sk-2")}, {"team": "sk-2"}),
    ],
)
def test_keys_are_written_with_and_without_names(value: Any, keys: dict[str, str]) -> None:
    assert shown(named_keys(value)) == keys


def test_no_key_at_all_is_not_the_same_as_an_empty_list() -> None:
    assert named_keys(None) is None


def test_a_file_has_one_key_a_line() -> None:
    text = "# of the platform team\nteam=sk-1\r\n\n  sk-2  \n#sk-3\n"
    assert shown(read_keys(text)) == {"team": "sk-1", "file-key-2": "sk-2"}


def test_a_file_without_a_key_lets_nobody_in() -> None:
    with pytest.raises(ValueError, match="at least one key"):
        read_keys("# none yet\n")


def test_a_key_is_not_shown_by_accident() -> None:
    assert "sk-1" not in repr(named_keys("sk-1"))
