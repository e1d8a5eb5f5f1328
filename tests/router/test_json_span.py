"""The value of `model` is found and replaced in the bytes of a document; nothing else changes."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from breakeven.json_span import MEMBERS_MAX, deciding, model_spans, with_model


def top_level(document: bytes) -> list[object]:
    return [json.loads(document).get("model")]


def renamed(document: bytes, model: str = "new") -> bytes:
    return with_model(document, deciding(document, model_spans(document), top_level), model)


def found(document: bytes) -> list[bytes]:
    return [document[start:end] for start, end in model_spans(document)]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b'{"Model":"m"}',
        b'{"models":"m"}',
        b'{"amodel":"m"}',
        b'{"model":5}',
        b'{"model":null,"x":"model"}',
        b'{"x":"model","y":"z"}',
        b'["model","x"]',
        b'{"x":"\\"model\\":\\"m\\""}',
        b'{"x\\"model":"m"}',
        b'{"x\\"\\u006dodel":"m"}',
        b'{"model\\"":"m"}',
        b'{"model":"unterminated}',
        b'{"model":"unterminated\\"}',
        b'{"mod\\u0045l":"m"}',
    ],
)
def test_what_is_no_string_under_the_key_model_is_not_found(document: bytes) -> None:
    assert found(document) == []


@pytest.mark.parametrize(
    ("document", "values"),
    [
        (b'{"model":"m"}', [b'"m"']),
        (b'{"model" \t\r\n:\n "m" }', [b'"m"']),
        (b'{"model":""}', [b'""']),
        (b'{"model":"a\\"b\\\\"}', [b'"a\\"b\\\\"']),
        (b'{"model":"line\nbreak"}', [b'"line\nbreak"']),
        (b'{"a\\\\":{"model":"x"},"model":"m"}', [b'"x"', b'"m"']),
        (b'{"mod\\u0065l":"m"}', [b'"m"']),
        (b'{"\\u006d\\u006f\\u0064\\u0065\\u006c":"m","\\u006D\\u006F\\u0064\\u0065\\u006C":"n"}', [b'"m"', b'"n"']),
    ],
)
def test_every_spelling_of_the_key_is_found(document: bytes, values: list[bytes]) -> None:
    assert found(document) == values


def test_a_document_of_nothing_but_models_is_given_up() -> None:
    members = b",".join([b'"model":"m"'] * MEMBERS_MAX)
    assert len(model_spans(b"{" + members + b"}")) == MEMBERS_MAX
    with pytest.raises(ValueError, match=f"more than {MEMBERS_MAX} members called model"):
        model_spans(b"{" + members + b',"model":"m"}')


def test_what_the_reader_of_the_document_raises_is_passed_on() -> None:
    document = b'{"model":"m"'
    with pytest.raises(json.JSONDecodeError):
        deciding(document, model_spans(document), top_level)


def test_values_that_the_reader_sees_and_that_are_no_strings_are_left_alone() -> None:
    document = b'{"model":"m","model":0}'
    assert renamed(document) == document


def test_of_equal_keys_the_last_is_replaced_in_any_spelling() -> None:
    assert renamed(b'{"model":"a","mod\\u0065l":"b"}') == b'{"model":"a","mod\\u0065l":"new"}'
    assert renamed(b'{"mod\\u0065l":"a","model":"b"}') == b'{"mod\\u0065l":"a","model":"new"}'


def test_nested_members_and_texts_are_left_alone() -> None:
    document = b'{"m":[{"model":"x"}],"t":"\\"model\\":\\"x\\"","model":"m","metadata":{"model":"x"}}'
    assert renamed(document) == document.replace(b'"model":"m"', b'"model":"new"')


def test_several_members_may_count() -> None:
    document = b'{"model":"a","response":{"model":"b","x":{"model":"c"}}}'

    def both(document: bytes) -> list[object]:
        event = json.loads(document)
        return [event["response"]["model"], event["model"]]

    chosen = deciding(document, model_spans(document), both)
    assert with_model(document, chosen, "n") == b'{"model":"n","response":{"model":"n","x":{"model":"c"}}}'


def test_a_name_that_no_encoder_takes_is_escaped() -> None:
    assert renamed(b'{"model":"m"}', '\ud83d"é') == b'{"model":"\\ud83d\\"\\u00e9"}'


def test_no_chosen_value_leaves_the_very_bytes() -> None:
    document = b'{"model":"m"}'
    assert with_model(document, [], "n") == document


keys = st.sampled_from(["model", "m", "mode", 'x"model', "model\\", "\\", '"', "models", "MODEL"]) | st.text(max_size=3)
scalars = st.none() | st.integers() | keys | st.sampled_from(['"model":"m"', '{"model": "m"}', "\\\\", '\\"'])
documents = st.recursive(
    scalars, lambda values: st.lists(values, max_size=3) | st.dictionaries(keys, values, max_size=3), max_leaves=12
)


@pytest.mark.slow
@given(st.dictionaries(keys, documents, max_size=4), st.text(max_size=5), st.booleans(), st.sampled_from([None, 1]))
@example({"model": "m"}, "", True, None)
def test_the_result_reads_as_the_document_with_only_its_model_replaced(
    members: dict[str, Any], model: str, ascii_only: bool, indent: int | None
) -> None:
    document = json.dumps(members, ensure_ascii=ascii_only, indent=indent).encode()
    expected = members | {"model": model} if isinstance(members.get("model"), str) else members
    result = renamed(document, model)
    assert json.loads(result) == expected
    name = json.dumps(model).encode()
    assert result in [document, *(document[:start] + name + document[end:] for start, end in model_spans(document))]


@given(
    st.lists(
        st.sampled_from(
            [b'"model":"a"', b'"model" : "b\\"c"', b'\\"model\\":\\"x\\"', b'"model":5', b'"models":"y"', b'"x"', b","]
        ),
        max_size=8,
    ).map(b" ".join)
)
def test_members_are_found_alike_with_and_without_an_escape_in_the_document(document: bytes) -> None:
    before, behind = model_spans(document), model_spans(document + b'"\\u006d"')
    assert before == behind


def test_the_only_string_of_that_name_counts_where_one_counts_at_all() -> None:
    assert renamed(b'{"a":{"model":"inner"}}') == b'{"a":{"model":"inner"}}'
    assert renamed(b'{"model":5,"a":{"model":"inner"}}') == b'{"model":5,"a":{"model":"inner"}}'
