"""Times are compared within rounds, and a word about them needs every round on one side."""

import pytest

from breakeven_bench.real_curve.result import BASELINE, DIRECT, GREEDY, ROUTER, Sample
from breakeven_bench.real_curve.timing import Place, Spread, Word, places, relay_cost, speed_up, tpot_ms, word
from tests.bench.real_curve.results import samples

HERE = Place(0.0, 1)


def spread(low, high, rounds=3):
    return Spread((low + high) / 2, low, high, rounds, rounds)


def test_a_cell_that_was_not_measured_has_no_figure():
    measured = samples(BASELINE, (60.0,))
    assert tpot_ms(measured, GREEDY, ROUTER, HERE) is None
    assert tpot_ms(measured, BASELINE, DIRECT, HERE) is None
    assert tpot_ms(measured, BASELINE, ROUTER, Place(0.0, 4)) is None
    assert tpot_ms(measured, BASELINE, ROUTER, Place(1.0, 1)) is None
    assert speed_up(measured, GREEDY, ROUTER, HERE) is None
    assert relay_cost(measured, BASELINE, HERE) is None


def test_a_round_without_a_single_time_does_not_count():
    empty = Sample(BASELINE, ROUTER, 0.0, 1, 1, ())
    assert tpot_ms([*samples(BASELINE, (60.0,)), empty], BASELINE, ROUTER, HERE) == Spread(60.0, 60.0, 60.0, 1, 1)


def test_the_figure_of_a_cell_is_the_median_of_its_rounds_medians():
    rounds = ((10.0, 20.0, 90.0), (30.0,), (40.0, 60.0))
    measured = [Sample(BASELINE, ROUTER, 0.0, 1, number, times) for number, times in enumerate(rounds)]
    assert tpot_ms(measured, BASELINE, ROUTER, HERE) == Spread(median=30.0, low=20.0, high=50.0, rounds=3, n=6)


def test_noise_that_a_whole_round_shares_cancels_in_the_ratio():
    measured = [*samples(BASELINE, (60.0, 120.0, 30.0)), *samples(GREEDY, (40.0, 80.0, 20.0))]
    assert speed_up(measured, GREEDY, ROUTER, HERE) == Spread(1.5, 1.5, 1.5, 3, 3)


def test_only_rounds_that_both_have_are_compared():
    measured = [*samples(BASELINE, (60.0, 60.0)), *samples(GREEDY, (30.0,))]
    assert speed_up(measured, GREEDY, ROUTER, HERE) == Spread(2.0, 2.0, 2.0, 1, 1)


def test_what_the_router_costs_is_the_ratio_to_the_direct_way():
    measured = [*samples(BASELINE, (63.0, 60.0)), *samples(BASELINE, (60.0, 60.0), path=DIRECT)]
    cost = relay_cost(measured, BASELINE, HERE)
    assert cost is not None
    assert (cost.low, cost.median, cost.high) == pytest.approx((1.0, 1.025, 1.05))


@pytest.mark.parametrize(
    ("speed_ups", "expected"),
    [
        ([], Word.OPEN),
        ([None], Word.OPEN),
        ([spread(1.1, 1.5)], Word.OPEN),
        ([spread(1.1, 1.5, rounds=2), spread(1.1, 1.5, rounds=1)], Word.OPEN),
        ([spread(1.1, 1.5, rounds=2), spread(1.1, 1.5, rounds=2)], Word.PAYS),
        ([spread(0.9, 1.5, rounds=4)], Word.OPEN),
        ([spread(1.1, 1.5), spread(0.99, 1.2)], Word.OPEN),
        ([spread(1.0, 1.5, rounds=4)], Word.OPEN),
        ([spread(0.5, 1.0, rounds=4)], Word.OPEN),
        ([spread(1.1, 1.5), spread(1.01, 1.2)], Word.PAYS),
        ([spread(1.1, 1.5, rounds=4), None], Word.PAYS),
        ([spread(0.5, 0.9), spread(0.6, 0.99)], Word.COSTS),
    ],
)
def test_a_word_needs_enough_comparisons_and_all_of_them_on_one_side(speed_ups, expected):
    assert word(*speed_ups) is expected


def test_places_come_by_temperature_and_then_by_concurrency():
    measured = [
        *samples(BASELINE, (1.0,), temperature=1.0),
        *samples(BASELINE, (1.0,), concurrency=16),
        *samples(GREEDY, (1.0,), concurrency=4),
        *samples(BASELINE, (1.0,), concurrency=4),
    ]
    assert places(measured) == (Place(0.0, 4), Place(0.0, 16), Place(1.0, 1))
