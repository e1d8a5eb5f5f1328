"""The router's own errors look like OpenAI's, whatever a hostile client put into them."""

import json

import pytest

from breakeven import errors

EVERY_ERROR = [
    errors.invalid_request("bad", param="model"),
    errors.invalid_api_key(),
    errors.not_found("/x"),
    errors.method_not_allowed("PUT", "/x", "POST"),
    errors.unknown_model(None),
    errors.unknown_model("\ud83d" + "x" * 10_000),
    errors.too_large(1),
    errors.no_backend("none"),
    errors.queue_full(3),
    errors.total_timeout(),
    errors.queue_timeout(3),
    errors.no_capable_pool(),
    errors.shutting_down(),
    errors.upstream_error(),
    errors.internal_error("broken"),
    errors.upstream_timeout("late"),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: str(error.code))
def test_each_has_a_message_a_type_and_either_null_or_text_for_the_rest(error: errors.ApiError) -> None:
    body = json.loads(error.body())
    assert set(body) == {"error"}
    shape = body["error"]
    assert set(shape) == {"message", "type", "param", "code"}
    assert isinstance(shape["message"], str)
    assert shape["type"] not in ("", "None")
    assert isinstance(shape["type"], str)
    for name in ("param", "code"):
        assert shape[name] is None or (isinstance(shape[name], str) and shape[name] != "None")


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: str(error.code))
def test_each_is_short_and_ascii(error: errors.ApiError) -> None:
    assert len(error.body()) < 400
    error.body().decode("ascii")


def test_only_what_may_succeed_later_says_when_to_retry() -> None:
    assert [error.status for error in EVERY_ERROR if error.retry_after_s is not None] == [503] * 4


def test_inside_a_stream_an_error_is_an_event_and_then_the_end() -> None:
    first, last, rest = errors.upstream_error().event().split(b"\n\n")
    assert json.loads(first.removeprefix(b"data: "))["error"]["code"] == "upstream_error"
    assert (last, rest) == (b"data: [DONE]", b"")


@pytest.mark.parametrize(("text", "shown"), [("a", "'a'"), ("é\n", "'\\xe9\\n'"), ("\ud83d", "'\\ud83d'")])
def test_client_text_is_shown_quoted_and_escaped(text: str, shown: str) -> None:
    assert errors.shown(text) == shown
