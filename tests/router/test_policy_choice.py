"""`breakeven.policy_choice`: a client gets the policy that it may ask for, or hears which there are."""

import pytest

from breakeven.errors import ApiError
from breakeven.policy_choice import PolicyChoice
from breakeven_policies.least_loaded import LeastLoaded
from breakeven_policies.threshold import Threshold

LEAST, COOL = LeastLoaded(), Threshold(0.5)
CHOICE = PolicyChoice(b"x-policy", {b"least_loaded": LEAST, b"threshold:0.5": COOL}, {"cool": COOL})


@pytest.mark.parametrize("value", [b"", b"pinned:eagle", b"threshold", b"LEAST_LOADED", b"x" * 10_000, b"\xff\r"])
def test_what_may_not_be_asked_for_is_a_bounded_400_that_lists_what_may(value: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        CHOICE.of({b"x-policy": value}, "cool")
    error = refused.value
    assert (error.status, error.code, error.param) == (400, "unknown_policy", "x-policy")
    assert error.message.endswith("which no request may ask for; it may: least_loaded, threshold:0.5.")
    assert len(error.message) < 300


def test_the_header_names_a_policy_and_wins_over_the_alias() -> None:
    assert CHOICE.of({b"x-policy": b" least_loaded "}, "cool") is LEAST


@pytest.mark.parametrize(("alias", "expected"), [(None, None), ("other", None), ("cool", COOL)])
def test_without_the_header_the_alias_says(alias: str | None, expected: object) -> None:
    assert CHOICE.of({b"host": b"h"}, alias) is expected


def test_without_a_header_configured_no_header_says_anything() -> None:
    assert PolicyChoice(by_alias={"cool": COOL}).of({b"x-policy": b"nonsense"}, "cool") is COOL
