"""`breakeven.config_values`: text becomes values, and a mistake becomes a sentence that says what is expected."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, TypeAdapter, ValidationError

from breakeven.config_values import (
    Address,
    HeaderName,
    Key,
    Method,
    OriginList,
    Seconds,
    Temperature,
    load_yaml,
    parse_address,
    split_list,
    split_mapping,
    yaml_value,
)


@pytest.mark.parametrize(
    "url",
    [
        "", "engine", "engine:8000", "//engine:8000", "ftp://engine:21", "http://", "http://:8000", "http://engine:0",
        "http://engine:65536", "http://engine:port", "http://engine:-1", "http://a b:1", "http://a%20b:1", "http://[::1",
        "http://ümlaut:1", "http://a,b:1", "http://" + "a" * 64 + ":1", "http://a..b:1", "javascript:alert(1)",
    ],
)  # fmt: skip
def test_what_is_not_an_address_is_told_what_one_looks_like(url: str) -> None:
    with pytest.raises(ValueError, match=r"^expected http://HOST:PORT or https://HOST:PORT, got "):
        parse_address(url)


@pytest.mark.parametrize("url", ["http://engine:8000/v1", "http://engine/x", "http://engine/?a=1", "http://engine/#a"])
def test_a_path_is_refused_with_the_reason(url: str) -> None:
    with pytest.raises(ValueError, match="the router adds /v1"):
        parse_address(url)


@pytest.mark.parametrize("url", ["http://user:secret@engine:1", "http://:secret@engine:1", "http://user@engine:1"])
def test_credentials_in_an_address_are_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        parse_address(url)
    assert "secret" not in str(caught.value)


def test_credentials_in_a_broken_address_are_not_repeated_either() -> None:
    with pytest.raises(ValueError, match="expected http") as caught:
        parse_address("htp://user:secret@engine:1")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://engine:8000", ("engine", 8000, False)),
        ("http://engine:8000/", ("engine", 8000, False)),
        (" http://engine ", ("engine", 80, False)),
        ("https://engine.example.org", ("engine.example.org", 443, True)),
        ("https://10.0.0.1:8443", ("10.0.0.1", 8443, True)),
        ("http://[::1]:8000", ("::1", 8000, False)),
        ("HTTP://Engine_1:8000", ("engine_1", 8000, False)),
        ("http://engine.example.org.:1", ("engine.example.org.", 1, False)),
    ],
)
def test_an_address_is_host_port_and_tls(url: str, address: tuple[str, int, bool]) -> None:
    assert parse_address(url) == address


@given(st.text(alphabet="htps:/@[]%?#.a1 é", max_size=40))
def test_no_text_makes_the_address_parser_fail_in_another_way(url: str) -> None:
    try:
        host, port, _ = parse_address(url)
    except ValueError:
        return
    assert host
    assert 1 <= port <= 65535


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [("", []), (" , ,", []), ("a", ["a"]), ("a, b ,c,", ["a", "b", "c"]), (["a,b"], ["a,b"]), (3, 3), (None, None)],
)
def test_a_list_is_its_items_between_commas(given_value: Any, expected: Any) -> None:
    assert split_list(given_value) == expected


@pytest.mark.parametrize(
    ("given_value", "expected"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a=b, c = d/e=f", {"a": "b", "c": "d/e=f"}),
        (["a=b,c=d", "e=f"], {"a": "b", "c": "d", "e": "f"}),
        ({"a": "b"}, {"a": "b"}),
        ([1], [1]),
    ],
)
def test_a_mapping_is_its_pairs(given_value: Any, expected: Any) -> None:
    assert split_mapping(given_value) == expected


@pytest.mark.parametrize("text", ["a", "a=", "=b", "a=b,c"])
def test_half_a_pair_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected name=value pairs"):
        split_mapping(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "line 2, column 1: key 'a' is given twice"),
        ("x:\n  - {b: 1, b: 2}\n", "line 2, column 12: key 'b' is given twice"),
        ("a: [1", "line 1, column 6: "),
        ("a: b: c", "line 1, column 5: "),
        ("a: !!python/object/apply:os.system ['true']", "line 1, column 4: "),
        ("a: \x00", "not YAML: "),
        ("{[1]: 2}", "line 1, column 2: "),
        ("[" * 600, "not YAML: "),
    ],
)  # fmt: skip
def test_bad_yaml_is_one_line_that_says_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        load_yaml(text)
    assert str(caught.value).startswith(message)


def test_structured_text_is_yaml_and_json_is_yaml() -> None:
    assert yaml_value('{"a": [1, 2]}') == {"a": [1, 2]}
    assert yaml_value("{a: [1, 2]}") == {"a": [1, 2]}
    assert yaml_value({"a": 1}) == {"a": 1}


# -- the types of settings, as pydantic applies them


def value_as(kind: Any, value: object) -> Any:
    """What a setting of this type makes of a value."""
    return TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (Seconds, "nan", "finite"),
        (Seconds, -1, "greater than or equal to 0"),
        (Seconds, True, "expected a number, got true"),
        (Temperature, "inf", "finite"),
        (Temperature, "-1", "at least 0, got -1: no request has a lower one"),
        (Address, "engine", "expected http"),
        (OriginList, ["chat.example.org"], "expected [*] or an origin"),
        (Method, "EAGLE 3", "expected a method such as eagle3"),
        (Key, "two words", "visible ASCII"),
        (Key, "schlüssel", "visible ASCII"),
    ],
)
def test_a_value_that_does_not_fit_is_told_what_would(kind: Any, value: object, expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        value_as(kind, value)


def test_a_value_that_fits_is_kept() -> None:
    assert value_as(Seconds, "1.5") == 1.5
    assert value_as(Address, "http://engine:8000") == "http://engine:8000"
    assert value_as(OriginList, "*,https://chat.example.org") == ["*", "https://chat.example.org"]
    assert value_as(Method, "draft_model") == "draft_model"


@pytest.mark.parametrize(
    ("text", "key"), [("k3y", "k3y"), ("k3y\n", "k3y"), (SecretStr("k3y"), "k3y"), ("", None), ("  ", None)]
)
def test_a_key_loses_the_line_break_of_its_file_and_an_empty_one_is_none(text: object, key: str | None) -> None:
    found = value_as(Key, text)
    assert (None if found is None else found.get_secret_value()) == key


def test_no_key_is_no_key() -> None:
    assert value_as(Key, None) is None


@pytest.mark.parametrize("name", ["x policy", "x:policy", "authorization", "content-length", "\n"])
def test_a_header_of_ones_own_is_a_name_that_nobody_else_has(name: str) -> None:
    if name.strip():
        with pytest.raises(ValidationError, match="expected a header of your own"):
            TypeAdapter(HeaderName).validate_python(name)
    assert TypeAdapter(HeaderName).validate_python(" X-My-Policy ") == "x-my-policy"


def test_a_threshold_below_every_temperature_is_refused() -> None:
    with pytest.raises(ValidationError, match="expected at least 0"):
        TypeAdapter(Temperature).validate_python(-0.5)
    assert TypeAdapter(Temperature).validate_python(0) == 0.0
