"""The unverified prior: what the table says, between its rows and beyond them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_policies.prior import DRAFT_TOKENS, PRIOR, SOURCE, PriorPoint, expected_acceptance_length, prior_at
from breakeven_policies.registry import policy_names


def test_a_temperature_that_is_not_a_number_has_no_row():
    with pytest.raises(ValueError, match="not a number"):
        prior_at(math.nan)


@pytest.mark.parametrize(("acceptance", "draft_tokens"), [(-0.01, 5), (1.01, 5), (math.nan, 5), (0.5, -1)])
def test_an_acceptance_length_needs_a_probability_and_a_count(acceptance, draft_tokens):
    with pytest.raises(ValueError, match="no acceptance length"):
        expected_acceptance_length(acceptance, draft_tokens)


def test_the_source_says_that_nobody_verified_it():
    assert "unverified" in SOURCE


def test_the_prior_is_not_taken_for_a_policy():
    assert "prior" not in policy_names()


@pytest.mark.parametrize("point", PRIOR)
def test_a_row_of_the_table_is_returned_as_published(point):
    assert prior_at(point.temperature) == point


def test_between_two_rows_the_prior_is_linear():
    between = prior_at(0.85)
    assert between.temperature == 0.85
    assert between.acceptance == pytest.approx((0.64 + 0.55) / 2)
    assert between.speedup == pytest.approx((2.08 + 1.72) / 2)


@pytest.mark.parametrize(
    ("temperature", "row"), [(-1.0, PRIOR[0]), (1.51, PRIOR[-1]), (2.0, PRIOR[-1]), (math.inf, PRIOR[-1])]
)
def test_outside_the_table_the_nearest_row_holds(temperature, row):
    assert prior_at(temperature) == PriorPoint(temperature, row.acceptance, row.speedup)


@given(st.floats(0, 2), st.floats(0, 2))
def test_a_hotter_request_is_never_accepted_more_often(one, other):
    cooler, hotter = sorted((one, other))
    assert prior_at(hotter).acceptance <= prior_at(cooler).acceptance + 1e-12  # rounding
    assert prior_at(hotter).speedup <= prior_at(cooler).speedup + 1e-12


@pytest.mark.parametrize(
    ("acceptance", "length"),
    [(0.81, 3.78), (0.76, 3.36), (0.71, 3.01), (0.64, 2.59), (0.55, 2.16), (0.47, 1.87), (0.38, 1.61)],
)
def test_five_drafts_give_the_expected_length_of_the_published_acceptance(acceptance, length):
    assert expected_acceptance_length(acceptance, DRAFT_TOKENS) == pytest.approx(length, abs=0.011)


@pytest.mark.parametrize(
    ("acceptance", "draft_tokens", "length"),
    [(0.0, 5, 1.0), (1.0, 5, 6.0), (1.0, 0, 1.0), (0.7, 0, 1.0), (0.5, 1, 1.5)],
)
def test_the_length_lies_between_the_bonus_token_alone_and_all_drafts(acceptance, draft_tokens, length):
    assert expected_acceptance_length(acceptance, draft_tokens) == pytest.approx(length)


@given(st.floats(0, 1), st.integers(0, 12))
def test_the_length_is_the_sum_of_the_chances_to_reach_each_position(acceptance, draft_tokens):
    reached = sum(acceptance**position for position in range(draft_tokens + 1))
    assert expected_acceptance_length(acceptance, draft_tokens) == pytest.approx(reached, rel=1e-6)


def test_the_step_time_ratio_implied_by_the_table_hardly_depends_on_temperature():
    ratios = [expected_acceptance_length(point.acceptance, DRAFT_TOKENS) / point.speedup for point in PRIOR]
    assert min(ratios) > 1.23
    assert max(ratios) < 1.41
