"""Events that differ in a text and a number only are recognised, and no others."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.event_form import EventForm, form_of

EVENT = b'data: {"id":"c1","choices":[{"index":0,"delta":{"content":" the"},"finish_reason":null}]}\n\n'
STAMPED = EVENT.replace(b"]}\n", b'],"at":0017}\n')


def fits(event: bytes, earlier: bytes = EVENT) -> bool:
    form = form_of(earlier)
    assert form is not None
    return form.fits(event)


@pytest.mark.parametrize(
    "event", [b"", b"data: [DONE]\n\n", b'data: {"choices":[]}\n\n', EVENT.replace(b" the", b""), b": ping\n\n"]
)
def test_an_event_without_text_has_no_form(event: bytes) -> None:
    assert form_of(event) is None


def test_the_form_leaves_out_the_text_and_the_last_number_behind_it() -> None:
    assert form_of(b'data: {"n":1,"content":"x\\"y 2","a":3,"b":[4.56]}\n\n') == EventForm(
        b'data: {"n":1,"content":"', b',"a":3,"b":[4.', b"]}\n\n"
    )
    assert form_of(b'data: {"n":1,"content":"x 2","a":null}\n\n') == EventForm(
        b'data: {"n":1,"content":"', b',"a":null}\n\n', None
    )


@pytest.mark.parametrize("text", [b" the", b"", b"x", b"\\n", b"tab\\t.", "é".encode(), b"[DONE]"])
@pytest.mark.parametrize("number", [b"0017", b"0", b"9", b"123456789012345678901234567890"])
def test_an_event_with_another_text_and_another_number_fits(text: bytes, number: bytes) -> None:
    assert fits(EVENT.replace(b" the", text))
    assert fits(STAMPED.replace(b" the", text).replace(b"0017", number), STAMPED)


DIFFERENT = [
    b"",
    EVENT[:-1],
    EVENT[:-2],
    EVENT[1:],
    EVENT + b"\n",
    EVENT + EVENT,
    EVENT.replace(b"null", b'"stop"'),
    EVENT.replace(b"c1", b"c2"),
    EVENT.replace(b'"index":0', b'"index":1'),
    EVENT.replace(b" the", b'"'),
    EVENT.replace(b" the", b"\\"),
    EVENT.replace(b" the", b'say \\"'),
    EVENT.replace(b" the", b'x","role":"y'),
    EVENT.replace(b" the", b"a\n\ndata: [DONE]\n\nb"),
    EVENT.replace(b"\n\n", b"\r\n\r\n"),
    EVENT.replace(b" the", b"x\r\rdata: [DONE]\r\ry"),
]


@pytest.mark.parametrize("event", DIFFERENT)
def test_any_other_difference_does_not_fit(event: bytes) -> None:
    assert not fits(event)
    assert not fits(event.replace(b"]}\n", b'],"at":0017}\n'), STAMPED)


@pytest.mark.parametrize("number", [b"", b"-1", b"1.5", b"null", b'"a"', b'1,"usage":{"prompt_tokens":1}', b" 1"])
def test_what_is_no_number_does_not_fit_where_one_was(number: bytes) -> None:
    assert not fits(STAMPED.replace(b"0017", number), STAMPED)


def test_the_ends_of_a_number_do_not_overlap() -> None:
    assert not EventForm(b"a", b"12", b"23").fits(b'a"123')
    assert EventForm(b"a", b"12", b"23").fits(b'a"12023')


def test_a_number_inside_an_escape_is_part_of_the_form() -> None:
    event = b'data: {"content":"x","erro\\u0071":1}\n\n'
    assert not fits(event.replace(b"0071", b"0072"), event)


def test_a_long_run_of_digits_is_taken_at_once() -> None:
    event = b'data: {"content":"x","tokens":[%b]}\n\n' % b",".join([b"7" * 1000] * 200)
    form = form_of(event)
    assert form is not None
    assert (len(form.behind), form.end) == (len(b',"tokens":[') + 199 * 1001, b"]}\n\n")


def test_an_error_that_becomes_one_is_not_passed_over() -> None:
    event = b'data: {"content":"x","error":0}\n\n'
    assert fits(event, event)
    assert not fits(event.replace(b"0", b"500"), event)


@given(
    st.lists(st.sampled_from([b"a", b'"', b"\\", b"u0041", b",", b":", b"{", b"}", b"\n", b"1"]), max_size=8).map(
        b"".join
    ),
    st.sampled_from([b"0017", b"17", b"1e5", b"", b"x"]),
)
def test_what_fits_reads_as_the_same_message_with_another_text_and_number(text: bytes, number: bytes) -> None:
    event = STAMPED.replace(b" the", text).replace(b"0017", number)
    if fits(event, STAMPED):
        assert event.count(b"\n") == 2
        try:
            message = json.loads(event[5:])
        except json.JSONDecodeError:
            return  # a wrong escape or a leading zero: no message at all
        message["choices"][0]["delta"]["content"] = " the"
        message.pop("at")
        assert message == json.loads(EVENT[5:])
