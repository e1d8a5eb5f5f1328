"""What learning begins with where a table speaks of a pool."""

import pytest

from breakeven_policies.curve import KNOTS
from breakeven_policies.measured import short_hash
from breakeven_policies.measurement import measurement_of
from breakeven_policies.table_prior import prior_of
from breakeven_policies.workload import BANDS
from tests.policies.tables import table

PLAIN = {"setup": "plain", "workload": "*", "running": 1, "step_time_ms": {"mean": 1}}
BY_BATCH = {"setups__1__speculative_tokens_per_batch_size": [[1, 8, 3], [9, 64, 0]]}


def cell(running, length=None, **fields):
    made = {"setup": "k3", "workload": "*", "running": running, "step_time_ms": {"mean": 20 + running}, **fields}
    return made if length is None else made | {"acceptance_length": {"mean": length}}


def prior(*cells, setup=1, **changes):
    made = table(cells=[PLAIN, *cells], **changes)
    return prior_of(measurement_of(made, made.setups[setup]))


def test_a_table_without_step_times_is_no_beginning():
    assert prior(cell(1, 2.0, step_time_ms=...) | {"step_time_ms": None}) is None


def test_a_plain_pool_has_steps_and_prefill_and_accepts_nothing():
    found = prior_of(measurement_of(table(), table().setups[0]))
    assert found.step_s.at(1) == 0.02
    assert found.step_s.at(8) == pytest.approx(0.027)
    assert found.prefill_s == pytest.approx(0.00025)
    assert found.table == short_hash(table())
    assert (found.acceptance_lengths, found.acceptance_length, found.draft_share) == ({}, None, None)


def test_bands_are_read_at_the_temperature_that_stands_for_them():
    found = prior(cell(1, 3.0, temperature=0), cell(1, 2.0, temperature=1), cell(1, 1.0, temperature=1.5))
    assert found.acceptance_lengths == pytest.approx({"t0": 3.0, "t1": 2.7, "t2": 2.3, "t3": 2.0, "t4": 1.4})
    assert found.acceptance_length == pytest.approx(2.0)


def test_classes_keep_their_name_and_names_stand_in_every_band():
    found = prior(cell(1, 3.0, workload="t3/short/free"), cell(1, 2.0, workload="code"))
    assert found.acceptance_lengths == {"t3/short/free": 3.0, **{f"{band}/code": 2.0 for band in BANDS}}


def test_acceptance_is_that_of_the_smallest_batch():
    assert prior(cell(4, 3.0), cell(64, 2.0)).acceptance_lengths["t0"] == 3.0


def test_a_table_that_says_nothing_of_acceptance_leaves_it_unknown():
    assert prior(cell(1)).acceptance_length is None


def test_where_k_follows_the_batch_the_share_that_is_left_is_known_by_batch():
    share = prior(cell(8, 3.0), cell(16, 1.0), **BY_BATCH).draft_share
    assert (share.at(1), share.at(8), share.at(12), share.at(64)) == (1.0, 1.0, 0.5, 0.0)
    assert len(share.values) == len(KNOTS)


@pytest.mark.parametrize(
    "cells", [[cell(8, 3.0)], [cell(8, 1.0), cell(16, 1.0)], [cell(8, 3.0, workload="code"), cell(9, 2, workload="x")]]
)
def test_one_batch_or_nothing_accepted_says_nothing_of_a_share(cells):
    assert prior(*cells, **BY_BATCH).draft_share is None
