"""Fleets: what is compared, with the same number of engines."""

import pytest

from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, KindName
from breakeven_bench.fleet_model.pairs import PAIRS, slots, unsplit
from breakeven_policies.snapshot import PoolKind


def test_the_rule_by_temperature_has_two_sides_on_the_plain_and_speculative_pairs_only():
    assert [name for name, pair in PAIRS.items() if pair.splits_plain_and_speculative] == [
        "plain-k5",
        "plain-k3",
        "plain-dynamic",
    ]


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_every_fleet_is_judged_at_eight_rising_rates_and_has_an_unsplit_equal(pair):
    assert len(pair.rates) == 8
    assert list(pair.rates) == sorted(pair.rates)
    equal = unsplit(KindName.PLAIN, pair.engines)
    assert slots(equal) == slots(pair.pools) == SEQUENCES_MAX * pair.engines
    assert equal[0].pool_kind is PoolKind.PLAIN
    assert equal[0].engine_kind().draft_tokens == 0
