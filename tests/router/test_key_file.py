"""`breakeven.key_file`: the keys of the settings and those of a mounted file (field case B63)."""

from pathlib import Path

import pytest

from breakeven.config import Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven.headers import Headers
from breakeven.key_file import KEY_FILE_BYTES_MAX, keys_in_force

pytestmark = pytest.mark.usefixtures("clean_environment")


def settings(**values: object) -> Settings:
    return build_settings(Settings, {"baseline": "http://127.0.0.1:1", **values})


def mistakes(**values: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        keys_in_force(settings(**values))
    assert "secret" not in str(caught.value)
    return caught.value.lines


def test_a_file_that_cannot_be_read_opens_no_door(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert mistakes(api_keys_file=path) == (f"api_keys_file: {path}: cannot read it: No such file or directory",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected at least one key; leave it out to let everybody in"),
        (b"\xff\xfe", "not text; is this a list of keys?"),
        (b"secret one", "the key 'file-key-1' must be visible ASCII characters, at least one"),
        (b"x" * (KEY_FILE_BYTES_MAX + 1), f"larger than {KEY_FILE_BYTES_MAX} bytes; is this a list of keys?"),
    ],
)
def test_a_file_of_something_else_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    assert mistakes(api_keys_file=path) == (f"api_keys_file: {path}: {message}",)


def test_one_key_under_two_names_is_a_mistake_also_over_both_places(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("team=secret-1")
    assert mistakes(api_keys="other=secret-1", api_keys_file=path) == (
        f"api_keys_file: 'other' and 'team' are the same key, in {path} or beside api_keys",
    )


def test_both_places_count(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text("mounted=sk-2\n")
    keys = keys_in_force(settings(api_keys="team=sk-1", api_keys_file=path))
    assert keys is not None
    found = [keys.holder(Headers([(b"x-api-key", key)])) for key in (b"sk-1", b"sk-2", b"sk-3")]
    assert found == ["team", "mounted", None]


def test_without_keys_all_may_come_in() -> None:
    assert keys_in_force(settings()) is None
