"""The keys of clients as they are in force: those of the settings and those of the file that the settings name."""

from pathlib import Path

from pydantic import SecretStr

from breakeven.api_keys import ApiKeys
from breakeven.config import Settings
from breakeven.config_sources import ConfigError
from breakeven.key_list import keys_of, read_keys

KEY_FILE_BYTES_MAX = 2**20
"""A thousand keys fill 100 KB; whatever is larger was named by mistake."""


def keys_in_force(settings: Settings) -> ApiKeys | None:
    """None: everybody may come in. ConfigError where the file cannot be used; its message repeats no key."""
    if settings.api_keys is None and settings.api_keys_file is None:
        return None
    keys = list((settings.api_keys or {}).items())
    if settings.api_keys_file is not None:
        keys += read_key_file(settings.api_keys_file)
    try:
        together = keys_of(keys)
    except ValueError as error:
        raise ConfigError(f"api_keys_file: {error}, in {settings.api_keys_file} or beside api_keys") from None
    return ApiKeys({name: key.get_secret_value() for name, key in together.items()})


def read_key_file(path: Path) -> list[tuple[str, SecretStr]]:
    """Names and keys of the file; ConfigError says what is wrong with it."""
    try:
        with path.open("rb") as file:
            content = file.read(KEY_FILE_BYTES_MAX + 1)
        if len(content) > KEY_FILE_BYTES_MAX:
            raise ConfigError(f"api_keys_file: {path}: larger than {KEY_FILE_BYTES_MAX} bytes; is this a list of keys?")
        return list(read_keys(content.decode()).items())
    except OSError as error:
        raise ConfigError(f"api_keys_file: {path}: cannot read it: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"api_keys_file: {path}: not text; is this a list of keys?") from None
    except ValueError as error:
        raise ConfigError(f"api_keys_file: {path}: {error}") from None
