"""Policies are found by the names of their modules."""

import pytest

from breakeven_policies.registry import build_policy, policy_names


def test_every_policy_of_the_package_is_found() -> None:
    assert set(policy_names()) >= {"least_loaded", "pinned", "threshold"}


def test_modules_that_are_no_policies_are_not() -> None:
    assert not {"capability", "decision", "policy", "prior", "registry"} & set(policy_names())


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown policy 'fastest'; there are: .*threshold"):
        build_policy("fastest")


def test_what_follows_the_colon_is_the_argument() -> None:
    assert build_policy("pinned:a:b").name == "pinned:a:b"
    assert build_policy("threshold", 0.8).temperature_max == 0.8
