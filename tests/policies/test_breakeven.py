"""The adaptive policy: what it wants where, why, and what it says of it."""

import pytest
from msgspec.structs import replace

from breakeven_policies.breakeven import EXPIRY_S, Breakeven, build, least_loaded
from breakeven_policies.cost import Objective
from breakeven_policies.curve import FLAT
from breakeven_policies.decision import AcceptanceSource, Reason, Refuse, Route
from breakeven_policies.learned import Learned
from breakeven_policies.learning import Learning, PoolFacts, PoolPrior
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolKind
from tests.policies.fleets import backend, fleet, learned_of, pair, plain, request, speculative


def test_without_table_and_observations_the_static_rule_decides_and_says_so() -> None:
    decision = Breakeven().decide(request(1.2), pair())
    assert isinstance(decision, Route)
    assert (decision.ranking[0].pool, decision.reason) == ("baseline", Reason.UNMEASURED)


def measured(**tables: str | None) -> FleetSnapshot:
    """The pair, with measured tables for its pools, of these hashes."""
    facts = {}
    for pool, kind, tokens in (("baseline", PoolKind.PLAIN, 0), ("speculative", PoolKind.SPECULATIVE, 5)):
        prior = PoolPrior(FLAT, {}, 3.0 if tokens else None, table=tables[pool])
        facts[pool] = PoolFacts(kind, tokens, prior=prior)
    return replace(pair(), learned=Learning(facts).view(), now_s=0.0)


@pytest.mark.parametrize(
    ("baseline", "spec", "named"),
    [("a", "a", "a"), ("b", "a", "a+b"), (None, "a", "a"), ("b", None, "b"), (None, None, None)],
)
def test_a_decision_names_the_tables_that_its_choice_and_the_runner_up_began_with(
    baseline: str | None, spec: str | None, named: str | None
) -> None:
    decision = Breakeven(explores=False).decide(request(0.0), measured(baseline=baseline, speculative=spec))
    assert isinstance(decision, Route)
    assert (decision.ranking[0].pool, decision.prediction.table) == ("speculative", named)


def test_where_there_is_no_other_pool_only_its_own_table_is_named() -> None:
    both = measured(baseline="b", speculative="a")
    alone = replace(both, pools=both.pools[1:])
    assert Breakeven(explores=False).decide(request(0.0), alone).prediction.table == "a"


KNOWN = learned_of({"p": 20.0, "s": 28.0})
"""A plain pool of 20 ms a step and a speculative one of 28, both at a batch of 8, where that one makes 3.5 tokens."""

STEADY = 0.999
"""A ticket that explores nothing."""


def on(base: int = 0, spec: int = 0, learned: Learned | None = KNOWN, **changes: object) -> FleetSnapshot:
    """Both pools with so many requests of ours on their only engine."""
    pools = (plain(backend("p-0", base), name="p"), speculative(backend("s-0", spec), name="s"))
    return replace(fleet(*pools), learned=learned, **changes)


def routed(seen: object, state: FleetSnapshot, policy: Breakeven | None = None) -> Route:
    decision = (policy or Breakeven()).decide(seen, state)
    assert isinstance(decision, Route)
    return decision


def test_what_samples_nothing_goes_to_the_least_loaded_of_all() -> None:
    decision = routed(request(sampled=False), on(base=1))
    assert (decision.ranking[0].backend, decision.reason) == ("s-0", Reason.NOT_SAMPLED)


def test_an_idle_fleet_speculates_and_a_full_speculative_pool_does_not() -> None:
    idle, full = routed(request(0.0, ticket=STEADY), on()), routed(request(0.0, ticket=STEADY), on(base=2, spec=40))
    assert (idle.ranking[0].pool, idle.reason) == ("s", Reason.COST)
    assert (full.ranking[0].pool, full.reason) == ("p", Reason.COST)


def test_where_acceptance_is_low_the_speculative_pool_is_full_sooner() -> None:
    borders = []
    for temperature in (0.0, 1.5):
        wanted = [routed(request(temperature, ticket=STEADY), on(4, spec)).ranking[0].pool for spec in range(60)]
        borders.append(wanted.index("p"))
    assert borders[1] < borders[0]


def test_a_prediction_says_what_is_expected_of_the_choice_and_of_the_runner_up() -> None:
    predicted = routed(request(0.0, ticket=STEADY), on(spec=7)).prediction
    assert predicted is not None
    assert predicted.batch == 7
    assert predicted.step_time_s == pytest.approx(0.028, rel=0.05)
    assert predicted.acceptance_length == pytest.approx(3.5, rel=0.1)
    assert predicted.acceptance_source is AcceptanceSource.TIMING
    assert predicted.own_s + predicted.harm_s == pytest.approx(predicted.total)
    assert (predicted.runner_up.pool, predicted.runner_up_total > predicted.total) == ("p", True)


def test_a_short_limit_on_the_answer_counts_less_than_its_usual_length() -> None:
    short, usual = (routed(request(0.0, ticket=STEADY, max_output_tokens=most), on()) for most in (5, None))
    assert short.prediction.total < usual.prediction.total / 10


def test_prompts_that_wait_in_an_engine_cost_their_time() -> None:
    waiting = EngineSignals(running=0.0, waiting=3.0)
    pool = plain(BackendView("p-0", signals=waiting, scraped_at_s=99.5), name="p")
    costs = Breakeven().weigh(request(0.0), FleetSnapshot(100.0, (pool,), KNOWN))
    assert costs[0].terms.queue_s > 0.0


def test_costs_that_differ_by_less_than_their_error_are_settled_by_the_ticket() -> None:
    twins = learned_of({"p": 20.0, "p2": 20.0})
    state = replace(fleet(plain(backend("a"), name="p"), plain(backend("b"), name="p2")), learned=twins)
    decisions = [routed(request(0.0, ticket=0.5 + number / 100), state) for number in range(50)]
    assert {decision.reason for decision in decisions} == {Reason.COST_TIED}
    assert {decision.ranking[0].pool for decision in decisions} == {"p", "p2"}


def test_old_signals_widen_what_counts_as_equal() -> None:
    close = learned_of({"p": 20.0, "p2": 20.8}, seen=400)
    reasons = []
    for age_s in (0.5, 8.0):
        views = [
            plain(BackendView(f"{name}-0", signals=EngineSignals(running=0.0), scraped_at_s=100.0 - age_s), name=name)
            for name in ("p", "p2")
        ]
        reasons.append(routed(request(0.0, ticket=STEADY), replace(fleet(*views), learned=close)).reason)
    assert reasons == [Reason.COST, Reason.COST_TIED]


def share_exploring(state: FleetSnapshot, policy: Breakeven | None = None, temperature: float = 0.0) -> float:
    decisions = [routed(request(temperature, ticket=number / 1000), state, policy) for number in range(1000)]
    return sum(decision.reason is Reason.EXPLORATION for decision in decisions) / 1000


def test_one_request_in_five_looks_around_while_a_pool_was_seen_too_seldom() -> None:
    assert share_exploring(on(learned=learned_of({"s": 28.0}))) == 0.2
    assert share_exploring(on(learned=Learned(100.0))) == 0.2


def test_one_request_in_fifty_at_most_does_when_all_is_known() -> None:
    assert 0.0 < share_exploring(on(spec=40, base=16)) <= 0.02


def test_a_policy_that_must_not_explore_does_not() -> None:
    assert share_exploring(on(learned=Learned(100.0)), Breakeven(explores=False)) == 0.0


def test_nothing_is_explored_that_costs_many_times_the_best_or_is_much_fuller_while_costs_are_unknown() -> None:
    drowned = [routed(request(0.0, ticket=number / 1000), on(spec=500)) for number in range(20)]
    assert {decision.ranking[0].pool for decision in drowned} == {"p"}
    unknown = [
        routed(request(0.0, ticket=number / 1000), on(spec=500, learned=Learned(100.0))) for number in range(200)
    ]
    assert not any(each.reason is Reason.EXPLORATION and each.ranking[0].pool == "s" for each in unknown)


def test_while_one_pool_is_unknown_the_static_rule_decides() -> None:
    half = learned_of({"s": 28.0})
    decision = routed(request(1.5, ticket=STEADY), on(learned=half))
    assert (decision.ranking[0].pool, decision.reason, decision.prediction) == ("p", Reason.UNMEASURED, None)


def test_what_was_learned_long_ago_is_no_fact_any_more() -> None:
    late = on(now_s=100.0 + EXPIRY_S + 1.0)
    assert routed(request(0.0, ticket=STEADY), late).reason is Reason.UNMEASURED


def test_a_measured_table_decides_from_the_first_request_on_however_late_that_comes() -> None:
    late = replace(measured(baseline="b", speculative="s"), now_s=1e6)
    assert routed(request(0.0, ticket=STEADY), late).reason is Reason.COST


def test_a_plain_step_is_known_and_acceptance_without_any_figure_is_not() -> None:
    facts = {
        "p": PoolFacts(PoolKind.PLAIN, prior=PoolPrior(FLAT)),
        "s": PoolFacts(PoolKind.SPECULATIVE, 5, prior=PoolPrior(FLAT)),
    }
    state = on(learned=Learning(facts).view())
    assert [cost.total is None for cost in Breakeven().weigh(request(0.0), state)] == [False, True]


@pytest.mark.parametrize(
    ("state", "seen", "reason"),
    [
        (on(), request(0.7, min_p=0.1), Reason.CAPABILITY),
        (replace(on(), pools=on().pools[:1]), request(0.0), Reason.COST),
        (replace(on(learned=None), pools=on().pools[:1]), request(0.0), Reason.NO_SUCH_POOL),
        (replace(on(learned=Learned(1.0)), pools=on().pools[:1]), request(0.0), Reason.UNMEASURED),
    ],
)
def test_where_only_one_pool_can_take_it_the_reason_is_what_stops_the_others(
    state: FleetSnapshot, seen: object, reason: Reason
) -> None:
    decision = routed(seen, state)
    assert (decision.ranking[0].pool, decision.reason) == ("p", reason)


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (backend("s-0", health=Health.DOWN), Reason.HEALTH),
        (backend("s-0", 3, in_flight_max=3), Reason.CAPACITY),
        (backend("s-0", models=frozenset({"other"})), Reason.MODEL),
    ],
)
def test_an_engine_that_cannot_take_it_is_told_of_in_the_words_of_all_policies(
    view: BackendView, reason: Reason
) -> None:
    state = replace(fleet(plain(backend("p-0"), name="p"), speculative(view, name="s")), learned=KNOWN)
    assert routed(request(0.0), state).reason is reason


def test_where_nobody_can_take_it_the_refusal_is_that_of_all_policies() -> None:
    state = replace(fleet(plain(backend("p-0", health=Health.DOWN), name="p")), learned=KNOWN)
    decision = Breakeven().decide(request(0.0), state)
    assert isinstance(decision, Refuse)
    assert decision.retryable


def test_a_ranking_goes_from_the_chosen_pool_to_the_best_of_the_others() -> None:
    pools = (
        plain(*[backend(f"p-{n}", n) for n in range(4)], name="p"),
        speculative(*[backend(f"s-{n}", n) for n in range(4)], name="s"),
    )
    state = replace(fleet(*pools), learned=KNOWN)
    assert [target.backend for target in routed(request(0.0, ticket=STEADY), state).ranking] == ["s-0", "s-1", "p-0"]
    alone = replace(state, pools=state.pools[:1])
    assert [target.backend for target in routed(request(0.0), alone).ranking] == ["p-0", "p-1", "p-2"]


@pytest.mark.parametrize(
    ("own", "at_scrape", "running", "replicas", "load"),
    [
        (3, 0, None, 1.0, 3.0),
        (3, 1, 10.0, 1.0, 12.0),
        (3, 1, 10.0, 4.0, 18.0),
        (3, 2, 8.0, 0.0, 12.0),
        (3, 0, 8.0, 0.0, 11.0),
        (4, 2, 200.0, 0.0, 232.0),
        (9, 9, 2.0, 1.0, 9.0),
    ],
)
def test_the_load_is_what_was_scraped_and_what_all_replicas_have_sent_since(
    own: int, at_scrape: int, running: float | None, replicas: float, load: float
) -> None:
    signals = None if running is None else EngineSignals(running=running)
    view = BackendView("b", in_flight=own, signals=signals, in_flight_at_scrape=at_scrape)
    assert least_loaded(plain(view), request(), replicas) == ([view], [load])


def test_throughput_spares_the_others_and_goodput_the_targets() -> None:
    """Speculation makes this request faster and costs the seven others more: what they lose decides."""
    state = on(base=9, spec=9)
    seen = request(0.0, ticket=STEADY)
    totals = {}
    for objective in Objective:
        policy = build(str(objective), 1.0)
        assert isinstance(policy, Breakeven)
        totals[objective] = [cost.total for cost in policy.weigh(seen, state)]
        assert policy.name == f"breakeven:{objective}"
    latency, goodput, throughput = (
        totals[each] for each in (Objective.LATENCY, Objective.GOODPUT, Objective.THROUGHPUT)
    )
    assert latency[0] > latency[1]
    assert throughput[0] < throughput[1]
    assert goodput[0] < 1.0


def test_a_pool_that_misses_its_target_loses_where_goodput_counts() -> None:
    policy = build("goodput:2:0.015", 1.0)
    assert isinstance(policy, Breakeven)
    plain_cost, speculative_cost = (cost.total for cost in policy.weigh(request(0.0, ticket=STEADY), on()))
    assert plain_cost > 0.9
    assert speculative_cost < 0.5


@pytest.mark.parametrize(
    "argument", ["", "speed", "goodput:1", "goodput:1:0", "goodput:a:b", "latency:1:nan", "goodput:1:2:3"]
)
def test_an_argument_that_is_no_objective_is_refused_with_those_that_are(argument: str) -> None:
    with pytest.raises(ValueError, match="latency, goodput, throughput"):
        build(argument, 1.0)


def test_it_says_that_somebody_has_to_learn_for_it() -> None:
    assert build(None, 0.8) == Breakeven(0.8)
    assert Breakeven().learns


def test_of_many_backends_the_three_emptiest_are_found_in_any_order() -> None:
    views = [backend(f"b{load}", load) for load in (5, 3, 4, 1, 2)]
    found, loads = least_loaded(plain(*views), request(), 1.0)
    assert ([view.name for view in found], loads) == (["b1", "b2", "b3"], [1.0, 2.0, 3.0])


def test_equally_loaded_backends_are_drawn_by_lot_in_whatever_order_they_come() -> None:
    first, second = backend("a"), backend("b")
    drawn = []
    for number in range(200):
        seen = request(ticket=number / 200)
        (found, _), (turned, _) = (
            least_loaded(plain(*views), seen, 1.0) for views in ((first, second), (second, first))
        )
        assert found == turned
        drawn.append(found[0].name)
    assert 80 < drawn.count("a") < 120
