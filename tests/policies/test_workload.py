"""Which requests are of one class."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_policies.workload import BANDS, CLASSES_MAX, NAMED_MAX, OTHER, band_of, workload_of
from tests.policies.fleets import request


@pytest.mark.parametrize(
    ("temperature", "changes", "band"),
    [
        (0.0, {}, "t0"),
        (-0.5, {}, "t0"),
        (1.5, {"top_k": 1}, "t0"),
        (1.5, {"top_p": 0.05}, "t0"),
        (0.01, {}, "t1"),
        (0.4, {}, "t1"),
        (0.4, {"top_k": 2}, "t1"),
        (0.7, {}, "t2"),
        (1.0, {}, "t3"),
        (1.0, {"top_p": 0.5}, "t2"),
        (1.0, {"top_p": 0.9}, "t3"),
        (1.5, {}, "t4"),
        (1.5, {"top_k": 5}, "t3"),
        (1.5, {"top_k": 50}, "t4"),
    ],
)
def test_the_band_is_that_of_what_is_really_drawn_from(
    temperature: float, changes: dict[str, object], band: str
) -> None:
    assert band_of(workload_of(request(temperature, **changes))) == band


@pytest.mark.parametrize(("prompt_bytes", "size"), [(0, "short"), (5_000, "medium"), (40_000, "long")])
def test_the_length_of_a_prompt_tells_classes_apart(prompt_bytes: int, size: str) -> None:
    assert workload_of(request(0.0, prompt_bytes=prompt_bytes)) == f"t0/{size}/free"


def test_an_answer_that_is_held_to_a_form_is_of_another_class() -> None:
    assert workload_of(request(0.0, structured=True)) == "t0/short/formed"
    assert workload_of(request(0.0, has_tools=True)) == "t0/short/formed"


def test_a_name_stands_for_everything_but_the_temperature() -> None:
    assert workload_of(request(1.0, workload_name="code", prompt_bytes=40_000, has_tools=True)) == "t3/code"
    assert workload_of(request(1.0), named="chat") == "t3/chat"


@given(st.floats(-2, 3), st.integers(0, 100), st.floats(0, 1), st.integers(0, 10**6), st.booleans())
def test_there_are_no_more_classes_than_are_remembered(
    temperature: float, top_k: int, top_p: float, prompt_bytes: int, structured: bool
) -> None:
    seen = request(temperature, top_k=top_k, top_p=top_p, prompt_bytes=prompt_bytes, structured=structured)
    band, size, form = workload_of(seen).split("/")
    assert band in BANDS
    assert size in {"short", "medium", "long"}
    assert form in {"free", "formed"}
    assert len(BANDS) * (6 + NAMED_MAX) == CLASSES_MAX
    assert band_of(OTHER) in BANDS
