"""The table of paths: what is forwarded, how it is read, and what is no endpoint."""

import pytest

from breakeven.endpoints import BodyKind, Endpoint, EndpointTable
from breakeven.errors import ApiError

TABLE = EndpointTable()


def refusal(method: str, path: str, table: EndpointTable = TABLE) -> ApiError:
    with pytest.raises(ApiError) as refused:
        table.find(method, path)
    return refused.value


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/metrics",
        "/v1",
        "/v1/models",
        "/v1/chat/completions/",
        "//v1/chat/completions",
        "/v1/../metrics",
        "/v1/./chat/completions",
        "/v1/chat%2Fcompletions",
        "/V1/chat/completions",
        "/v1/chat/completions?x=1",
        "/v1/chat/completions\0",
        "v1/chat/completions",
        "/v1/chat/\ud83d",
    ],
)
def test_any_other_path_is_404(path: str) -> None:
    error = refusal("POST", path)
    assert (error.status, error.code) == (404, "not_found")
    assert error.body().isascii()


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "post", "FOO", ""])
def test_any_other_method_is_405_and_names_the_one_that_is_allowed(method: str) -> None:
    error = refusal(method, "/v1/chat/completions")
    assert (error.status, error.allow) == (405, "POST")


def test_an_unknown_path_is_404_under_any_method() -> None:
    assert refusal("GET", "/nope").status == 404


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "chat.completions"),
        ("/v1/completions", "completions"),
        ("/v1/embeddings", "embeddings"),
        ("/v1/responses", "responses"),
        ("/v1/messages", "messages"),
        ("/tokenize", "tokenize"),
        ("/detokenize", "detokenize"),
        ("/rerank", "rerank"),
        ("/v1/rerank", "rerank"),
        ("/v2/rerank", "rerank"),
        ("/score", "score"),
        ("/v1/score", "score"),
        ("/v1/audio/transcriptions", "audio.transcriptions"),
        ("/v1/audio/translations", "audio.translations"),
    ],
)
def test_every_path_of_the_engines_that_is_forwarded_has_its_name(path: str, name: str) -> None:
    endpoint = TABLE.find("POST", path)
    assert (endpoint.name, endpoint.path) == (name, path)


def names_where(holds: str) -> set[str]:
    return {endpoint.name for endpoint in TABLE if getattr(endpoint, holds)}


def test_what_generates_no_text_is_not_sampled() -> None:
    generating = {"chat.completions", "completions", "responses", "messages"}
    audio = {"audio.transcriptions", "audio.translations"}
    assert names_where("sampled") == generating | audio
    assert names_where("marks_end") == generating | audio


def test_a_model_is_required_where_openai_and_anthropic_require_it() -> None:
    assert names_where("model_required") == {
        "chat.completions",
        "completions",
        "embeddings",
        "responses",
        "messages",
    }


def test_only_audio_comes_as_a_form_and_is_greedy_unless_asked_otherwise() -> None:
    forms = [endpoint for endpoint in TABLE if endpoint.body is BodyKind.MULTIPART]
    assert {endpoint.name for endpoint in forms} == {"audio.transcriptions", "audio.translations"}
    assert {endpoint.temperature_absent for endpoint in forms} == {0.0}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", ("max_completion_tokens", "max_tokens")),
        ("/v1/completions", ("max_tokens",)),
        ("/v1/responses", ("max_output_tokens",)),
        ("/v1/messages", ("max_tokens",)),
        ("/v1/audio/transcriptions", ("max_completion_tokens",)),
        ("/v1/embeddings", ()),
    ],
)
def test_each_endpoint_limits_its_output_under_the_names_of_its_own_protocol(
    path: str, fields: tuple[str, ...]
) -> None:
    assert TABLE.find("POST", path).max_output_fields == fields


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/chat/completions/", "/health", ""])
def test_what_is_forwarded_is_what_is_found(method: str, path: str) -> None:
    try:
        TABLE.find(method, path)
    except ApiError:
        assert not TABLE.forwards(method, path)
    else:
        assert TABLE.forwards(method, path)


def test_only_completions_stop_after_sixteen_tokens_unless_told_otherwise() -> None:
    assert {endpoint.name: endpoint.max_output_absent for endpoint in TABLE if endpoint.max_output_absent} == {
        "completions": 16
    }


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "v1/classify",
        "/v1/classify/",
        "//classify",
        "/v1/../metrics",
        "/v1/./x",
        "/v1/classify?x=1",
        "/v1/a%2Fb",
        "/v1/a b",
        "/v1/a#b",
        "/v1/\\x",
        "/v1/caf\u00e9",
        "/v1/\n",
    ],
)
def test_an_extra_path_that_no_request_could_match_is_named(path: str) -> None:
    with pytest.raises(ValueError, match="is not a plain absolute path"):
        EndpointTable([path])


@pytest.mark.parametrize("extra", [["/tokenize"], ["/v1/classify", "/v1/classify"]])
def test_an_extra_path_that_is_there_already_is_named(extra: list[str]) -> None:
    with pytest.raises(ValueError, match=r"'/(tokenize|v1/classify)' is already served"):
        EndpointTable(extra)


def test_an_extra_path_is_read_as_json_with_every_parameter_under_its_usual_name() -> None:
    table = EndpointTable(["/v1/classify"])
    assert table.find("POST", "/v1/classify") == Endpoint(
        "v1.classify",
        "/v1/classify",
        sampled=True,
        max_output_fields=("max_completion_tokens", "max_tokens", "max_output_tokens"),
    )
    assert refusal("GET", "/v1/classify", table).status == 405
    assert len(list(table)) == len(list(TABLE)) + 1
