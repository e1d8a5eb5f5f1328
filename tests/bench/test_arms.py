"""The table of arms."""

import pytest

from breakeven_bench.arms import ARMS, LEAST_LOADED, THRESHOLD, TWO_SPECULATIVE, arms_named
from breakeven_policies.registry import build_policy


def test_an_unknown_arm_is_refused_with_the_names_that_there_are():
    with pytest.raises(ValueError, match=r"unknown arm 'oracle'; there are: always-speculative, .*two-speculative"):
        arms_named(["threshold", "oracle"])


def test_every_arm_has_two_engines():
    assert {arm.plain + arm.speculative for arm in ARMS} == {2}


def test_four_arms_split_the_hardware_and_two_do_not():
    assert [arm.name for arm in ARMS if not arm.is_equal_hardware] == [
        "always-speculative",
        "always-baseline",
        "least-loaded",
        "threshold",
    ]
    assert [arm.name for arm in ARMS if arm.is_equal_hardware] == ["two-plain", "two-speculative"]


def test_names_and_titles_are_unique():
    assert len({arm.name for arm in ARMS}) == len({arm.title for arm in ARMS}) == len(ARMS)


@pytest.mark.parametrize("arm", ARMS, ids=lambda arm: arm.name)
def test_the_policy_of_every_arm_exists(arm):
    assert build_policy(arm.policy).name == arm.policy


def test_the_arms_that_the_conclusions_speak_of_are_in_the_table():
    assert {THRESHOLD, LEAST_LOADED, TWO_SPECULATIVE} <= set(ARMS)


def test_arms_are_given_in_the_order_of_the_table():
    assert [arm.name for arm in arms_named(["two-plain", "threshold"])] == ["threshold", "two-plain"]
