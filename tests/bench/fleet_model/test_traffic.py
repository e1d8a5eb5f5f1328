"""Requests of a run: the user's proportions, one seed one traffic, and nothing in a view that a router cannot know."""

from collections import Counter

import numpy as np
import pytest

from breakeven_bench.fleet_model.traffic import BLOCK, CATEGORIES, MAX_TOKENS, mixed, traffic
from breakeven_bench.fleet_model.worlds import LONG_PROMPT_TOKENS, WORLDS

COUNT = 4000


@pytest.fixture(scope="module")
def asked():
    return mixed(COUNT, 4.0, 7)


def test_categories_come_in_the_users_proportions_at_the_rate_asked_for(asked):
    counts = Counter(each.category for each in asked)
    for category in CATEGORIES:
        assert counts[category.name] / COUNT == pytest.approx(category.weight / 500, abs=0.025)
    assert asked[-1].at_s == pytest.approx(COUNT / 4.0, rel=0.06)


def test_every_block_is_the_same_work_in_another_order_and_in_the_same_time(asked):
    first, second = asked[:BLOCK], asked[BLOCK : 2 * BLOCK]
    work = [sorted((each.category, each.output_tokens) for each in block) for block in (first, second)]
    assert work[0] == work[1]
    assert [each.category for each in first] != [each.category for each in second]
    assert first[-1].at_s == pytest.approx(BLOCK / 4.0)
    assert second[-1].at_s == pytest.approx(2 * BLOCK / 4.0)


def test_a_part_of_a_block_is_as_long_as_asked_for():
    assert len(mixed(7, 1.0, 1)) == 7


def test_prompts_and_answers_stay_in_the_range_of_their_category(asked):
    ranges = {category.name: category for category in CATEGORIES}
    for each in asked:
        category = ranges[each.category]
        assert category.prompt_tokens[0] <= each.prompt_tokens <= category.prompt_tokens[1]
        assert category.output_tokens[0] <= each.output_tokens <= category.output_tokens[1]


def test_eight_per_cent_are_hotter_than_one(asked):
    temperatures = [each.view.temperature for each in traffic(asked, WORLDS["falls"], 7).arrivals]
    assert sum(temperature > 1.0 for temperature in temperatures) / COUNT == pytest.approx(0.08, abs=0.001)


def test_one_seed_is_one_traffic_and_another_seed_another(asked):
    one, same, other = (traffic(asked, WORLDS["falls"], seed) for seed in (3, 3, 4))
    assert one.arrivals == same.arrivals
    assert np.array_equal(one.luck, same.luck)
    assert one.arrivals != other.arrivals


def test_every_request_finds_luck_for_its_longest_way(asked):
    drawn = traffic(asked, WORLDS["falls"], 1)
    assert all(each.place + each.output_tokens <= len(drawn.luck) for each in drawn.arrivals)


def test_a_quarter_of_the_prompts_is_long_in_the_world_of_long_prompts(asked):
    prompts = [each.prompt_tokens for each in traffic(asked, WORLDS["long"], 1).arrivals]
    assert prompts.count(LONG_PROMPT_TOKENS) / COUNT == pytest.approx(0.25, abs=0.03)


def test_half_of_the_clients_ask_for_usage(asked):
    told = sum(each.tells_usage for each in traffic(asked, WORLDS["falls"], 1).arrivals)
    assert told / COUNT == pytest.approx(0.5, abs=0.04)


def test_a_view_tells_neither_the_length_of_the_answer_nor_the_tokens_of_the_prompt(asked):
    views = [(each, each.view) for each in traffic(asked, WORLDS["falls"], 1).arrivals]
    assert {view.max_output_tokens for _, view in views} == {MAX_TOKENS}
    assert len({round(view.prompt_bytes / each.prompt_tokens, 1) for each, view in views}) > 10
