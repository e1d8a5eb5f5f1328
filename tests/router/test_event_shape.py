"""Events that differ in a piece of text only are recognised, and no others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.event_shape import LEARNED_MAX, EventShape, shape_of

EVENT = b'data: {"id":"c1","choices":[{"delta":{"content":" the"},"finish_reason":null}]}'


def fits(data: bytes, event: bytes = EVENT) -> bool:
    shape = shape_of(event)
    assert shape is not None
    return shape.fits(data, len(data))


@pytest.mark.parametrize(
    "event",
    [
        b"",
        b": ping",
        b"data: [DONE]",
        b'data: {"choices":[]}',
        EVENT.replace(b" the", b""),
        EVENT.replace(b'" the"', b"null"),
    ],
)
def test_an_event_without_text_has_no_shape(event: bytes) -> None:
    assert shape_of(event) is None


@pytest.mark.parametrize(
    "name",
    [b"content", b"text", b"reasoning", b"reasoning_content", b"delta", b"thinking", b"partial_json", b"arguments"],
)
def test_the_shape_leaves_out_the_text(name: bytes) -> None:
    assert shape_of(b'data: {"a":"b","%b" : "x\\"y","c":1}' % name) == EventShape(
        b'data: {"a":"b","%b" : "' % name, b'","c":1}'
    )


@pytest.mark.parametrize(
    "text", [b" the", b"", b"x", b'\\"', b"\\n", b"\\\\", b"a\\\\", b'say \\"hi\\"', "é".encode(), b"[DONE]"]
)
def test_an_event_with_another_text_fits(text: bytes) -> None:
    assert fits(EVENT.replace(b" the", text))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        EVENT[:-1],
        EVENT[1:],
        EVENT + b" ",
        EVENT.replace(b"null", b'"stop"'),
        EVENT.replace(b"c1", b"c2"),
        EVENT.replace(b" the", b'"'),
        EVENT.replace(b" the", b"\\"),
        EVENT.replace(b" the", b"a\\\\\\"),
        EVENT.replace(b" the", b'x","role":"y'),
        EVENT.replace(b" the", b"a\n\ndata: [DONE]\n\nb"),
        EVENT.replace(b" the", b"a\rb"),
        EVENT.replace(b" the", b"a\\\nb"),
        EVENT + b"\n\n" + EVENT,
    ],
)
def test_any_other_difference_does_not_fit(data: bytes) -> None:
    assert not fits(data)


def test_data_whose_ends_overlap_does_not_fit() -> None:
    shape = EventShape(b'data: {"text":"', b'"}')
    assert not EventShape(b'{"', b'""}').fits(b'{""}', 4)
    assert shape.fits(b'data: {"text":""}', 17)
    assert not shape.fits(b'data: {"text":"}', 16)


def test_only_the_data_up_to_the_end_is_looked_at() -> None:
    shape = shape_of(EVENT)
    assert shape is not None
    assert shape.fits(EVENT + b"\n\n", len(EVENT))
    assert not shape.fits(EVENT + b"\n\n", len(EVENT) + 2)


@given(st.text(max_size=20), st.text(max_size=20), st.booleans(), st.booleans())
def test_texts_fit_as_json_writes_them(text: str, other: str, ascii_only: bool, other_ascii_only: bool) -> None:
    event = json.dumps({"i": 0, "content": text + "x", "z": None}, ensure_ascii=ascii_only).encode()
    assert fits(json.dumps({"i": 0, "content": other, "z": None}, ensure_ascii=other_ascii_only).encode(), event)


@given(
    st.lists(st.sampled_from([b"a", b'"', b"\\", b"u0041", b",", b":", b"{", b"}", b"\n"]), max_size=8).map(b"".join)
)
def test_what_fits_reads_as_the_same_message_with_another_text(text: bytes) -> None:
    data = EVENT.replace(b" the", text)
    if fits(data):
        try:
            message = json.loads(data[5:])
        except json.JSONDecodeError:
            return  # a wrong escape: no message at all
        message["choices"][0]["delta"]["content"] = " the"
        assert message == json.loads(EVENT[5:])


def test_nothing_is_learned_from_a_huge_event():
    assert shape_of(b'data: {"content":"%b"}' % (b"a" * 1000)) is not None
    assert shape_of(b'data: {"content":"%b"}' % (b"a" * LEARNED_MAX)) is None
