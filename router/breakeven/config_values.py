"""The kinds of values that settings have, and how text becomes one of them."""

import re
from collections.abc import Hashable
from math import isfinite
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_settings import NoDecode

NAME_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
"""Names go into headers, metric labels and file names; the shape is that of a DNS label (RFC 1123)."""

METHOD = re.compile(r"[a-z0-9_]{1,32}")
"""vLLM's own words: eagle3, draft_model, ngram, mtp, ..."""

HOST = re.compile(r"[A-Za-z0-9_:-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
"""A name or a numeric address, colons for IPv6; names that are not ASCII must be given in their encoded form."""

ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^\s/?#@,]+")
"""Scheme and host as a browser sends them (RFC 6454), or any."""


POLICIES_MAX = 8
"""Each policy that is asked costs every request a decision, some 10 µs, and the metrics a label value."""


HEADER = re.compile(r"x-[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?")
"""It is taken off the request: with a prefix it can be none that engines or connections need."""

TAKEN_HEADERS = frozenset(("x-request-id", "x-api-key"))
"""These mean something else here."""


class Section(BaseModel):
    """Settings inside a setting: unknown keys are mistakes, and values are in no error."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def reject(message: str) -> NoReturn:
    """Say what is expected; pydantic adds which key it is about."""
    raise ValueError(message)


class _StrictLoader(yaml.SafeLoader):
    """Safe YAML in which a key given twice is an error; plain YAML lets the last one win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """As inherited, after looking for repeated keys."""
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key.value!r} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_yaml(text: str) -> Any:
    """The one document of `text`; ValueError says where and what is wrong, in one line."""
    try:
        return yaml.load(text, _StrictLoader)  # noqa: S506  # a SafeLoader, stricter
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
        message = f"{where}{error.problem or error.context or 'not YAML'}"
    except (yaml.YAMLError, RecursionError) as error:
        message = f"not YAML: {str(error).splitlines()[0] if str(error) else type(error).__name__}"
    raise ValueError(message)


def yaml_value(value: Any) -> Any:
    """A structured setting given as text, by the environment for example, is YAML (so JSON works too)."""
    return load_yaml(value) if isinstance(value, str) else value


def split_list(value: Any) -> Any:
    """Text becomes the list of its comma-separated items, blanks and empty items dropped; anything else stays."""
    if not isinstance(value, str):
        return value
    return [item.strip() for item in value.split(",") if item.strip()]


def split_mapping(value: Any) -> Any:
    """Text, or a list of texts, of the form "a=b,c=d" becomes a mapping; anything else stays."""
    items = split_list(value)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return value
    pairs = [item.partition("=") for entry in items for item in split_list(entry)]
    for name, equals, target in pairs:
        if not (name and equals and target):
            reject(f"expected name=value pairs separated by commas, got {f'{name}{equals}{target}'!a}")
    return {name.strip(): target.strip() for name, _, target in pairs}


def parse_address(url: str) -> tuple[str, int, bool]:
    """(host, port, tls) of an engine's address; ValueError says what an address must look like."""
    expected = f"expected http://HOST:PORT or https://HOST:PORT, got {_without_credentials(url)!a}"
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(expected) from None
    if parts.scheme not in {"http", "https"} or port == 0 or not HOST.fullmatch(host or ""):
        reject(expected)
    if parts.username is not None or parts.password is not None:
        reject("an address carries no credentials; put the key into the pool's api_key")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        reject(f"{expected}; leave the path out, the router adds /v1 and the rest itself")
    tls = parts.scheme == "https"
    return str(host), port or (443 if tls else 80), tls


def _without_credentials(url: str) -> str:
    before, at, after = url.rpartition("@")
    return f"...@{after}" if at and before else url


def _no_bool(value: Any) -> Any:
    """YAML reads yes, no, on and off as true and false, which Python would take for 1 and 0."""
    if isinstance(value, bool):
        reject(f"expected a number, got {str(value).lower()}; YAML reads yes, no, on and off as true and false")
    return value


def _finite(value: float) -> float:
    if not isfinite(value):
        reject("expected a finite number")
    return value


def _temperature(value: float) -> float:
    if value < 0:
        reject(f"expected at least 0, got {value:g}: no request has a lower one, so nothing would be speculated")
    return value


def _address(url: str) -> str:
    parse_address(url)
    return url


def _origin(origin: str) -> str:
    if not ORIGIN.fullmatch(origin):
        reject(f"expected * or an origin such as https://chat.example.org, got {origin!a}")
    return origin


def _header(name: str) -> str:
    name = name.strip().lower()
    if name and (not HEADER.fullmatch(name) or name in TAKEN_HEADERS):
        reject(f"expected a header of your own such as x-breakeven-policy, got {name!a}")
    return name


def _method(method: str) -> str:
    if not METHOD.fullmatch(method):
        reject(f"expected a method such as eagle3, draft_model or ngram, got {method!a}")
    return method


def _key(value: Any) -> Any:
    """Keys often come from files, with a line break at the end; an empty one means none (field case B84)."""
    return (value.strip() or None) if isinstance(value, str) else value


def _visible(key: SecretStr | None) -> SecretStr | None:
    if key is not None and not all("!" <= character <= "~" for character in key.get_secret_value()):
        reject("expected visible ASCII characters only")
    return key


Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Whole = Annotated[int, BeforeValidator(_no_bool)]
Number = Annotated[float, BeforeValidator(_no_bool)]
Port = Annotated[Whole, Field(ge=0, le=65535)]
Seconds = Annotated[Number, Field(ge=0), AfterValidator(_finite)]
Interval = Annotated[Number, Field(ge=0.01, le=3600)]
Finite = Annotated[Number, AfterValidator(_finite)]
Temperature = Annotated[Finite, AfterValidator(_temperature)]
Method = Annotated[str, AfterValidator(_method)]
Key = Annotated[SecretStr | None, BeforeValidator(_key), AfterValidator(_visible)]
Address = Annotated[str, AfterValidator(_address)]
AddressList = Annotated[list[Address], NoDecode, BeforeValidator(split_list)]
OriginList = Annotated[list[Annotated[str, AfterValidator(_origin)]], NoDecode, BeforeValidator(split_list)]
HeaderName = Annotated[str, AfterValidator(_header)]
PolicyList = Annotated[list[str], NoDecode, BeforeValidator(split_list), Field(max_length=POLICIES_MAX)]
PathList = Annotated[list[str], NoDecode, BeforeValidator(split_list)]
TextMapping = Annotated[dict[str, str], NoDecode, BeforeValidator(split_mapping)]
