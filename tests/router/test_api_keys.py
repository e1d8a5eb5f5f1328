"""`breakeven.api_keys`: who may come in (field case B63)."""

import pytest

from breakeven import api_keys
from breakeven.api_keys import ApiKeys
from breakeven.errors import ApiError
from breakeven.headers import Headers

KEYS = ApiKeys({"team": "sk-team", "batch": "sk-batch"})
CHAT = b"/v1/chat/completions"


def holder(*pairs: tuple[bytes, bytes], keys: ApiKeys = KEYS) -> str | None:
    return keys.holder(Headers(list(pairs)))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer   ",
        b"Bearer sk-tea",
        b"Bearer sk-teamm",
        b"Bearer SK-TEAM",
        b"Bearer sk-team sk-team",
        b"Bearer\tsk-team",
        b"Bearersk-team",
        b"sk-team",
        b"Basic sk-team",
        b"Bearer sk-team,Bearer sk-batch",
        b"Bearer \xfc",
        "Bearer sk-te\u00e4m".encode(),
        b"Bearer team",
        b"Bearer " + b"x" * 60_000,
    ],
)
def test_what_is_no_known_key_lets_nobody_in(value: bytes) -> None:
    assert holder((b"authorization", value)) is None


@pytest.mark.parametrize("value", [b"Bearer sk-team", b"bearer sk-team", b"BEARER sk-team", b"Bearer  sk-team"])
def test_the_scheme_is_written_as_one_likes(value: bytes) -> None:
    assert holder((b"authorization", value)) == "team"


def test_nobody_comes_in_without_a_key() -> None:
    assert holder() is None
    assert holder((b"proxy-authorization", b"Bearer sk-team"), (b"api-key", b"sk-team")) is None


def test_anthropics_clients_carry_their_key_elsewhere() -> None:
    assert holder((b"x-api-key", b"sk-batch")) == "batch"
    assert holder((b"x-api-key", b"Bearer sk-batch")) is None
    assert holder((b"authorization", b"Bearer of-somebody-else"), (b"x-api-key", b"sk-batch")) == "batch"
    assert holder((b"authorization", b"Bearer sk-team"), (b"x-api-key", b"of-somebody-else")) == "team"


@pytest.mark.parametrize("second", [b"Bearer sk-team", b"Bearer sk-batch", b"Bearer x", b""])
@pytest.mark.parametrize("carrier", [b"authorization", b"x-api-key"])
def test_a_key_that_is_there_twice_is_nobodys(carrier: bytes, second: bytes) -> None:
    first = b"sk-team" if carrier == b"x-api-key" else b"Bearer sk-team"
    assert holder((carrier, first), (carrier, second)) is None
    assert holder((carrier, second), (carrier, first)) is None


def test_each_key_is_compared_whichever_is_found_first(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def counted(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr(api_keys, "compare_digest", counted)
    for value in (b"Bearer sk-team", b"Bearer sk-batch", b"Bearer x", b"Bearer ", b"Basic x", b""):
        compared.clear()
        holder((b"authorization", value))
        assert compared == [(32, 32), (32, 32)]


def test_a_head_that_came_before_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = Headers([(b"authorization", b"Bearer sk-team")])
    refused = Headers([(b"authorization", b"Bearer x")])
    assert (KEYS.holder(headers), KEYS.holder(refused)) == ("team", None)
    monkeypatch.delattr(api_keys, "sha256")
    assert (KEYS.holder(headers), KEYS.holder(refused)) == ("team", None)


def test_other_keys_do_not_take_over_what_was_judged_before() -> None:
    headers = Headers([(b"authorization", b"Bearer sk-team")])
    assert KEYS.holder(headers) == "team"
    assert ApiKeys({"batch": "sk-batch"}).holder(headers) is None
    assert ApiKeys({"renamed": "sk-team"}).holder(headers) == "renamed"


def test_a_refusal_has_the_type_that_openais_client_raises_as_an_authentication_error() -> None:
    with pytest.raises(ApiError) as caught:
        KEYS.admit(b"POST", CHAT, Headers([]))
    error = caught.value
    assert (error.status, error.type, error.code) == (401, "invalid_request_error", "invalid_api_key")


@pytest.mark.parametrize(
    "path", [b"/v1/models", b"/v1/models/m", b"/healthz", b"/health/", b"//health", b"/metrics", b""]
)
def test_a_key_is_needed_for_everything_else(path: bytes) -> None:
    with pytest.raises(ApiError):
        KEYS.admit(b"GET", path, Headers([]))
    assert KEYS.admit(b"GET", path, Headers([(b"authorization", b"Bearer sk-team")])) == "team"


@pytest.mark.parametrize(("method", "path"), [(b"GET", b"/health"), (b"HEAD", b"/ready"), (b"OPTIONS", CHAT)])
def test_balancers_and_preflights_need_none(method: bytes, path: bytes) -> None:
    assert KEYS.admit(method, path, Headers([(b"authorization", b"Bearer wrong")])) is None
