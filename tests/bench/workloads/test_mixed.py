"""The mixed workload: the user's proportions, evenly spread, the same from the same seed."""

from collections import Counter
from statistics import mean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven_bench.workloads.mixed import CATEGORIES, TEMPERATURES, mixed, shares, spread


def test_the_categories_stand_in_the_proportions_of_the_users_500_prompts():
    assert Counter(planned.category for planned in mixed(500, 1)) == {
        "short_qa": 150,
        "summarization": 100,
        "code_generation": 80,
        "creative_writing": 50,
        "translation": 70,
        "structured_output": 50,
    }


def test_the_temperatures_are_the_users_and_eight_percent_lie_above_one():
    found = Counter(planned.temperature for planned in mixed(500, 1))
    assert sorted(found) == [0.0, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5]
    assert found[1.2] + found[1.5] == 40
    assert sum(share for _, share in TEMPERATURES) == 100


def test_every_answer_fits_the_range_of_its_category_and_its_own_limit():
    ranges = {category.name: (category.output_tokens_min, category.output_tokens_max) for category in CATEGORIES}
    for planned in mixed(500, 1):
        low, high = ranges[planned.category]
        assert low <= planned.output_tokens <= planned.max_tokens == high


def test_the_same_seed_asks_the_same_and_another_seed_something_else():
    assert mixed(60, 1) == mixed(60, 1)
    assert mixed(60, 1) != mixed(60, 2)


def test_one_temperature_can_be_asked_for():
    assert {planned.temperature for planned in mixed(20, 1, temperature=0.3)} == {0.3}


def test_requests_are_numbered_in_order_and_name_their_prompt():
    planned = mixed(40, 1)
    assert [request.index for request in planned] == list(range(40))
    assert len({request.prompt_id for request in planned if request.category == "short_qa"}) == 8


def test_no_two_requests_share_a_seed():
    assert len({planned.seed for planned in mixed(300, 1)}) == 300


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_every_third_of_a_run_asks_for_nearly_the_same_work(seed):
    tokens = [planned.output_tokens for planned in mixed(300, seed)]
    thirds = [mean(tokens[start : start + 100]) for start in (0, 100, 200)]
    assert max(thirds) / min(thirds) < 1.25


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(0, 400))
def test_shares_add_up_and_stay_within_one_of_their_proportion(weights, count):
    found = shares(list(enumerate(weights)), count)
    assert sum(number for _, number in found) == count
    for (_, number), weight in zip(found, weights, strict=True):
        assert abs(number - count * weight / sum(weights)) < 1.0


@pytest.mark.parametrize(("count", "expected"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (4, [2, 1, 1])])
def test_of_equal_remainders_the_first_is_served_first(count, expected):
    assert [number for _, number in shares([("a", 1), ("b", 1), ("c", 1)], count)] == expected


def test_a_value_occurs_once_in_each_of_its_strata():
    values = spread([("rare", 1), ("common", 9)], 100, np.random.default_rng(4))
    places = [place for place, value in enumerate(values) if value == "rare"]
    # ten strata of ten places each; the places of the others move an edge by at most one
    assert [round(place / 10 - 0.5) for place in places] == pytest.approx(list(range(10)), abs=1)
