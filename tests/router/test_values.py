"""Values of request parameters, read as the engines read them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from breakeven.values import finite_number, truth, whole_number

HUGE = 10**400


class EngineRequest(BaseModel):
    """The declarations of vLLM 0.33.0, `ChatCompletionRequest`."""

    temperature: float | None = None
    top_k: int | None = None
    stream: bool | None = False


def read_by_engine(**fields: Any) -> Any:
    """What the engine would hold of the one field given; None where it would answer 400."""
    try:
        request = EngineRequest(**fields)
    except ValidationError:
        return None
    return getattr(request, next(iter(fields)))


@pytest.mark.parametrize(
    "value",
    ["hot", "1,5", "", " ", "0x1", "\uff11.\uff15", "1.5\0", "\ud83d", [1.5], {"v": 1}, HUGE, -HUGE, "9" * 5000],
)
def test_what_no_engine_takes_for_a_number_is_none(value: object) -> None:
    assert finite_number(value) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "nan", "-inf", "Infinity", "1e400"])
def test_a_number_that_cannot_be_compared_is_none(value: object) -> None:
    assert finite_number(value) is None


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1.5, 1.5),
        ("1.5", 1.5),
        (" 1.5 ", 1.5),
        ("0.2", 0.2),
        ("1_000.5", 1000.5),
        (True, 1.0),
        (False, 0.0),
        (1, 1.0),
        (-1, -1.0),
        (2.5, 2.5),
        (1e30, 1e30),
        (10**30, 1e30),
        (None, None),
    ],
)
def test_b03_numbers_are_read_from_strings_booleans_and_integers(value: object, number: float | None) -> None:
    assert finite_number(value) == number
    assert number is None or type(finite_number(value)) is float


def test_minus_zero_stays_minus_zero() -> None:
    assert str(finite_number(-0.0)) == "-0.0"


@pytest.mark.parametrize("value", [None, 5.5, "5.5", "five", [5], {}, math.nan, math.inf, 1e30, "\ud83d"])
def test_what_no_engine_takes_for_a_whole_number_is_none(value: object) -> None:
    assert whole_number(value) is None


@pytest.mark.parametrize(
    ("value", "number"), [(5, 5), ("5", 5), (" 5 ", 5), (5.0, 5), ("5.0", 5), (True, 1), (-1, -1), (HUGE, HUGE)]
)
def test_whole_numbers_are_read_from_strings_booleans_and_floats(value: object, number: int) -> None:
    assert whole_number(value) == number
    assert type(whole_number(value)) is int


@pytest.mark.parametrize("value", ["true", "TRUE", "yes", "y", "t", "on", "1", 1, 1.0, True])
def test_b22_an_engine_streams_for_every_spelling_of_true(value: object) -> None:
    assert truth(value) is True


@pytest.mark.parametrize("value", [None, False, "false", "no", "off", "0", 0, 2, -1, "2", "maybe", "", [], [1], {}])
def test_what_is_not_true_is_not_streamed_even_where_an_engine_refuses_it(value: object) -> None:
    assert truth(value) is False


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.from_regex(r"\s?[-+]?\d+(\.\d*)?(e\d)?\s?"),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.text(), values, max_size=2),
    max_leaves=3,
)


@pytest.mark.slow
@given(json_values)
def test_every_value_is_read_as_the_engines_declarations_read_it(value: object) -> None:
    temperature = read_by_engine(temperature=value)
    assert finite_number(value) == (temperature if temperature is not None and math.isfinite(temperature) else None)
    assert whole_number(value) == read_by_engine(top_k=value)
    assert truth(value) == (read_by_engine(stream=value) or False)
