"""The sentences follow from the figures: what is not measured is not said, and what disagrees is undecided."""

from dataclasses import replace

import pytest

from breakeven_bench.real_curve.findings import (
    NEAR_TIE_NATS,
    findings,
    is_near_tie,
    too_few_comparisons,
    words_by_chance,
)
from breakeven_bench.real_curve.greedy import Divergence
from breakeven_bench.real_curve.result import BASELINE, GREEDY, Comparison
from tests.bench.real_curve.results import RESULT, acceptance, both_paths, samples


def told(**changes):
    return findings(replace(RESULT, **changes))


def parted(lead):
    return Divergence("p", 3, "a", "b", lead, is_runner_up=True)


def test_without_times_nothing_is_said_about_paying_or_the_router():
    said = " ".join(told(samples=()))
    assert "speculation" not in said
    assert "router the time" not in said


def test_without_a_direct_path_nothing_is_said_about_the_router():
    said = told(samples=(*samples(BASELINE, (60.0,) * 4), *samples(GREEDY, (50.0,) * 4)))
    assert any("speculation pays at T = 0 with 1 at a time" in sentence for sentence in said)
    assert not any(sentence.startswith("Through the router") for sentence in said)


def test_one_point_is_no_curve():
    assert not any("verification yields" in sentence for sentence in told(acceptance=(acceptance(),)))


def test_it_says_plainly_where_speculation_pays_where_not_and_where_the_rounds_disagree():
    greedy, probabilistic, *_ = findings(RESULT)
    assert greedy == (
        "With greedy drafting (vLLM's default), speculation pays at T = 0 with 1 at a time; "
        "does not pay at T = 1 with 4 at a time."
    )
    assert probabilistic == "With probabilistic drafting, speculation may pay or not at T = 1 with 4 at a time."


def test_it_says_how_much_of_the_drafts_is_left_at_the_highest_temperature():
    _, _, greedy, probabilistic, *_ = findings(RESULT)
    assert greedy.endswith("1.50 tokens at T = 0 and 1.10 at T = 1: 20% of what drafts yield at T = 0 is left.")
    assert probabilistic.endswith("1.50 tokens at T = 0 and 1.40 at T = 1: 80% of what drafts yield at T = 0 is left.")


def test_a_head_that_never_guesses_right_has_no_share_to_keep():
    curve = (acceptance(accepted=0), acceptance(temperature=1.0, accepted=0))
    assert any(sentence.endswith("1.00 tokens at T = 0 and 1.00 at T = 1.") for sentence in told(acceptance=curve))


def test_the_router_is_told_by_concurrency_and_by_how_often_the_rounds_agree_on_a_sign():
    measured = (
        *samples(BASELINE, (61.0, 61.0), concurrency=4),
        *samples(BASELINE, (60.0, 60.0), concurrency=4, path="direct"),
        *samples(GREEDY, (49.0, 49.0), concurrency=4),
        *samples(GREEDY, (50.0, 50.0), concurrency=4, path="direct"),
        *samples(GREEDY, (49.0, 51.0)),
        *samples(GREEDY, (50.0, 50.0), path="direct"),
    )
    (said,) = [sentence for sentence in told(samples=measured) if sentence.startswith("Through the router")]
    assert said.endswith(
        "+0.0% with 1 at a time (+0.0% to +0.0%), -0.2% with 4 at a time (-2.0% to +1.7%): "
        "slower in every round in 1 of 3 cells, faster in every round in 1."
    )


def test_what_chance_alone_would_decide_halves_with_every_comparison():
    two, three = (both_paths(BASELINE, (60.0,) * rounds) + both_paths(GREEDY, (50.0,) * rounds) for rounds in (2, 3))
    assert (words_by_chance(two), words_by_chance(three)) == (1 / 8, 1 / 32)
    assert words_by_chance(two + both_paths(BASELINE, (60.0,), concurrency=4)) == 1 / 8


def test_a_place_with_too_few_comparisons_is_never_decided_by_chance_either():
    assert words_by_chance(both_paths(BASELINE, (60.0,)) + both_paths(GREEDY, (50.0,))) == 0.0


def test_answers_that_never_differ_are_said_with_their_number():
    assert told()[-1] == "Greedy answers of both pools: 0 of 5 differ (120 tokens compared)."


def test_of_answers_that_differ_those_that_rounding_explains_are_counted():
    said = told(comparison=Comparison(5, 120, (parted(0.01), parted(2.0), parted(None))))[-1]
    assert said.startswith("Greedy answers of both pools: 3 of 5 differ (120 tokens compared); in 1 of these")


@pytest.mark.parametrize(
    ("lead", "expected"), [(None, False), (0.0, True), (NEAR_TIE_NATS, False), (-0.01, True), (0.049, True)]
)
def test_a_near_tie_is_a_small_lead_that_is_known(lead, expected):
    assert is_near_tie(lead) is expected


def test_two_rounds_on_both_ways_are_enough_and_three_on_one_way_are_not():
    assert too_few_comparisons(samples(BASELINE, (60.0, 60.0, 60.0)))
    assert not too_few_comparisons(both_paths(BASELINE, (60.0, 60.0)))
