"""`breakeven.model_cards`: nothing lost, nothing twice, nothing that changes without cause (field cases B60, B61)."""

import json
from typing import Any

import pytest

from breakeven.model_cards import CARDS_MAX, ModelDirectory, merge, names_of, parse_cards


def page(*cards: Any) -> bytes:
    return json.dumps({"object": "list", "data": cards}).encode()


SPEC = {"id": "m", "object": "model", "created": 2, "root": "org/m", "max_model_len": 4096, "permission": [{"id": "p"}]}
BASE = {"id": "m", "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": 8192, "new_field": {"a": [1]}}
LORA = {"id": "m-lora", "object": "model", "parent": "m", "max_model_len": None}


@pytest.mark.parametrize(
    "answer",
    [b"", b"<html>", b"[]", b"{}", b'{"data": {}}', b'{"error": "Unauthorized"}', b"\xff\xfe", b"[" * 100_000, b"null"],
    ids=["empty", "html", "list", "object", "data", "error", "binary", "deep", "null"],
)
def test_what_is_no_list_of_models_is_an_error(answer: bytes) -> None:
    with pytest.raises(ValueError, match=r"not JSON|no list of models"):
        parse_cards(answer)


def test_names_are_those_of_clients_and_of_the_folder_but_not_of_adapters() -> None:
    odd = {"id": "n", "root": 3, "parent": None}
    assert names_of([SPEC, BASE, LORA, odd]) == {"m", "org/m", "n"}


def test_a_list_without_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="no list of models"):
        parse_cards(page(*({"id": str(number)} for number in range(CARDS_MAX + 1))))


def test_entries_that_name_no_model_are_left_out() -> None:
    answer = page("m", {}, {"id": None}, {"id": 3}, {"id": "a\ud83d"}, {"id": "m", "created": 1})
    assert parse_cards(answer) == ({"id": "m", "created": 1},)


def test_a_number_that_json_does_not_know_becomes_unknown() -> None:
    assert parse_cards(b'{"data": [{"id": "m", "score": NaN}]}') == ({"id": "m", "score": None},)
    assert parse_cards(b'{"data": [{"id": "m", "score": 1e999}]}') == ({"id": "m", "score": None},)
    assert parse_cards(b'{"data": [{"id": "m", "score": 0.5}]}') == ({"id": "m", "score": 0.5},)


def test_each_model_appears_once_with_the_fields_of_all_and_those_of_the_first_where_they_differ() -> None:
    merged = merge([[SPEC], [BASE, LORA]], {})
    assert list(merged) == ["m", "m-lora"]
    assert merged["m"] == {**BASE, **SPEC, "max_model_len": 4096}
    assert merged["m-lora"] == LORA


def test_the_smaller_length_counts_whoever_comes_first() -> None:
    assert merge([[BASE], [SPEC]], {})["m"]["max_model_len"] == 4096


@pytest.mark.parametrize("unusable", [None, "long", True])
def test_a_length_that_is_no_number_does_not_beat_one_that_is(unusable: Any) -> None:
    other = {"id": "m", "max_model_len": unusable}
    assert merge([[other], [BASE]], {})["m"]["max_model_len"] == 8192
    assert merge([[other], [other]], {})["m"]["max_model_len"] == unusable


def test_an_alias_is_a_model_with_the_card_of_its_model() -> None:
    merged = merge([[SPEC]], {"fast": "m", "lost": "unknown"})
    assert merged == {"m": SPEC, "fast": {**SPEC, "id": "fast"}}
    assert merged["fast"]["root"] == "org/m"


def test_before_any_engine_has_answered_the_list_is_empty() -> None:
    directory = ModelDirectory(["spec-0"], {"fast": "m"})
    assert json.loads(directory.listing()) == {"object": "list", "data": []}
    assert directory.card("m") is None


def test_the_directory_answers_from_memory_in_configuration_order() -> None:
    directory = ModelDirectory(["spec-0", "base-0"], {"fast": "m"})
    directory.update("base-0", parse_cards(page(BASE, LORA)))
    directory.update("spec-0", parse_cards(page(SPEC)))
    listed = json.loads(directory.listing())
    assert [card["id"] for card in listed["data"]] == ["m", "m-lora", "fast"]
    assert listed["data"][0]["created"] == 2
    assert json.loads(directory.card("fast") or b"{}")["id"] == "fast"
    assert directory.card("other") is None


def test_the_bytes_stay_the_same_until_an_engine_says_something_new() -> None:
    directory = ModelDirectory(["spec-0", "base-0"], {})
    directory.update("spec-0", parse_cards(page(SPEC)))
    before = directory.listing()
    directory.update("spec-0", parse_cards(page(SPEC)))
    assert directory.listing() is before
    directory.update("base-0", parse_cards(page(LORA)))
    assert directory.listing() != before
    directory.update("base-0", ())
    assert directory.listing() == before


def test_an_engine_that_is_not_configured_is_an_error() -> None:
    with pytest.raises(KeyError):
        ModelDirectory(["spec-0"], {}).update("other", ())


def test_any_text_in_a_card_can_be_written_down() -> None:
    directory = ModelDirectory(["spec-0"], {"a\u0301 alias": "ü"})
    directory.update("spec-0", parse_cards(rb'{"data": [{"id": "\u00fc", "note": "\ud83d"}]}'))
    assert directory.listing().isascii()
    assert json.loads(directory.listing())["data"][1]["id"] == "a\u0301 alias"


def test_another_configuration_keeps_what_is_known_of_the_backends_that_stay() -> None:
    directory = ModelDirectory(["a", "b"], {})
    directory.update("a", ({"id": "m"},))
    directory.update("b", ({"id": "n"},))
    directory.reconfigure(["b", "c"], {"fast": "n"})
    assert [card["id"] for card in json.loads(directory.listing())["data"]] == ["n", "fast"]
    assert directory.card("m") is None
    directory.update("c", ({"id": "o"},))
    assert directory.card("o") is not None
    with pytest.raises(KeyError):
        directory.update("a", ())


def test_what_one_backend_listed_can_be_told_to_others() -> None:
    directory = ModelDirectory(["a", "b"], {})
    directory.update("a", (SPEC,))
    assert (list(directory.cards("a")), list(directory.cards("b"))) == ([SPEC], [])
