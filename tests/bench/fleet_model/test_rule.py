"""The cost with everything known: its terms by hand, and what it would do at the ends of load."""

import pytest

from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, KindName, engine_kind
from breakeven_bench.fleet_model.rule import Means, TrueCost, curve_of, means_of, requests_there
from breakeven_bench.fleet_model.worlds import tokens_per_step
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, PoolKind, PoolView
from tests.bench.fleet_model.fleets import arrival, engine

MEANS = Means(200.0, 300.0, (0.5, 0.7))


def rule(harm=True, replicas=1):
    kinds = [engine_kind(KindName.PLAIN), engine_kind(KindName.K5)]
    engines = [engine(KindName.PLAIN), engine(KindName.K5)]
    return TrueCost(tuple(curve_of(kind, MEANS) for kind in kinds), engines, MEANS, replicas, harm, "told")


def fleet(plain, speculative):
    return FleetSnapshot(
        0.0,
        (
            PoolView("plain", PoolKind.PLAIN, (BackendView("plain-0", in_flight=plain),)),
            PoolView("spec", PoolKind.SPECULATIVE, (BackendView("spec-0", in_flight=speculative),)),
        ),
    )


def chosen(plain, speculative, acceptance=0.7, **how):
    return rule(**how).decide(arrival(acceptance=acceptance), fleet(plain, speculative)).ranking[0].pool


def test_an_idle_fleet_speculates_and_a_drowned_speculative_engine_is_passed_over():
    assert chosen(0, 0) == "spec"
    assert chosen(0, 60) == "plain"
    assert chosen(2 * SEQUENCES_MAX, 60) == "spec"


def test_who_thinks_of_himself_alone_stays_longer_on_the_speculative_engine():
    border = next(batch for batch in range(SEQUENCES_MAX) if chosen(10, batch) == "plain")
    assert chosen(10, border, harm=False) == "spec"


def test_low_acceptance_leaves_first():
    border = next(batch for batch in range(SEQUENCES_MAX) if chosen(0, batch, acceptance=0.3) == "plain")
    assert chosen(0, border, acceptance=0.9) == "spec"


def test_the_cost_is_that_of_the_design_term_by_term():
    curve = curve_of(engine_kind(KindName.K3), MEANS)
    cost = rule()._cost(arrival(prompt_tokens=50, output_tokens=100), BackendView("b", in_flight=10), curve, 500)
    s = engine_kind(KindName.K3)
    length = sum(tokens_per_step(acceptance, 3) for acceptance in (0.5, 0.7)) / 2
    t10, t11 = (s.decode_step_s(batch, 300.0 * batch) / length for batch in (10, 11))
    tau = s.decode_step_s(11, 3300.0) / tokens_per_step(0.7, 3)
    t = curve.prompt_token_s
    expected = 500 * t + 50 * t * 11 + 100 * tau * (1.0 + 10 * (1.0 - t10 / t11))
    assert cost == pytest.approx(expected)


def test_a_full_engine_costs_the_wait_for_a_slot():
    curve = curve_of(engine_kind(KindName.PLAIN), MEANS)
    full, beyond = (
        rule()._cost(arrival(), BackendView("b", in_flight=number), curve, 0)
        for number in (SEQUENCES_MAX - 1, SEQUENCES_MAX + 9)
    )
    assert beyond - full == pytest.approx(10 * 200.0 * curve.full_token_s / SEQUENCES_MAX)


def test_harm_is_never_below_zero_where_drafts_become_fewer():
    assert min(curve_of(engine_kind(KindName.DYNAMIC), MEANS).harm) >= 0.0


def test_long_answers_weigh_more_in_the_mean_context():
    means = means_of(
        [arrival(0, prompt_tokens=100, output_tokens=100), arrival(1, prompt_tokens=100, output_tokens=900)]
    )
    assert means.output_tokens == 500.0
    assert means.context_tokens == pytest.approx(0.1 * 150 + 0.9 * 550)


def test_without_a_page_our_own_requests_stand_for_all_replicas_and_with_one_for_what_was_sent_since():
    assert requests_there(BackendView("b", in_flight=3), 4) == 12.0
    view = BackendView("b", in_flight=3, signals=EngineSignals(running=10.0, waiting=2.0), in_flight_at_scrape=2)
    assert requests_there(view, 4) == 16.0
    assert requests_there(BackendView("b", in_flight=30, signals=view.signals, in_flight_at_scrape=30), 1) == 30.0
