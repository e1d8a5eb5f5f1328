"""Verdicts: a figure only where both arms are sound, and a difference only where the interval has one."""

from dataclasses import replace

import pytest

from breakeven_bench.stats import Backlog, Estimate
from breakeven_bench.verdict import Verdict, Word, best_equal_hardware, compare, fastest_sound, verdicts
from tests.bench.runs import GROWING, run


def test_an_arm_that_is_not_believed_is_invalid_whatever_else_it_is():
    broken = run("threshold", 2.0, backlog=GROWING, doubts=["9% of engine steps late", "more"])
    verdict = compare(broken, run("two-plain", 4.0), 1)
    assert (verdict.word, verdict.difference) == (Word.INVALID, None)
    assert verdict.text == "INVALID: 9% of engine steps late; more"


def test_an_arm_that_did_not_settle_gets_no_difference():
    verdict = compare(run("threshold", 9.0, backlog=GROWING), run("two-plain", 4.0), 1)
    assert (verdict.word, verdict.difference) == (Word.UNSTABLE, None)
    assert verdict.text == "unstable: 10 to 20 in flight"


@pytest.mark.parametrize("short", [run("threshold", 2.0, backlog=None), run("threshold", 2.0, count=0)])
def test_an_arm_with_too_few_answers_is_not_judged(short):
    verdict = compare(short, run("two-plain", 4.0), 1)
    assert verdict.word is Word.UNKNOWN
    assert "too few to tell" in verdict.text


def test_nothing_is_compared_against_an_arm_that_did_not_settle():
    verdict = compare(run("threshold", 2.0), run("two-plain", 4.0, backlog=GROWING), 1)
    assert (verdict.word, verdict.reference) == (Word.UNKNOWN, "two-plain")
    assert verdict.text == "not comparable: two plain is unstable"


def test_arms_without_requests_in_common_are_not_comparable():
    ours, theirs = run("threshold", 2.0), run("two-plain", 4.0)
    shifted = replace(
        ours.summary, latencies_s={index + 50: value for index, value in ours.summary.latencies_s.items()}
    )
    verdict = compare(replace(ours, summary=shifted), theirs, 1)
    assert verdict.text == "not comparable: only 10 requests in common"


def test_a_longer_mean_on_the_same_requests_is_slower_with_its_interval():
    verdict = compare(run("threshold", 5.0), run("two-plain", 4.0), 1)
    assert (verdict.word, verdict.reference) == (Word.SLOWER, "two-plain")
    assert verdict.text == "slower by 25% [25, 25]"


def test_a_shorter_mean_is_faster_and_its_interval_stays_positive():
    verdict = compare(run("threshold", 3.0), run("two-plain", 4.0), 1)
    assert verdict.text == "faster by 25% [25, 25]"


def test_an_interval_that_includes_zero_is_no_difference():
    ours = run("threshold", 4.0)
    wobbling = {index: latency * (1.1 if index % 2 else 0.9) for index, latency in ours.summary.latencies_s.items()}
    verdict = compare(replace(ours, summary=replace(ours.summary, latencies_s=wobbling)), run("two-plain", 4.0), 1)
    assert verdict.word is Word.NO_DIFFERENCE
    low, high = verdict.bounds
    assert low is not None
    assert high is not None
    assert low < 0.0 < high


def test_the_words_of_an_interval_around_zero_show_both_signs():
    assert Verdict(Word.NO_DIFFERENCE, Estimate(0.004, -0.021, 0.03, 60)).text == "no difference [-2.1, +3.0]%"


def test_an_interval_that_touches_zero_is_no_difference():
    same = run("threshold", 4.0)
    assert compare(same, same, 1).word is Word.NO_DIFFERENCE


def test_a_verdict_without_a_difference_has_no_bounds():
    assert Verdict(Word.REFERENCE).bounds == (None, None)
    assert Verdict(Word.REFERENCE).text == "reference"


def test_the_best_equal_hardware_arm_is_the_fastest_sound_one_that_does_not_split():
    runs = [
        run("threshold", 1.0),
        run("two-plain", 4.0),
        run("two-speculative", 3.0),
    ]
    best = best_equal_hardware(runs)
    assert best is not None
    assert best.arm.name == "two-speculative"


@pytest.mark.parametrize("flaw", [{"backlog": GROWING}, {"doubts": ["late"]}, {"backlog": None}])
def test_an_arm_that_is_not_sound_is_no_reference(flaw):
    best = best_equal_hardware([run("two-plain", 4.0), run("two-speculative", 3.0, **flaw)])
    assert best is not None
    assert best.arm.name == "two-plain"


def test_every_arm_is_judged_against_the_best_and_the_best_is_the_reference():
    runs = [run("threshold", 3.3), run("always-baseline", 9.0, backlog=GROWING), run("two-speculative", 3.0)]
    assert {name: verdict.word for name, verdict in verdicts(runs, 1).items()} == {
        "threshold": Word.SLOWER,
        "always-baseline": Word.UNSTABLE,
        "two-speculative": Word.REFERENCE,
    }


def test_without_a_sound_reference_each_arm_says_what_it_can():
    runs = [run("threshold", 3.3), run("two-plain", 9.0, backlog=GROWING)]
    assert {name: verdict.text for name, verdict in verdicts(runs, 1).items()} == {
        "threshold": "not comparable: no equal-hardware arm is valid and settled",
        "two-plain": "unstable: 10 to 20 in flight",
    }


def test_a_backlog_is_told_in_requests():
    grown = run("threshold", 9.0, backlog=Backlog(27.6, 44.2, 30.0))
    assert compare(grown, grown, 1).because == "28 to 44 in flight"


@pytest.mark.parametrize(
    ("word", "low", "high", "expected"),
    [
        (Word.SLOWER, 0.05, None, "slower by 10% [5.0, ?]"),
        (Word.FASTER, None, -0.05, "faster by 10% [5.0, ?]"),
        (Word.NO_DIFFERENCE, None, 0.2, "no difference [?, +20]%"),
    ],
)
def test_a_bound_that_is_not_known_is_a_question_mark_and_never_zero(word, low, high, expected):
    value = -0.1 if word is Word.FASTER else 0.1
    assert Verdict(word, Estimate(value, low, high, 60)).text == expected


def test_a_run_whose_mean_is_not_known_is_never_the_fastest():
    unknown = run("threshold", 2.0)
    unknown = replace(unknown, summary=replace(unknown.summary, latency_mean_s=None))
    slow = run("two-plain", 9.0)
    assert fastest_sound([unknown, slow]) is slow
    assert fastest_sound([unknown]) is None
