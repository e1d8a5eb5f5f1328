"""The shape of what an engine refuses, and which bodies it can read at all: a router relays both untouched."""

import json

import pytest

from tests.contract.engine import COMPLETIONS, body, raw_body
from tests.contract.targets import MODEL, MODEL_LEN_MAX

MISSHAPEN = {
    "an empty body": b"",
    "half an object": b"{",
    "a trailing comma": b'{"model":"m",}',
    "trailing garbage": b'{"model":"m"} x',
    "an array": b"[]",
    "a string": b'"x"',
    "null": b"null",
    "no messages": b'{"model":"' + MODEL.encode() + b'"}',
    "messages that are none": b'{"model":"' + MODEL.encode() + b'","messages":"hi"}',
}

UNREADABLE = {
    "a number of five thousand digits": raw_body('"seed":' + "1" * 5000),
    "a hundred thousand brackets": raw_body('"x":' + "[" * 100_000 + "]" * 100_000),
    "bytes that are no text": b"\xff\xfe\x00",
    "a latin-1 letter": raw_body('"user":"\u00e9"').replace(b"\xc3\xa9", b"\xe9"),
}
"""What Python's parser gives up on with anything but its own error."""

HALF_A_PAIR = r"\ud83d"
"""A character that JSON can spell and UTF-8 cannot. What becomes of it was seen with the request classes of vLLM 0.32.0
and its tokenizer (a TypeError, which vLLM answers with 400), without an engine around them.
"""

MEDIA_TYPES = {
    "application/json": 200,
    "application/json; charset=utf-8": 200,
    "application/json;charset=latin-1": 200,
    "APPLICATION/JSON": 200,
    "application/json ; charset=utf-8": 400,
    "text/plain": 400,
    "application/x-www-form-urlencoded": 400,
    "": 400,
    None: 400,
}


def refused(reply, status, type_):
    """The error object: these four members, the code a number that repeats the status."""
    assert (reply.status, reply["content-type"], reply.complete) == (status, "application/json", True), reply.raw
    error = reply.json()["error"]
    assert list(reply.json()) == ["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert (error["type"], error["code"]) == (type_, status)
    return error


@pytest.mark.parametrize("content", MISSHAPEN.values(), ids=MISSHAPEN)
async def test_a_body_that_is_no_request_is_a_bad_request(plain, content):
    refused(await plain.post(content), 400, "Bad Request")


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_body_that_cannot_be_read_is_a_bad_request_in_fastapis_words(plain, content):
    reply = await plain.post(content)
    assert (reply.status, reply["content-type"]) == (400, "application/json")
    assert reply.json() == {"detail": "There was an error parsing the body"}


@pytest.mark.parametrize(("media_type", "status"), MEDIA_TYPES.items())
async def test_only_a_media_type_that_says_json_is_read(plain, media_type, status):
    headers = () if media_type is None else (("Content-Type", media_type),)
    reply = await plain.post(body(), headers=headers)
    assert reply.status == status
    if status != 200:
        refused(reply, 400, "Bad Request")


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
async def test_a_body_in_another_form_of_unicode_is_read_as_json_does(plain, coding):
    assert (await plain.post(body().decode().encode(coding))).status == 200


async def test_half_a_surrogate_pair_in_a_field_that_only_passes_through_is_a_character(plain):
    reply = await plain.post(raw_body(rf'"user":"{HALF_A_PAIR}"'))
    assert (reply.status, reply.complete) == (200, True)


async def test_half_a_surrogate_pair_in_the_name_of_a_field_is_a_bad_request(plain):
    """Pydantic, which keeps unknown fields, wants their names in UTF-8."""
    error = refused(await plain.post(raw_body(rf'"{HALF_A_PAIR}":1')), 400, "Bad Request")
    assert "Input should be a valid string" in error["message"]


@pytest.mark.parametrize("stream", ["false", "true"])
async def test_half_a_surrogate_pair_in_a_prompt_is_a_bad_request_of_the_tokenizer(plain, stream):
    messages = rf'"messages":[{{"role":"user","content":"cut {HALF_A_PAIR} here"}}]'
    refused(await plain.post(raw_body(f'{messages},"stream":{stream}')), 400, "BadRequestError")
    prompt = rf'{{"model":"{MODEL}","prompt":"cut {HALF_A_PAIR} here","max_tokens":2,"stream":{stream}}}'
    refused(await plain.post(prompt.encode(), COMPLETIONS), 400, "BadRequestError")


async def test_a_model_that_is_not_served_is_not_found(plain):
    error = refused(await plain.ask(model="nope"), 404, "NotFoundError")
    assert error["param"] == "model"
    assert error["message"].startswith("The model `nope` does not exist.")


@pytest.mark.parametrize("model", [None, "", ...])
async def test_no_model_is_the_one_that_is_served(plain, model):
    assert (await plain.answer(model=model))["model"] == MODEL


@pytest.mark.parametrize("model", [MODEL.upper(), f" {MODEL}", f"../{MODEL}", "x" * 10_000])
async def test_a_name_is_compared_to_the_letter(plain, model):
    refused(await plain.ask(model=model), 404, "NotFoundError")


async def test_a_prompt_that_leaves_no_room_is_a_bad_request_about_its_length(plain):
    error = refused(
        await plain.ask(messages=[{"role": "user", "content": "river " * 4 * MODEL_LEN_MAX}]), 400, "BadRequestError"
    )
    assert f"maximum context length is {MODEL_LEN_MAX} tokens" in error["message"]


async def test_more_tokens_than_the_prompt_leaves_room_for_are_cut_and_not_refused(plain):
    answer = await plain.answer(max_tokens=MODEL_LEN_MAX, stop=["e", "a", "o"])
    assert answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1", "/"])
async def test_a_path_that_nobody_knows_is_not_found_in_starlettes_words(plain, path):
    reply = await plain.get(path)
    assert (reply.status, reply["content-type"], reply.json()) == (404, "application/json", {"detail": "Not Found"})


async def test_a_slash_too_many_is_redirected(plain):
    reply = await plain.ask(path="/v1/chat/completions/")
    assert (reply.status, reply.body, reply["location"].endswith("/v1/chat/completions")) == (307, b"", True)


async def test_a_method_that_a_path_does_not_take_is_not_allowed_in_starlettes_words(plain):
    reply = await plain.get(COMPLETIONS)
    assert (reply.status, reply["allow"], reply.json()) == (405, "POST", {"detail": "Method Not Allowed"})


async def test_an_answer_to_many_faults_does_not_grow_with_the_body(plain):
    messages = [5] * 5000
    reply = await plain.post(json.dumps({"model": MODEL, "messages": messages}).encode())
    refused(reply, 400, "Bad Request")
    assert len(reply.body) < 20_000


async def test_an_error_is_repeated_on_text_completions(plain):
    assert refused(await plain.ask(path=COMPLETIONS, model="nope"), 404, "NotFoundError")["param"] == "model"
    error = refused(await plain.ask(path=COMPLETIONS, prompt=...), 400, "BadRequestError")
    assert "prompt" in error["message"]
