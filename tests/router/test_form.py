"""Fields of a multipart form, found without reading the file that the form is about."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from breakeven.errors import ApiError
from breakeven.form import DISPOSITION_MAX, HEADERS_MAX, PART_MAX, field_spans

CONTENT_TYPE = "multipart/form-data; boundary=xyz"


def part(name: str, value: bytes, *more: str) -> bytes:
    lines = [f'Content-Disposition: form-data; name="{name}"', *more]
    return b"--xyz\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + value + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--xyz--\r\n"


def fields(body: bytes, content_type: str = CONTENT_TYPE, *wanted: str) -> dict[str, bytes]:
    names = [name.encode() for name in wanted or ("model", "temperature")]
    return {name.decode(): body[start:end] for name, (start, end) in field_spans(body, content_type, names).items()}


def refusal(body: bytes, content_type: str = CONTENT_TYPE) -> ApiError:
    with pytest.raises(ApiError) as refused:
        fields(body, content_type)
    return refused.value


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "multipart/form-data",
        "multipart/form-data; boundary",
        "multipart/form-data; boundary=",
        'multipart/form-data; boundary=""',
        "multipart/mixed; boundary=xyz",
        "multipart/form-data boundary=xyz",
        "\ud83d",
    ],
)
def test_a_content_type_without_a_boundary_is_400(content_type: str) -> None:
    error = refusal(form(part("model", b"m")), content_type)
    assert (error.status, error.code) == (400, "invalid_form")


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"--xyz", b"--xyz--\r\n", b"--xy\r\n", b"xyz", b"\r\n--xyz--", part("model", b"m")[:-2]],
)
def test_a_body_without_one_whole_part_is_400(body: bytes) -> None:
    error = refusal(body)
    assert (error.status, error.code) == (400, "invalid_form")


def test_a_form_of_endless_parts_is_400() -> None:
    assert refusal(form(*[part("a", b"")] * (PART_MAX + 1))).message == f"The form has more than {PART_MAX} parts."


def test_as_many_parts_as_an_engine_takes_are_read() -> None:
    assert fields(form(*[part("a", b"")] * (PART_MAX - 1), part("model", b"m"))) == {"model": b"m"}


@pytest.mark.parametrize(
    "content_type",
    [
        'multipart/form-data; boundary="xyz"',
        "MULTIPART/FORM-DATA; BOUNDARY=xyz",
        " multipart/form-data ;charset=utf-8; boundary=xyz",
        "multipart/form-data;  boundary = xyz ",
    ],
)
def test_every_usual_spelling_of_the_content_type_is_read(content_type: str) -> None:
    assert fields(form(part("model", b"whisper")), content_type) == {"model": b"whisper"}


def test_the_wanted_fields_are_found_beside_the_file() -> None:
    audio = part("file", bytes(range(256)) * 100, "Content-Type: audio/wav").replace(
        b'"file"', b'"file"; filename="a.wav"'
    )
    body = form(part("language", b"en"), audio, part("temperature", b"0.4"), part("model", b"whisper"))
    assert fields(body) == {"model": b"whisper", "temperature": b"0.4"}


def test_of_equal_names_the_last_counts_as_in_the_engine() -> None:
    assert fields(form(part("model", b"a"), part("model", b"b"))) == {"model": b"b"}


def test_a_file_is_no_field() -> None:
    file = part("model", b"x").replace(b'"model"', b'"model"; filename="m"')
    assert fields(form(file, part("temperature", b"1"))) == {"temperature": b"1"}


def test_an_empty_value_is_an_empty_span() -> None:
    assert fields(form(part("model", b""))) == {"model": b""}


def test_a_value_may_hold_line_breaks_and_dashes() -> None:
    assert fields(form(part("model", b"a\r\n--xy\r\n\r\nb--"))) == {"model": b"a\r\n--xy\r\n\r\nb--"}


@pytest.mark.parametrize(
    "disposition",
    [
        b'CONTENT-DISPOSITION: form-data; NAME="model"',
        b"Content-Disposition: form-data; name=model",
        b'Content-Disposition: form-data;name = "model"; x=1',
        b'Content-Disposition: form-data; x="; name=\\"y\\""; name="model"',
        b'X-Other: 1\r\nContent-Disposition: form-data; name="model"\r\nContent-Type: text/plain',
    ],
)
def test_every_usual_spelling_of_a_part_is_read(disposition: bytes) -> None:
    assert fields(form(b"--xyz\r\n" + disposition + b"\r\n\r\nm\r\n")) == {"model": b"m"}


@pytest.mark.parametrize(
    "headers",
    [
        b"",
        b"Content-Type: text/plain",
        b"Content-Disposition: form-data",
        b"Content-Disposition form-data; name=model",
        b'Content-Disposition: form-data; x="; name=model"',
        b'Content-Disposition: form-data; name="other"',
        b"Content-Disposition: form-data; name=model; x=" + b"y" * DISPOSITION_MAX,
        b"X: " + b"y" * HEADERS_MAX + b"\r\nContent-Disposition: form-data; name=model",
    ],
)
def test_a_part_that_names_no_wanted_field_is_passed_over(headers: bytes) -> None:
    body = form(b"--xyz\r\n" + headers + b"\r\n\r\nm\r\n", part("temperature", b"1"))
    assert fields(body) == {"temperature": b"1"}


def test_a_part_without_headers_is_passed_over() -> None:
    assert fields(form(b"--xyz\r\nm\r\n", part("temperature", b"1"))) == {"temperature": b"1"}


def test_what_stands_before_the_first_and_behind_the_last_delimiter_is_no_part() -> None:
    body = b"preamble\r\n" + form(part("model", b"m")) + part("temperature", b"2") + b"--xyz\r\n"
    assert fields(body) == {"model": b"m"}


class EngineForm:
    """The same form in the hands of the parser that the engines use."""

    def __init__(self, body: bytes) -> None:
        self.fields: dict[str, bytes] = {}
        self._disposition = self._value = b""
        parser = MultipartParser(
            b"xyz",
            {
                "on_header_value": self._header_value,
                "on_part_begin": self._begin,
                "on_part_data": self._data,
                "on_part_end": self._end,
            },
        )
        parser.write(body)

    def _begin(self) -> None:
        self._disposition = self._value = b""

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._disposition += data[start:end]

    def _data(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end(self) -> None:
        _, options = parse_options_header(self._disposition)
        if options.get(b"name") in (b"model", b"temperature") and b"filename" not in options:
            self.fields[options[b"name"].decode()] = self._value


names = st.sampled_from(["model", "temperature", "file", 'model"; filename="f', "MODEL", "a;b", 'q\\"q'])
values = st.binary(max_size=20) | st.sampled_from([b"\r", b"\r\n", b"\r\n--", b"\r\n--xy", b"--xyz"])


@pytest.mark.slow
@given(st.lists(st.tuples(names, values), min_size=1, max_size=5))
def test_any_form_is_read_as_the_engines_parser_reads_it(parts: list[tuple[str, bytes]]) -> None:
    body = form(*(part(name, value) for name, value in parts))
    assert fields(body) == EngineForm(body).fields


@pytest.mark.slow
@given(st.binary(max_size=200) | st.lists(st.sampled_from(form(part("model", b"m")).splitlines(True))).map(b"".join))
def test_any_body_is_read_or_answered_400(body: bytes) -> None:
    with suppress(ApiError):
        read = fields(body)
        with suppress(FormParserError):  # what the engine will answer 400 was read as nobody else reads it
            assert read == EngineForm(body).fields
