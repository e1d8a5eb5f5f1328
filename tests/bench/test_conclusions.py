"""Closing lines: each follows from the runs, says the opposite when they do, and is silent without them."""

from breakeven_bench.conclusions import RateRuns, conclusions
from tests.bench.runs import GROWING, run


def told(*rates):
    return conclusions([RateRuns(rate, tuple(runs)) for rate, runs in rates], seed=1)


IDLE = (
    1.0,
    [
        run("always-speculative", 2.7),
        run("always-baseline", 5.5),
        run("least-loaded", 3.5),
        run("threshold", 2.75),
        run("two-plain", 5.2),
        run("two-speculative", 2.5),
    ],
)
BUSY = (
    5.0,
    [
        run("always-speculative", 15.0, backlog=GROWING),
        run("always-baseline", 8.0),
        run("least-loaded", 4.6),
        run("threshold", 11.0, backlog=GROWING),
        run("two-plain", 6.0),
        run("two-speculative", 4.0),
    ],
)


def test_nothing_is_said_of_arms_that_did_not_take_part():
    assert told((1.0, [run("always-baseline", 5.0)])) == ("Every arm that can be judged kept up, up to 1/s.",)


def test_figures_that_are_not_believed_are_named_and_decide_nothing():
    lines = told((1.0, [run("threshold", 2.0, doubts=["the client was late"]), run("two-speculative", 3.0)]))
    assert "at 1/s INVALID" in lines[0]
    assert lines[-1] == (
        "Not to be believed: 1 of 2 arms at 1/s; the table says why. "
        "This computer was too busy for the time scale: a lower one gives it more time."
    )
    assert not any("of 1 rates" in line for line in lines)


def test_the_threshold_rule_is_held_against_the_best_equal_hardware_arm_at_every_rate():
    assert told(IDLE, BUSY)[0] == (
        "The threshold rule against the best equal-hardware arm: at 1/s slower by 10% [10, 10] (two EAGLE-3); "
        "at 5/s unstable (two EAGLE-3)."
    )


def test_the_threshold_rule_is_held_against_sending_everything_to_the_speculative_engine():
    assert told(IDLE, BUSY)[1] == (
        "The same rule against always speculative on the same two engines: at 1/s slower by 1.9% [1.9, 1.9]; "
        "at 5/s unstable."
    )


def test_the_threshold_rule_is_held_against_least_loaded_on_its_own_engines():
    assert told(IDLE, BUSY)[2] == (
        "The same rule against least loaded on the same two engines: at 1/s faster by 21% [21, 21]; at 5/s unstable."
    )


def test_the_best_split_is_held_against_two_speculative_engines():
    assert told(IDLE, BUSY)[3] == (
        "The best use of a split pair against two EAGLE-3 engines: "
        "at 1/s slower by 8.0% [8.0, 8.0] (always speculative); at 5/s slower by 15% [15, 15] (least loaded)."
    )


def test_two_speculative_engines_that_win_everywhere_are_said_to():
    assert told(IDLE, BUSY)[4] == (
        "Two EAGLE-3 engines beat every way of splitting the pair at 2 of 2 rates; a split beat them at 0."
    )


def test_a_split_that_wins_is_said_to_as_well():
    lines = told((1.0, [run("threshold", 2.0), run("two-speculative", 3.0)]))
    assert (
        lines[2] == "Two EAGLE-3 engines beat every way of splitting the pair at 0 of 1 rates; a split beat them at 1."
    )


def test_a_split_of_which_no_use_settles_is_beaten_by_engines_that_do():
    lines = told((5.0, [run("threshold", 9.0, backlog=GROWING), run("two-speculative", 3.0)]))
    assert "at 5/s no split arm is valid and settled" in lines[1]
    assert "at 1 of 1 rates" in lines[2]


def test_two_speculative_engines_that_do_not_settle_are_no_measure():
    lines = told((5.0, [run("threshold", 3.0), run("two-speculative", 9.0, backlog=GROWING)]))
    assert "no equal-hardware arm is valid and settled" in lines[0]
    assert not any("rates; a split" in line for line in lines)


def test_a_run_too_short_to_judge_beats_nobody():
    lines = told((5.0, [run("threshold", 3.0, backlog=None), run("two-speculative", 3.0)]))
    assert not any("rates; a split" in line for line in lines)


def test_arms_that_fell_behind_are_named_with_the_rate_at_which_they_began_to():
    higher = (6.0, [run("always-speculative", 30.0, backlog=GROWING), run("least-loaded", 9.0, backlog=GROWING)])
    assert told(IDLE, BUSY, higher)[5] == (
        "These fell behind their arrivals, so that their means grow with the length of the run: "
        "always speculative at 5/s, threshold (T > 1.0) at 5/s, least loaded at 6/s."
    )


def test_arms_that_all_kept_up_are_said_to():
    assert told(IDLE)[-1] == "Every arm that can be judged kept up, up to 1/s."


def test_where_no_arm_can_be_judged_nobody_is_said_to_have_kept_up():
    lines = told((1.0, [run("threshold", 2.0, doubts=["late"]), run("two-plain", 3.0, backlog=None)]))
    assert not any("kept up" in line for line in lines)
