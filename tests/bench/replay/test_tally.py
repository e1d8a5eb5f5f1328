"""`breakeven_bench.replay.tally`: what is counted of one policy."""

import pytest
from msgspec.structs import replace

from breakeven_bench.replay import tally as tally_module
from breakeven_bench.replay.tally import OTHERS, Forecast, Forecasts, Tally, load_word, reason_of
from breakeven_policies.agreement import Agreement
from breakeven_policies.decision import AcceptanceSource, Prediction, Refusal, Refuse, Route, Target
from breakeven_policies.pinned import Pinned
from breakeven_policies.snapshot import Health
from tests.bench.replay.journals import entry
from tests.policies.fleets import backend, fleet, pair, plain, request, speculative

TO_BASE = Pinned("baseline").decide(request(), pair())
NOBODY = Refuse(Refusal.NO_READY_BACKEND, "x")


def predicting(decision: object, own_s: float = 2.0) -> Route:
    assert isinstance(decision, Route)
    source = AcceptanceSource.TABLE
    other = Target("speculative", "spec-0")
    return replace(decision, prediction=Prediction(1, 0.02, 2.0, source, own_s, 0.5, own_s + 0.5, other, 4.0))


def test_a_policy_that_failed_has_no_decision_and_its_first_fault_is_kept() -> None:
    tally = Tally()
    tally.fail("KeyError: 1")
    tally.fail("KeyError: 2")
    assert (tally.failed, tally.first_failure, tally.total.requests) == (2, "KeyError: 1", 0)


def test_differences_are_counted_by_class_load_way_and_reason() -> None:
    tally = Tally()
    for decision in (TO_BASE, TO_BASE, NOBODY, entry().considered.decision):
        tally.add(entry(), decision)
    assert tally.results == {Agreement.OTHER_POOL: 2, Agreement.OTHER_REFUSAL: 1, Agreement.SAME: 1}
    assert tally.ways == {("speculative", "baseline"): 2, ("speculative", "none"): 1}
    assert {name: (share.requests, share.same_pool) for name, share in tally.by_class.items()} == {
        "t2/short/free": (4, 1)
    }
    assert list(tally.by_load) == ["0 to 1"]
    assert tally.reasons["pinned"] == 2
    assert tally.reasons["no_backend"] == 1
    assert (tally.regret, tally.regret_known) == (0.0, 0)


def test_regret_is_summed_where_it_is_known() -> None:
    tally = Tally()
    tally.add(entry(), predicting(TO_BASE))
    assert (tally.regret, tally.regret_known) == (1.5, 1)


def test_the_number_of_ways_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally_module, "WAYS_MAX", 1)
    tally = Tally()
    for decision in (TO_BASE, NOBODY, NOBODY, TO_BASE):
        tally.add(entry(), decision)
    assert tally.ways == {("speculative", "baseline"): 2, OTHERS: 2}


@pytest.mark.parametrize(
    "changes", [{"outcome": "cut"}, {"attempts": 2}, {"pool": "speculative"}, {"finished_s": None, "token_s": None}]
)
def test_only_what_went_where_the_prediction_says_can_tell_whether_it_was_right(changes: dict[str, object]) -> None:
    forecasts = Forecasts()
    forecasts.add(entry(policy=Pinned("baseline"), **{"token_s": 0.02, **changes}), predicting(TO_BASE))
    assert (forecasts.latency.requests, forecasts.token_time.requests) == (0, 0)
    forecasts.add(entry(), TO_BASE)
    forecasts.add(entry(), NOBODY)
    assert forecasts.latency.requests == 0


def test_predictions_are_compared_with_what_came_of_them() -> None:
    forecasts = Forecasts()
    happened = entry(policy=Pinned("baseline"), took_s=2.5, token_s=0.02, sent_s=0.5)
    forecasts.add(happened, predicting(TO_BASE, own_s=2.19))
    assert (forecasts.latency.within, forecasts.latency.bias) == ([1, 1, 1], pytest.approx(0.095))
    assert (forecasts.token_time.within, forecasts.token_time.bias) == ([0, 0, 1], -0.5)


def test_what_took_no_time_is_not_compared_and_without_any_there_is_no_bias() -> None:
    forecast = Forecast()
    forecast.add(1.0, 0.0)
    assert (forecast.requests, forecast.bias) == (0, None)


@pytest.mark.parametrize(
    ("loads", "word"), [((), "no engine ready"), ((0, 1), "0 to 1"), ((1,), "1 to 4"), ((70, 58), "64 and more")]
)
def test_load_is_a_range_of_requests_per_ready_engine(loads: tuple[int, ...], word: str) -> None:
    backends = [backend(f"b-{number}", load) for number, load in enumerate(loads)]
    assert load_word(fleet(plain(*backends), speculative(backend("down", 900, Health.DOWN)))) == word


def test_the_reason_of_a_refusal_is_its_word() -> None:
    assert [reason_of(NOBODY), reason_of(TO_BASE)] == ["no_backend", "pinned"]
