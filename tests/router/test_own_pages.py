"""What the router answers itself, from memory."""

import json

import pytest

from breakeven.errors import ApiError
from breakeven.model_cards import ModelDirectory
from breakeven.own_pages import OwnPages


@pytest.fixture
def directory() -> ModelDirectory:
    directory = ModelDirectory(["base-0"], {"fast": "org/m"})
    directory.update("base-0", ({"id": "org/m", "object": "model", "max_model_len": 4096},))
    return directory


def pages(directory: ModelDirectory, *, ready: bool = True) -> OwnPages:
    return OwnPages(directory, lambda: ready)


@pytest.mark.parametrize("path", ["/", "/metrics", "/v1/../health", "/health/", "//health", "/v1/model"])
def test_other_paths_are_not_ours(directory: ModelDirectory, path: str) -> None:
    assert pages(directory).body(b"GET", path) is None


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/models"])
def test_only_reading_is_allowed(directory: ModelDirectory, path: str) -> None:
    with pytest.raises(ApiError) as caught:
        pages(directory).body(b"POST", path)
    assert (caught.value.status, caught.value.allow) == (405, "GET, HEAD")


def test_the_process_lives_whatever_its_engines_do(directory: ModelDirectory) -> None:
    assert pages(directory, ready=False).body(b"GET", "/health") == b'{"status":"ok"}'


def test_readiness_follows_the_engines(directory: ModelDirectory) -> None:
    assert pages(directory).body(b"HEAD", "/ready") == b'{"status":"ready"}'
    with pytest.raises(ApiError) as caught:
        pages(directory, ready=False).body(b"GET", "/ready")
    assert (caught.value.status, caught.value.code) == (503, "not_ready")


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/"])
def test_models_and_aliases_are_listed(directory: ModelDirectory, path: str) -> None:
    listed = json.loads(pages(directory).body(b"GET", path))
    assert [card["id"] for card in listed["data"]] == ["org/m", "fast"]


@pytest.mark.parametrize("path", ["/v1/models/org/m", "/v1/models/org%2Fm"])
def test_one_model_is_found_by_a_name_with_a_slash(directory: ModelDirectory, path: str) -> None:
    assert json.loads(pages(directory).body(b"GET", path))["max_model_len"] == 4096


def test_a_model_that_nobody_lists_is_not_found(directory: ModelDirectory) -> None:
    with pytest.raises(ApiError) as caught:
        pages(directory).body(b"GET", "/v1/models/nope")
    assert (caught.value.status, caught.value.code) == (404, "model_not_found")
