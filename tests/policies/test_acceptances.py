"""Acceptance by class, from whoever tells it."""

import random

import pytest

from breakeven_policies.acceptances import Acceptances
from breakeven_policies.curve import FLAT, KNOTS, Curve
from breakeven_policies.decision import AcceptanceSource

REQUESTS, TIMING, COUNTERS, TABLE = (
    AcceptanceSource.REQUESTS,
    AcceptanceSource.TIMING,
    AcceptanceSource.COUNTERS,
    AcceptanceSource.TABLE,
)
GREEDY = "t0/short/free"


def taught(accepts: Acceptances, count: int, length: float, workload: str = GREEDY) -> Acceptances:
    chance = random.Random(1)  # noqa: S311  # seeded
    for number in range(count):
        accepts.observe(workload, length * (0.9 + 0.2 * chance.random()), 100.0, 4.0, TIMING, float(number))
    return accepts


def test_without_table_and_observation_an_acceptance_is_unknown() -> None:
    nothing = Acceptances(5, {}, None)
    assert (nothing.of(GREEDY), nothing.overall(), nothing.by_class()) == (None, None, {})


def test_a_class_is_known_by_its_requests_and_the_more_of_them_the_better() -> None:
    few, many = (taught(Acceptances(5, {}, None), count, 3.0).of(GREEDY) for count in (5, 150))
    assert few is not None
    assert many is not None
    assert many.length == pytest.approx(3.0, rel=0.02)
    assert many.lower == pytest.approx(many.length, rel=0.04)
    assert few.lower < few.length * 0.97
    assert (few.observations, few.source) == (pytest.approx(5.0, rel=0.01), TIMING)


def test_thin_data_promise_little_and_never_less_than_one_token() -> None:
    accepts = Acceptances(5, {}, None)
    accepts.observe(GREEDY, 1.02, 100.0, None, REQUESTS, 0.0)
    found = accepts.of(GREEDY)
    assert found is not None
    assert found.lower == 1.0
    assert found.source is REQUESTS


def test_a_class_that_was_never_seen_is_as_its_band_and_that_as_all_others() -> None:
    accepts = taught(Acceptances(5, {}, None), 50, 3.0)
    same_band, other_band = accepts.of("t0/long/free"), accepts.of("t4/short/free")
    assert same_band == accepts.by_class()["t0"]
    assert other_band == accepts.overall()


def test_a_short_answer_tells_nothing() -> None:
    accepts = Acceptances(5, {}, None)
    accepts.observe(GREEDY, 3.0, 7.0, 4.0, REQUESTS, 0.0)
    assert accepts.overall() is None


def test_no_engine_makes_more_tokens_per_step_than_it_drafts_and_one() -> None:
    accepts = taught(Acceptances(3, {}, None), 50, 9.0)
    found = accepts.of(GREEDY)
    assert found is not None
    assert found.length == pytest.approx(4.0)
    assert taught(Acceptances(0, {}, None), 50, 9.0).of(GREEDY).length > 8.0  # k is unknown


def test_counters_tell_of_all_requests_what_no_request_tells() -> None:
    accepts = Acceptances(5, {}, None)
    for number in range(30):
        accepts.counted(2.5, 8.0, float(number))
    found = accepts.of("t2/short/free")
    assert found is not None
    assert (found.length, found.source) == (pytest.approx(2.5), COUNTERS)
    taught(accepts, 100, 3.5)
    assert accepts.of(GREEDY).source is TIMING
    assert accepts.of(GREEDY).length == pytest.approx(3.5, rel=0.05)


def test_a_table_is_where_its_classes_begin_and_is_corrected() -> None:
    accepts = Acceptances(5, {"t0": 2.0, "t2/code": 4.0}, 2.2)
    assert (accepts.of(GREEDY).length, accepts.of(GREEDY).source) == (2.0, TABLE)
    assert accepts.of("t2/code").length == 4.0
    assert accepts.of("t4/short/free").length == 2.2
    assert accepts.by_class().keys() == {"t0", "t2/code"}
    taught(accepts, 150, 3.0)
    assert accepts.of(GREEDY).length == pytest.approx(3.0, rel=0.06)


def test_acceptance_that_drifts_is_followed() -> None:
    accepts = taught(taught(Acceptances(5, {}, None), 300, 3.0), 400, 2.0)
    assert accepts.of(GREEDY).length == pytest.approx(2.0, rel=0.05)


def test_an_engine_that_drafts_as_much_in_any_batch_is_seen_to_do_so() -> None:
    accepts = Acceptances(5, {}, None)
    chance = random.Random(1)  # noqa: S311  # seeded
    for number in range(400):
        length = 3.0 * (0.8 + 0.4 * chance.random())
        accepts.observe(GREEDY, length, 100.0, 1 + 60 * chance.random(), TIMING, float(number))
        accepts.settle()
    assert accepts.draft_share() is FLAT


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_engine_that_drafts_less_in_a_larger_batch_is_seen_to_do_so(dynamic: bool) -> None:
    accepts = Acceptances(5, {}, None, dynamic=dynamic)
    chance = random.Random(1)  # noqa: S311  # seeded
    for number in range(1500):
        batch = 1 + 60 * chance.random()
        left = 1.0 if batch < 24 else 0.4
        accepts.observe(GREEDY, 1 + 2.5 * left, 100.0, batch, TIMING, number / 10)
        accepts.settle()
    share = accepts.draft_share()
    assert share.at(2) == pytest.approx(1.0, abs=0.05)
    assert share.at(50) == pytest.approx(0.4, abs=0.15)
    assert share.at(1000) == pytest.approx(
        share.at(64)
    )  # where nothing was seen there is no more than where something was
    assert accepts.of(GREEDY).length == pytest.approx(3.5, rel=0.15)


def test_where_nearly_nothing_is_drafted_a_request_tells_nothing_of_acceptance() -> None:
    none_left = Curve(tuple(1.0 if knot < 32 else 0.1 for knot in KNOTS))
    accepts = Acceptances(5, {"t0": 3.0}, 3.0, none_left)
    accepts.observe(GREEDY, 1.2, 100.0, 64.0, TIMING, 0.0)
    accepts.counted(1.2, 64.0, 0.0)
    assert accepts.of(GREEDY).source is TABLE
    accepts.observe(GREEDY, 3.0, 100.0, 2.0, TIMING, 0.0)
    accepts.counted(3.0, 2.0, 0.0)
    assert accepts.of(GREEDY).source is TIMING


def test_a_share_that_a_table_knows_is_where_it_begins() -> None:
    half = Curve(tuple(1.0 if knot < 32 else 0.5 for knot in KNOTS))
    accepts = Acceptances(5, {}, 3.0, half, dynamic=True)
    accepts.settle()
    assert accepts.draft_share().at(64) == 0.5


def test_an_engine_of_which_nothing_is_accepted_leaves_no_share_to_divide_by() -> None:
    accepts = Acceptances(5, {}, 2.0, Curve((0.0,) * len(KNOTS)))
    accepts.settle()
    assert accepts.draft_share() is FLAT
    accepts = taught(Acceptances(5, {}, None), 30, 1.0)
    accepts.settle()
    assert accepts.draft_share() is FLAT
