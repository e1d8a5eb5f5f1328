"""Request bodies as routing sees them: every parameter as the engine will read it, and no byte changed."""

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from breakeven.body import ModelTable, Viewed, rename_model, view
from breakeven.endpoints import EndpointTable
from breakeven.errors import ApiError
from breakeven_policies.request import RequestView, SamplingDefaults

TABLE = EndpointTable(["/v1/classify"])
CHAT = TABLE.find("POST", "/v1/chat/completions")
COMPLETIONS = TABLE.find("POST", "/v1/completions")
RESPONSES = TABLE.find("POST", "/v1/responses")
MESSAGES = TABLE.find("POST", "/v1/messages")
EMBEDDINGS = TABLE.find("POST", "/v1/embeddings")
TOKENIZE = TABLE.find("POST", "/tokenize")
TRANSCRIPTIONS = TABLE.find("POST", "/v1/audio/transcriptions")
CLASSIFY = TABLE.find("POST", "/v1/classify")

PLAIN = ModelTable()


def seen(body: bytes, models: ModelTable = PLAIN, endpoint: Any = CHAT) -> RequestView:
    return view(endpoint, body, "application/json", models, 0.25).request


def chat(members: str) -> bytes:
    """A chat request with further members, written exactly so."""
    return b'{"model":"m","messages":[{"role":"user","content":"hi"}],' + members.encode() + b"}"


def refusal(body: bytes, endpoint: Any = CHAT, content_type: str = "application/json") -> ApiError:
    with pytest.raises(ApiError) as refused:
        view(endpoint, body, content_type, PLAIN, 0.25)
    return refused.value


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b'{"model":"m"}x', b'{"model":"\xe9"}'])
def test_b14_what_is_no_json_object_is_400(body: bytes) -> None:
    error = refusal(body)
    assert (error.status, error.type, error.code) == (400, "invalid_request_error", "invalid_json")


def test_what_is_no_form_is_400_where_a_form_is_due() -> None:
    assert refusal(b'{"model":"m"}', TRANSCRIPTIONS).code == "invalid_form"


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS])
@pytest.mark.parametrize("body", [b'{"model":5}', b"{}", b'{"model":null}', b'{"model":["m"]}', b'{"model":true}'])
def test_b14_a_required_model_that_is_missing_or_no_string_is_400(endpoint: Any, body: bytes) -> None:
    error = refusal(body, endpoint)
    assert (error.status, error.type, error.param) == (400, "invalid_request_error", "model")


@pytest.mark.parametrize("endpoint", [TOKENIZE, CLASSIFY])
@pytest.mark.parametrize("body", [b"{}", b'{"model":null}', b'{"model":5}', b'{"model":["m"]}'])
def test_where_no_model_is_required_the_engine_judges(endpoint: Any, body: bytes) -> None:
    assert seen(body, endpoint=endpoint).model is None


# --- temperature


@pytest.mark.parametrize(
    ("literal", "temperature"),
    [
        ("1", 1.0),
        ("1.0", 1.0),
        ("1.0000000000000000001", 1.0),
        ("1.0000001", 1.0000001),
        ("10e-1", 1.0),
        ("0.1e1", 1.0),
        ("-0.0", 0.0),
        ("0", 0.0),
        ("1e-5", 1e-5),
        ("0.9999999999999999", 0.9999999999999999),
    ],
)
def test_b05_the_value_at_the_boundary_is_the_engines(literal: str, temperature: float) -> None:
    request = seen(chat(f'"temperature":{literal}'))
    assert (request.temperature, request.temperature_defaulted) == (temperature, False)


@pytest.mark.parametrize(
    ("literal", "temperature"),
    [
        ('"1.5"', 1.5),
        ('" 1.5 "', 1.5),
        ('"0.2"', 0.2),
        ("true", 1.0),
        ("false", 0.0),
        ("-1", -1.0),
        ("2.5", 2.5),
        ("1e30", 1e30),
    ],
)
def test_b03_strings_and_booleans_are_numbers_as_in_the_engine(literal: str, temperature: float) -> None:
    request = seen(chat(f'"temperature":{literal}'))
    assert (request.temperature, request.temperature_defaulted) == (temperature, False)


UNUSABLE = [
    "null", "[1.5]", '{"v":1}', '"hot"', '"1,5"', '""', "NaN", "Infinity", "-Infinity", "1e400", '"nan"', "9" * 400,
]  # fmt: skip


@pytest.mark.parametrize("literal", UNUSABLE)
@pytest.mark.parametrize("default", [None, 0.6, 1.3, 0.0])
def test_b04_what_cannot_be_compared_counts_as_missing(literal: str, default: float | None) -> None:
    models = ModelTable(
        defaults={"m": SamplingDefaults(temperature=default)}, fallback=SamplingDefaults(temperature=9.0)
    )
    request = seen(chat(f'"temperature":{literal}'), models)
    assert request.temperature == (1.0 if default is None else default)
    assert request.temperature_defaulted


@pytest.mark.parametrize("body", [chat('"x":1'), chat('"temperature":null')])
@pytest.mark.parametrize(("default", "expected"), [(0.6, 0.6), (1.3, 1.3), (None, 1.0)])
def test_b02_a_missing_temperature_is_the_models_own(body: bytes, default: float | None, expected: float) -> None:
    models = ModelTable(fallback=SamplingDefaults(temperature=default))
    request = seen(body, models)
    assert (request.temperature, request.temperature_defaulted) == (expected, True)


def test_b02_a_named_temperature_goes_before_the_models_own() -> None:
    models = ModelTable(defaults={"m": SamplingDefaults(temperature=1.3)})
    request = seen(chat('"temperature":1.0'), models)
    assert (request.temperature, request.temperature_defaulted) == (1.0, False)


@pytest.mark.parametrize(
    "members",
    [
        '"temperature":0.2,"temperature":1.5',
        '"temperature":0.2,"temper\\u0061ture":1.5',
        '"temperature":NaN,"temperature":1.5',
    ],
)
def test_of_equal_keys_the_last_counts(members: str) -> None:
    assert seen(chat(members)).temperature == 1.5


# --- the other sampling parameters


@pytest.mark.parametrize("literal", UNUSABLE)
def test_other_parameters_that_cannot_be_read_are_missing_too(literal: str) -> None:
    models = ModelTable(fallback=SamplingDefaults(top_p=0.9, top_k=20, min_p=0.05))
    request = seen(chat(f'"top_p":{literal},"top_k":[{literal}],"min_p":{literal}'), models)
    assert (request.top_p, request.top_k, request.min_p) == (0.9, 20, 0.05)


def test_without_any_default_the_protocols_hold() -> None:
    assert seen(b'{"model":"m"}') == RequestView(
        model="m",
        endpoint="chat.completions",
        stream=False,
        temperature=1.0,
        temperature_defaulted=True,
        top_p=1.0,
        top_k=0,
        min_p=0.0,
        has_logit_bias=False,
        prompt_bytes=13,
        max_output_tokens=None,
        sequences=1,
        ticket=0.25,
        sampled=True,
    )


def test_every_parameter_is_read_from_strings_too() -> None:
    request = seen(chat('"top_p":"0.5","top_k":" 7 ","min_p":"0.1","n":"3","max_tokens":"9","stream":"yes"'))
    assert (request.top_p, request.top_k, request.min_p) == (0.5, 7, 0.1)
    assert (request.sequences, request.max_output_tokens, request.stream) == (3, 9, True)


@pytest.mark.parametrize("literal", ["-1", "0", '"-1"', "-5", "false"])
def test_top_k_below_one_is_off(literal: str) -> None:
    assert seen(chat(f'"top_k":{literal}'), ModelTable(fallback=SamplingDefaults(top_k=20))).top_k == 0


def test_a_model_whose_own_top_k_is_minus_one_has_it_off() -> None:
    assert seen(chat('"x":1'), ModelTable(fallback=SamplingDefaults(top_k=-1))).top_k == 0


@pytest.mark.parametrize(
    "members",
    [
        '"temperature":0.7,"min_p":0.05',
        '"temperature":0.7,"logit_bias":{"50":-5}',
        '"logit_bias": {\n"50":NaN}',
        '"min_p":"0.05"',
    ],
)
def test_b01_what_a_speculative_engine_refuses_is_seen(members: str) -> None:
    assert seen(chat(members)).needs_plain_sampling


@pytest.mark.parametrize(
    "members",
    [
        '"min_p":0', '"min_p":1e-6', '"min_p":null', '"min_p":NaN', '"temperature":0,"min_p":0.05', '"logit_bias":{}',
        '"logit_bias":{ }', '"logit_bias":null', '"logit_bias":null,"x":NaN', '"logit_bias":{},"x":NaN',
        '"logit_bias":[1]', '"logit_bias":"x"', '"logit_bias":{"5":1},"logit_bias":{}',
    ],
)  # fmt: skip
def test_b01_what_it_accepts_is_not(members: str) -> None:
    assert not seen(chat(members)).needs_plain_sampling


def test_b01_a_model_that_sets_min_p_needs_a_plain_engine_even_for_a_bare_request() -> None:
    assert seen(chat('"x":1'), ModelTable(fallback=SamplingDefaults(temperature=1.3, min_p=0.05))).needs_plain_sampling


def test_b01_messages_and_responses_read_only_what_their_engines_read() -> None:
    body = chat('"min_p":0.05,"logit_bias":{"5":1},"n":4')
    assert (seen(body).needs_plain_sampling, seen(body).sequences) == (True, 4)
    assert (seen(body, endpoint=RESPONSES).needs_plain_sampling, seen(body, endpoint=RESPONSES).sequences) == (True, 1)
    assert (seen(body, endpoint=MESSAGES).needs_plain_sampling, seen(body, endpoint=MESSAGES).sequences) == (False, 1)


def test_b01_a_model_that_sets_min_p_sets_it_for_messages_too() -> None:
    models = ModelTable(fallback=SamplingDefaults(min_p=0.05))
    assert seen(chat('"min_p":0'), models, MESSAGES).min_p == 0.05


@pytest.mark.parametrize(
    ("literal", "stream"), [("true", True), ('"true"', True), ("1", True), ("2", False), ("null", False)]
)
def test_b22_stream_is_what_the_engine_takes_for_true(literal: str, stream: bool) -> None:
    assert seen(chat(f'"stream":{literal}')).stream is stream


@pytest.mark.parametrize(
    ("endpoint", "members", "limit"),
    [
        (CHAT, '"max_tokens":5', 5),
        (CHAT, '"max_completion_tokens":7,"max_tokens":5', 7),
        (CHAT, '"max_completion_tokens":null,"max_tokens":5', 5),
        (CHAT, '"max_output_tokens":5', None),
        (CHAT, '"max_tokens":null', None),
        (CHAT, '"max_tokens":-5', 0),
        (COMPLETIONS, '"x":1', 16),
        (COMPLETIONS, '"max_tokens":null', None),
        (COMPLETIONS, '"max_tokens":"many"', None),
        (COMPLETIONS, '"max_tokens":0', 0),
        (COMPLETIONS, '"max_completion_tokens":5', 16),
        (RESPONSES, '"max_output_tokens":5,"max_tokens":6', 5),
        (MESSAGES, '"max_tokens":5', 5),
        (EMBEDDINGS, '"max_tokens":5', None),
        (CLASSIFY, '"max_output_tokens":5', 5),
    ],
)
def test_the_output_limit_is_the_one_of_the_endpoint(endpoint: Any, members: str, limit: int | None) -> None:
    assert seen(chat(members), endpoint=endpoint).max_output_tokens == limit


@pytest.mark.parametrize(
    ("literal", "sequences"), [("4", 4), ('"4"', 4), ("null", 1), ("0", 1), ("-3", 1), ('"x"', 1), ("1.5", 1)]
)
def test_n_counts_sequences_and_is_at_least_one(literal: str, sequences: int) -> None:
    assert seen(chat(f'"n":{literal}')).sequences == sequences


def test_endpoints_that_generate_nothing_are_not_sampled() -> None:
    request = seen(b'{"model":"m","input":"x"}', endpoint=EMBEDDINGS)
    assert (request.endpoint, request.sampled) == ("embeddings", False)


# --- models


@pytest.mark.parametrize("model", ["nope", "M", " m", "", "x" * 10_000, "../m", "org/name"])
def test_b23_a_model_is_its_exact_name(model: str) -> None:
    viewed = view(CHAT, json.dumps({"model": model}).encode(), "", PLAIN, 0.25)
    assert viewed == Viewed(seen(json.dumps({"model": model}).encode()), None)
    assert viewed.request.model == model


def test_b23_an_alias_becomes_the_engines_name_with_its_defaults() -> None:
    models = ModelTable({"fast": "org/real"}, {"org/real": SamplingDefaults(0.6)}, SamplingDefaults(1.3))
    viewed = view(CHAT, b'{"model":"fast"}', "", models, 0.25)
    assert (viewed.request.model, viewed.alias, viewed.request.temperature) == ("org/real", "fast", 0.6)


ODD = (
    '{ "model"\t:"fast","seed":9007199254740993, "x":1.0,"y":1,"z":1E5,"w":0.12345678901234567890123,\n'
    '"messages":[{"role":"user","content":"say \\"model\\": \\"fast\\" \\/ \\u00e9 \u00e9 and model"}],'
    '"tools":[{"function":{"parameters":{"properties":{"z":{},"a":{},"m":{}}}}}],"metadata":{"model":"fast"},'
    '"chat_template_kwargs":{"enable_thinking":false}}\n'
).encode()


def test_b08_only_the_value_of_the_model_changes() -> None:
    assert rename_model(CHAT, ODD, "", "org/real-model") == ODD.replace(
        b'"model"\t:"fast"', b'"model"\t:"org/real-model"'
    )


@pytest.mark.parametrize(
    ("body", "renamed"),
    [
        (b'{"model":"a"}', b'{"model":"new"}'),
        (b'{"model":"a","model":"b"}', b'{"model":"a","model":"new"}'),
        (b'{"mod\\u0065l":"b"}', b'{"mod\\u0065l":"new"}'),
        (
            b'\xef\xbb\xbf{"x":{"model":"a"},"model":"b","y":NaN}',
            b'\xef\xbb\xbf{"x":{"model":"a"},"model":"new","y":NaN}',
        ),
        (b'{"model":"\\ud83d","x":[{"model":"y"}]}', b'{"model":"new","x":[{"model":"y"}]}'),
    ],
)
def test_b08_the_value_that_decides_is_renamed(body: bytes, renamed: bytes) -> None:
    assert rename_model(CHAT, body, "", "new") == renamed
    assert seen(renamed).model == "new"


def test_a_model_cannot_be_renamed_in_utf_16() -> None:
    with pytest.raises(ApiError) as refused:
        rename_model(CHAT, '{"model":"a"}'.encode("utf-16"), "", "new")
    assert (refused.value.status, refused.value.param) == (400, "model")


def test_a_body_of_nothing_but_models_is_400() -> None:
    body = b"{" + b",".join([b'"model":"m"'] * 20_000) + b"}"
    with pytest.raises(ApiError, match="more than 10000 members called model"):
        rename_model(CHAT, body, "", "new")


# --- forms


FORM_TYPE = "multipart/form-data; boundary=xyz"


def form(**members: bytes) -> bytes:
    file = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\x00\xff"model"\r\n'
    parts = (
        b'--xyz\r\nContent-Disposition: form-data; name="' + name.encode() + b'"\r\n\r\n' + value + b"\r\n"
        for name, value in members.items()
    )
    return file + b"".join(parts) + b"--xyz--\r\n"


def heard(models: ModelTable = PLAIN, **members: bytes) -> RequestView:
    return view(TRANSCRIPTIONS, form(**members), FORM_TYPE, models, 0.25).request


def test_a_transcription_is_greedy_unless_it_asks_otherwise_whatever_the_models_default() -> None:
    models = ModelTable(fallback=SamplingDefaults(temperature=1.3, top_p=0.9))
    request = heard(models, model=b"whisper")
    assert (request.model, request.temperature, request.temperature_defaulted, request.top_p) == (
        "whisper",
        0.0,
        True,
        0.9,
    )


def test_a_transcription_is_read_from_the_fields_of_its_form() -> None:
    request = heard(
        model=b"whisper", temperature=b" 1.5 ", stream=b"true", min_p=b"0.05", n=b"5", logit_bias=b'{"5":1}'
    )
    assert (request.temperature, request.stream, request.min_p, request.sequences) == (1.5, True, 0.05, 1)
    assert not request.has_logit_bias


@pytest.mark.parametrize("value", [b"", b"hot", b"nan"])
def test_a_field_that_is_empty_or_no_number_counts_as_missing(value: bytes) -> None:
    request = heard(temperature=value)
    assert (request.model, request.temperature, request.temperature_defaulted) == (None, 0.0, True)


def test_b08_in_a_form_too_only_the_value_of_the_model_changes() -> None:
    body = form(model=b"fast", prompt=b'"model":"fast"')
    renamed = rename_model(TRANSCRIPTIONS, body, FORM_TYPE, "org/r\u00e9al")
    assert renamed == form(model="org/r\u00e9al".encode(), prompt=b'"model":"fast"')


def test_a_form_without_a_model_stays_as_it_is() -> None:
    assert rename_model(TRANSCRIPTIONS, form(), FORM_TYPE, "new") == form()


# --- any body at all

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=[])),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=5,
)
parameters = st.sampled_from(
    [
        "temperature", "top_p", "top_k", "min_p", "logit_bias", "n", "stream", "max_tokens", "max_completion_tokens",
        "max_output_tokens", "x",
    ]
)  # fmt: skip
requests = st.dictionaries(parameters, any_json, max_size=6).map(lambda members: {"model": "m"} | members)


def status(act: Callable[[], object]) -> int:
    try:
        act()
    except ApiError as error:
        return error.status
    return 200


@pytest.mark.slow
@given(st.binary(), st.sampled_from(list(TABLE)), st.sampled_from(["application/json", FORM_TYPE]))
def test_any_bytes_are_viewed_or_answered_400(body: bytes, endpoint: Any, content_type: str) -> None:
    assert status(lambda: view(endpoint, body, content_type, PLAIN, 0.25)) in {200, 400}
    assert status(lambda: rename_model(endpoint, body, content_type, "new")) in {200, 400}


@pytest.mark.slow
@given(requests, st.sampled_from([CHAT, COMPLETIONS, RESPONSES, MESSAGES, EMBEDDINGS, CLASSIFY]))
@example({"model": "m", "temperature": "1.5"}, CHAT)
def test_any_json_object_with_a_model_is_viewed_and_its_numbers_can_be_compared(
    request_: dict[str, Any], endpoint: Any
) -> None:
    request = seen(json.dumps(request_).encode(), endpoint=endpoint)
    assert all(math.isfinite(number) for number in (request.temperature, request.top_p, request.min_p))
    assert request.top_k >= 0
    assert request.sequences >= 1
    assert request.max_output_tokens is None or request.max_output_tokens >= 0
    assert isinstance(request.stream, bool)


@pytest.mark.slow
@given(requests)
def test_both_parsers_see_the_same_request(request_: dict[str, Any]) -> None:
    strict = json.dumps(request_, ensure_ascii=False).encode("utf-8", "surrogatepass")
    lenient = b"\xef\xbb\xbf" + strict[:-1] + b',"y":NaN}'
    fast, slow = seen(strict), seen(lenient)
    assert (fast.temperature, fast.top_p, fast.top_k, fast.min_p) == (
        slow.temperature,
        slow.top_p,
        slow.top_k,
        slow.min_p,
    )
    assert (fast.stream, fast.sequences, fast.max_output_tokens) == (
        slow.stream,
        slow.sequences,
        slow.max_output_tokens,
    )
    assert (fast.has_logit_bias, fast.temperature_defaulted) == (slow.has_logit_bias, slow.temperature_defaulted)


@pytest.mark.slow
@given(requests, st.text(max_size=8), st.booleans())
def test_a_renamed_body_reads_as_the_same_body_with_the_other_model(
    request_: dict[str, Any], model: str, ascii_only: bool
) -> None:
    body = json.dumps(request_ | {"nested": [request_]}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    renamed = rename_model(CHAT, body, "", model)
    # Compared as text: NaN is not equal to itself.
    assert json.dumps(json.loads(renamed)) == json.dumps(json.loads(body) | {"model": model})
