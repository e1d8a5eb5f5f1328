"""Types of command-line arguments."""

import argparse

import pytest

from breakeven_bench.arguments import arms, base_url, count, port, positive, rates


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


@pytest.mark.parametrize("text", ["-1", "65536", "99999", "x"])
def test_what_is_no_port_is_refused(text):
    with pytest.raises((argparse.ArgumentTypeError, ValueError)):
        port(text)


def test_ports_are_read_up_to_the_last_one():
    assert (port("0"), port("65535")) == (0, 65535)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8000", "try http://127.0.0.1:8000"),
        ("ftp://x", "begins with http"),
        ("http://", "with a host"),
        ("http://:8000/v1", "with a host"),
        ("", "URL"),
    ],
)
def test_what_is_no_address_of_an_api_is_refused_with_a_hint(text, expected):
    with pytest.raises(argparse.ArgumentTypeError, match=expected):
        base_url(text)


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_an_address_may_end_in_v1(end):
    assert base_url(f"https://host:8000{end}") == "https://host:8000"
