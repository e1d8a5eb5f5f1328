"""The members of a request body that routing needs: decoded fast where possible, else as the engine decodes them."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from breakeven.errors import ApiError
from breakeven.fields import _RAW, FORM_BYTES, LENIENT_MAX, UTF8_SLICE, Fields, Utf8Check, read_form, read_json

FORM_TYPE = "multipart/form-data; boundary=xyz"


def with_members(members: str) -> bytes:
    """A chat request with further members, written exactly so."""
    return b'{"model":"m","messages":[{"role":"user","content":"hi"}],' + members.encode() + b"}"


def form(**members: bytes) -> bytes:
    parts = (
        b'--xyz\r\nContent-Disposition: form-data; name="' + name.encode() + b'"\r\n\r\n' + value + b"\r\n"
        for name, value in members.items()
    )
    return b"".join(parts) + b"--xyz--\r\n"


def refusal(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as refused:
        read_json(body)
    return refused.value


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b'{"model":"m",}',
        b"[]",
        b'"x"',
        b"null",
        b"5",
        b"\xff\xfe\x00",
        b'{"model":"m","x":"\xe9"}',
        b'{"model":"m\xe9"}',
        b'{"model":"m"}x',
        b'{"model":"m"}{}',
        b"\x00{}",
        b"model=m",
        b'{"model":"m","x":01}',
        b'{"model":"m","x":"a\nb"}',
        b'{"model":"m","x":"\\q"}',
        b'{"model":"m","n":' + b"9" * 5000 + b"}",
        b'{"model":"m","x":NaN,"y":' + b"9" * 5000 + b"}",
        b'{"model":"m","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m","temperature":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"model":"m","x":NaN,"y":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"\xef\xbb\xbf" + b'{"x":' * 100_000,
    ],
)
def test_b14_a_malformed_body_is_400(body: bytes) -> None:
    error = refusal(body)
    assert (error.status, error.type, error.code) == (400, "invalid_request_error", "invalid_json")
    assert "Traceback" not in error.message


def test_b14_the_message_says_where_the_fault_is_and_nothing_of_the_text() -> None:
    assert refusal(b'{"model":"m",\n"secret" 5}').message == (
        "The request body is not valid JSON: Expecting ':' delimiter: line 2 column 10 (char 23)."
    )


def test_an_odd_body_too_large_for_the_lenient_parser_is_400() -> None:
    body = with_members('"temperature":NaN,"x":"' + "x" * LENIENT_MAX + '"')
    assert refusal(body).code == "invalid_json"
    assert str(len(body)) in refusal(body).message


def test_text_that_is_cut_inside_a_character_is_400() -> None:
    broken = with_members('"x":"' + "é" * UTF8_SLICE + '"').replace("é".encode(), "é".encode()[:1], 1)
    assert refusal(broken).message == "The request body is not valid UTF-8."


@pytest.mark.parametrize("content_type", ["application/json", "multipart/form-data", "", "\ud83d"])
def test_a_form_without_a_boundary_is_400(content_type: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_form(form(model=b"m"), content_type)
    assert (refused.value.status, refused.value.code) == (400, "invalid_form")


@pytest.mark.parametrize("pad", ["", "x"])
def test_text_in_any_script_is_read_also_where_two_slices_share_a_character(pad: str) -> None:
    assert read_json(with_members(f'"x":"{pad}{"é" * UTF8_SLICE}"')).model == "m"


@pytest.mark.parametrize(
    "body",
    [
        with_members('"temperature":1.5'),
        with_members('"temperature":0.2,"temperature":1.5'),
        with_members('"temperature":0.2,"temper\\u0061ture":1.5'),
        with_members('"temperature":1.5') + b" \r\n\t",
        b"\xef\xbb\xbf" + with_members('"temperature":1.5'),
        with_members('"temperature":1.5').decode().encode("utf-16"),
        with_members('"temperature":1.5,"x":NaN'),
        with_members('"temperature":1.5,"x":"cut \\ud83d here"'),
        with_members('"temperature":1.5,"\\ud83d":1'),
        with_members('"temperature":1.5,"x":')[:-1] + b'"\xed\xa0\xbd"}',
        with_members('"temperature":[1],"temperature":1.5'),
        with_members('"x":1e400,"temperature":1.5'),
        with_members('"x":NaN,"temperature":0.2,"temper\\u0061ture":1.5'),
    ],
)
def test_b11_what_the_engines_parser_reads_is_read(body: bytes) -> None:
    fields = read_json(body)
    assert (fields.model, fields.temperature) == ("m", 1.5)


def test_b11_a_model_with_a_lone_surrogate_is_a_model() -> None:
    assert read_json(b'{"model":"m\\ud83d"}').model == "m\ud83d"


@pytest.mark.parametrize("more", ["", ',"x":NaN'])
def test_absent_and_null_differ_where_that_matters(more: str) -> None:
    assert read_json(with_members('"x":1' + more)).max_tokens is UNSET
    assert read_json(with_members('"max_tokens":null' + more)).max_tokens is None


@pytest.mark.parametrize("more", ["", ',"x":NaN'])
@pytest.mark.parametrize(
    ("literal", "has_bias"),
    [
        ("{}", False), ("{ \n }", False), ("null", False), ("[1]", False), ('"x"', False), ("5", False),
        ('{"50":-5}', True), ('{ "50":"x"}', True), ('{"":{}}', True),
    ],
)  # fmt: skip
def test_b01_a_bias_is_an_object_with_members(literal: str, has_bias: bool, more: str) -> None:
    assert read_json(with_members(f'"logit_bias":{literal}{more}')).has_bias is has_bias


@pytest.mark.parametrize("more", ["", ',"x":NaN'])
@pytest.mark.parametrize(
    ("members", "structured", "has_tools"),
    [
        ('"y":1', False, False),
        ('"tools":null,"response_format":null,"structured_outputs":null,"guided_json":null', False, False),
        ('"tools":[],"response_format":{}', False, False),
        ('"tools":[1],"response_format":[{"type":"json_object"}]', False, False),
        ('"tools":{"a":1},"response_format":"json_object"', False, False),
        ('"response_format":{"type":"text"}', False, False),
        ('"response_format":{"type":"json_object"}', True, False),
        ('"response_format":{ "type" : "json_schema","json_schema":{}}', True, False),
        ('"structured_outputs":{"json":{"type":"object"}}', True, False),
        ('"guided_json":{"type":"text"}', True, False),
        ('"guided_json":"{}"', True, False),
        ('"tools":[ {"type":"function"}]', False, True),
    ],
)
def test_tools_and_a_form_of_the_answer_are_noticed(members: str, structured: bool, has_tools: bool, more: str) -> None:
    fields = read_json(with_members(members + more))
    assert (fields.structured, fields.has_tools) == (structured, has_tools)


def test_the_type_of_an_answer_is_not_looked_for_behind_its_beginning() -> None:
    late = '"response_format":{"x":"' + "x" * FORM_BYTES + '","type":"json_object"}'
    assert not read_json(with_members(late)).structured


def test_the_fields_of_a_form_are_text_and_an_empty_one_is_absent() -> None:
    fields = read_form(form(model=b"m", temperature=b" 1.5", stream=b"", other=b"x", logit_bias=b'{"5":1}'), FORM_TYPE)
    assert fields == Fields(model="m", temperature=" 1.5")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_field_that_is_not_utf_8_is_latin_1_as_in_the_engine(encoding: str) -> None:
    assert read_form(form(model="modèle".encode(encoding)), FORM_TYPE).model == "modèle"


fragments = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b'"', b":", b",", b'"model"', b'"m"', b'"temperature"', b"1.5", b"NaN", b"1e400",
        b"null", b'"n"', b"9" * 5000, b'"\\ud83d"', b"\xef\xbb\xbf", b"\xff", b"\\", b'"logit_bias"', b"{}", b" ",
        b'{"model":"m"}', b"[" * 2000, b'"stream"', b"true", b'"max_tokens"', "é".encode(), "é".encode("utf-16"), b"\0",
        b"-", b"\n",
    ]
)  # fmt: skip
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[])),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=5,
)
names = st.sampled_from([name for name in Fields.__struct_fields__ if name not in _RAW]) | st.text(max_size=3)


@pytest.mark.slow
@given(st.binary() | st.lists(fragments).map(b"".join))
def test_any_bytes_are_read_or_refused_and_read_only_where_the_engines_parser_reads_them(body: bytes) -> None:
    with suppress(ApiError):
        fields = read_json(body)
        with suppress(ValueError, RecursionError):  # of numbers it skips, msgspec does not count the digits
            assert json.loads(body).get("model") == fields.model


@pytest.mark.slow
@given(
    st.binary() | st.lists(fragments).map(lambda parts: form(model=b"".join(parts))), st.sampled_from([FORM_TYPE, "x"])
)
def test_any_bytes_are_read_as_a_form_or_refused(body: bytes, content_type: str) -> None:
    with suppress(ApiError):
        assert isinstance(read_form(body, content_type), Fields)


@pytest.mark.slow
@given(st.dictionaries(names, any_json, max_size=5))
def test_every_member_is_read_as_the_engines_parser_reads_it(members: dict[str, Any]) -> None:
    body = json.dumps(members, ensure_ascii=False).encode("utf-8", "surrogatepass")
    fields = read_json(body)
    for name, value in json.loads(body).items():
        if name in Fields.__struct_fields__:
            # As text, in which NaN equals itself.
            assert json.dumps(getattr(fields, name)) == json.dumps(value)


def checked(*pieces: bytes) -> tuple[bool, int]:
    """What a check says of these pieces, and how often it gave way."""
    check = Utf8Check()
    pauses = sum(1 for piece in pieces for _ in check.feed(piece))
    return check.finish(), pauses


@pytest.mark.parametrize(
    ("pieces", "is_utf8", "pauses"),
    [
        ((), True, 0),
        ((b"",), True, 0),
        (("é".encode()[:1], "é".encode()[1:]), True, 0),
        (("é".encode()[:1],), False, 0),
        ((b"\xff", "é".encode()), False, 0),
        (("é".encode() * UTF8_SLICE,), True, 1),
        ((b"a" * (UTF8_SLICE + 1), b"\xff" * 3 * UTF8_SLICE), False, 1),
    ],
)
def test_bytes_in_pieces_are_checked_and_others_get_their_turn_between_slices(
    pieces: tuple[bytes, ...], is_utf8: bool, pauses: int
) -> None:
    assert checked(*pieces) == (is_utf8, pauses)


def test_what_was_found_about_the_bytes_is_not_looked_for_again() -> None:
    body = with_members('"x":"é"')
    assert read_json(body, is_utf8=True).model == "m"
    assert read_json(body, is_utf8=False).model == "m"  # the standard library looks for itself
