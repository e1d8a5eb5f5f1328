"""Worlds: what acceptance depends on in each, and that nothing leaves the range of probabilities."""

import pytest

from breakeven_bench.fleet_model.worlds import (
    ACCEPTANCE_MAX,
    ACCEPTANCE_MIN,
    DRIFT_DEPTH,
    DRIFT_REQUESTS,
    FLAT,
    WORLDS,
    scattered,
    tokens_per_step,
)


def test_a_request_of_bad_or_good_luck_keeps_an_acceptance_that_is_a_probability():
    assert scattered(0.1, -10.0) == ACCEPTANCE_MIN
    assert scattered(0.9, 10.0) == ACCEPTANCE_MAX
    assert scattered(0.5, 1.0) == pytest.approx(0.54)


def test_acceptance_falls_with_temperature_where_it_is_said_to():
    for name in ("falls", "long", "drifts"):
        assert WORLDS[name].acceptance(0.0, "code", 0) > WORLDS[name].acceptance(1.5, "code", 0)


def test_in_a_flat_world_nothing_matters_and_in_that_of_domains_only_the_text():
    assert WORLDS["flat"].acceptance(0.0, "code", 0) == WORLDS["flat"].acceptance(1.5, "creative", 7) == FLAT
    domain = WORLDS["domain"].acceptance
    assert domain(0.0, "code", 0) == domain(1.5, "code", 9) > domain(0.0, "creative", 0)
    assert domain(0.0, "trace", 0) == FLAT


def test_a_drift_is_worst_half_way_and_every_judged_part_sees_all_of_it():
    drifts = WORLDS["drifts"].acceptance
    best = drifts(0.5, "code", 0)
    assert drifts(0.5, "code", DRIFT_REQUESTS // 2) == pytest.approx(best * (1.0 - DRIFT_DEPTH))
    assert drifts(0.5, "code", DRIFT_REQUESTS) == pytest.approx(best)


def test_tokens_per_step_lie_between_one_and_all():
    assert tokens_per_step(0.0, 5) == 1.0
    assert 1.0 < tokens_per_step(0.7, 3) < 4.0
