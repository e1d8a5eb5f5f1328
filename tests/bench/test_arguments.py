"""Types of command-line arguments."""

import argparse

import pytest

from breakeven_bench.arguments import arms, count, positive, rates


@pytest.mark.parametrize("text", ["0", "-1", "inf", "nan", "x", ""])
def test_what_is_no_positive_number_is_refused(text):
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        positive(text)


@pytest.mark.parametrize("text", ["0", "-3", "1.5", "x"])
def test_what_is_no_count_is_refused(text):
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        count(text)


def test_an_unknown_arm_is_refused_by_name():
    with pytest.raises(argparse.ArgumentTypeError, match="oracle"):
        arms("threshold,oracle")


def test_numbers_are_read():
    assert (positive("2.5"), count("3")) == (2.5, 3)


def test_rates_rise_and_occur_once():
    assert rates("4,0.5,2,4") == (0.5, 2.0, 4.0)


def test_arms_are_read():
    assert [arm.name for arm in arms("two-plain,threshold")] == ["threshold", "two-plain"]
