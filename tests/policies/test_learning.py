"""What finished requests and scrapes teach: from whatever a router sees, to what policies look up."""

import pytest

from breakeven_policies.curve import KNOTS, RIDGE_TOKENS, Curve
from breakeven_policies.decision import AcceptanceSource
from breakeven_policies.learning import PREFILL_FACTOR_MAX, Learning, Observed, PoolFacts, PoolPrior
from breakeven_policies.snapshot import EngineSignals, PoolKind
from breakeven_policies.workload import CLASSES_MAX, OTHER

GREEDY = "t0/short/free"
FACTS = {"base": PoolFacts(PoolKind.PLAIN, slots=64), "spec": PoolFacts(PoolKind.SPECULATIVE, 5)}
STEPS = Curve(tuple(0.02 + 0.0002 * knot for knot in KNOTS))


def stream(pool: str, now_s: float, **changes: object) -> Observed:
    """A stream of 101 steps of 20 ms in a batch of 4."""
    fields = {"batch": 4.0, "events": 101, "decode_s": 2.0, "ttft_s": 0.1} | changes
    return Observed(pool, str(fields.pop("workload", GREEDY)), now_s, **fields)


def taught(pool: str, count: int = 40, facts: dict[str, PoolFacts] | None = None, **changes: object) -> Learning:
    learning = Learning(FACTS if facts is None else facts)
    for number in range(count):
        learning.observe(stream(pool, float(number), **changes))
    return learning


def test_before_the_first_observation_nothing_is_known_of_a_pool() -> None:
    learned = Learning(FACTS).view()
    assert (learned.pools, learned.lengths, learned.length, learned.table) == ({}, {}, None, None)


def test_a_request_of_a_pool_that_is_not_configured_teaches_nothing() -> None:
    assert taught("gone").view().pools == {}
    learning = Learning(FACTS)
    learning.scraped("gone", EngineSignals(running=1), EngineSignals(running=1, engine_steps=50), 1.0, 1.0)
    assert learning.view().pools == {}


@pytest.mark.parametrize(
    "changes",
    [{"decode_s": None}, {"decode_s": 0.0}, {"events": 3, "completion_tokens": 3}, {"batch": None}, {"events": None}],
)
def test_what_nobody_saw_teaches_no_step_time(changes: dict[str, object]) -> None:
    assert taught("base", **changes).view().pools == {}


def test_the_events_of_a_stream_are_its_steps() -> None:
    profile = taught("spec").view().pools["spec"]
    assert profile.step_s[4] == pytest.approx(0.02)
    assert profile.known
    assert profile.overall is None  # tokens were counted by nobody


def test_tokens_per_event_are_the_acceptance_of_its_class() -> None:
    profile = taught("spec", completion_tokens=251).view().pools["spec"]
    assert profile.acceptance[GREEDY].length == pytest.approx(2.5)
    assert profile.acceptance[GREEDY].source is AcceptanceSource.TIMING
    assert profile.token_s[4] == pytest.approx(0.008)
    assert profile.visits[GREEDY] > 39


def test_the_engines_own_figure_comes_first() -> None:
    profile = taught("spec", completion_tokens=251, acceptance_length=3.0).view().pools["spec"]
    assert profile.acceptance[GREEDY].length == pytest.approx(3.0)
    assert profile.acceptance[GREEDY].source is AcceptanceSource.REQUESTS
    for counts in ({"events": None, "completion_tokens": 300}, {"events": None}):
        known = taught("spec", facts={"spec": PoolFacts(PoolKind.SPECULATIVE, 5, prior=PoolPrior(STEPS))},
                       acceptance_length=3.0, decode_s=None, **counts)  # fmt: skip
        assert known.view().pools["spec"].acceptance[GREEDY].length == pytest.approx(3.0)


def test_without_events_time_per_token_against_the_step_time_tells_acceptance() -> None:
    facts = {"spec": PoolFacts(PoolKind.SPECULATIVE, 5, prior=PoolPrior(STEPS))}
    token_s = STEPS.at(4) / 2.5
    learning = taught("spec", facts=facts, events=None, completion_tokens=201, decode_s=200 * token_s)
    found = learning.view().pools["spec"].acceptance[GREEDY]
    assert found.length == pytest.approx(2.5, rel=0.01)
    assert (
        taught("spec", events=None, completion_tokens=201).view().pools == {}
    )  # against no step time it tells nothing


def test_of_a_plain_pool_time_per_token_is_the_step_time() -> None:
    profile = taught("base", events=None, completion_tokens=101).view().pools["base"]
    assert profile.step_s[4] == pytest.approx(0.02)
    assert (profile.overall.length, profile.acceptance, profile.slots) == (1.0, {}, 64)


def test_lengths_are_counted_else_told_by_events() -> None:
    assert taught("base").view().length == pytest.approx(101.0)
    assert taught("spec").view().length is None  # how many tokens a step made is unknown
    learning = taught("spec", completion_tokens=251)
    learning.observe(stream("spec", 50.0, events=201, decode_s=4.0))
    assert learning.view().lengths[GREEDY] > 251.0


def test_an_answer_that_was_broken_off_tells_its_speed_and_not_its_length() -> None:
    learned = taught("base", whole=False).view()
    assert learned.pools["base"].known
    assert learned.length is None


def test_prompts_tell_prefill_and_tokens_per_byte() -> None:
    learning = Learning(FACTS)
    for number in range(100):
        tokens = 100 + 2000 * (number % 2)
        learning.observe(stream("base", float(number), prompt_tokens=tokens, prompt_bytes=4 * tokens,
                                ttft_s=0.05 + 0.0002 * tokens))  # fmt: skip
    learned = learning.view()
    assert learned.pools["base"].prefill_s == pytest.approx(0.0002)
    assert (learned.tokens_per_byte, learned.prompt_length) == (0.25, pytest.approx(1100, rel=0.05))


def prompts(token_s: float, batch: float, prior: PoolPrior | None = None) -> float:
    """What is believed of prefill after a hundred prompts of two lengths, at steps of 20 ms."""
    learning = Learning({"base": PoolFacts(PoolKind.PLAIN, slots=64, prior=prior)})
    for number in range(100):
        tokens = 100 + 2000 * (number % 2)
        learning.observe(
            stream("base", float(number), batch=batch, prompt_tokens=tokens, ttft_s=0.05 + token_s * tokens)
        )
    return learning.view().pools["base"].prefill_s


def test_who_waited_for_a_slot_tells_nothing_of_prefill() -> None:
    """Simulated: where requests queue, what they waited looks like a prefill twenty times as long."""
    assert prompts(0.0002, batch=60.0) != pytest.approx(0.0002)
    assert prompts(0.0002, batch=30.0) == pytest.approx(0.0002)


def test_what_is_learned_of_prefill_stays_near_what_a_table_or_nature_says() -> None:
    steps_s = prompts(0.019, batch=1.0)
    assert steps_s == pytest.approx(PREFILL_FACTOR_MAX * 0.02 / RIDGE_TOKENS)
    measured = PoolPrior(STEPS, prefill_s=0.0004)
    assert prompts(0.019, 4.0, measured) == pytest.approx(PREFILL_FACTOR_MAX * 0.0004)
    assert prompts(0.00001, 4.0, measured) == pytest.approx(0.0004 / PREFILL_FACTOR_MAX)


def scraped(before: EngineSignals, after: EngineSignals, pool: str = "spec", seconds: float = 1.0) -> Learning:
    learning = Learning(FACTS)
    for number in range(100):
        learning.scraped(pool, before, after, seconds, float(number))
    return learning


BUSY = EngineSignals(running=4.0, engine_steps=100.0, drafts=400.0, accepted_tokens=600.0)


def test_counters_tell_step_time_and_acceptance_without_a_look_at_any_body() -> None:
    after = EngineSignals(running=4.0, engine_steps=150.0, drafts=600.0, accepted_tokens=900.0)
    profile = scraped(BUSY, after).view().pools["spec"]
    assert profile.step_s[4] == pytest.approx(0.02)
    assert profile.overall.length == pytest.approx(2.5)
    assert profile.overall.source is AcceptanceSource.COUNTERS
    assert profile.observations == pytest.approx(25.0, rel=0.05)


@pytest.mark.parametrize(
    ("before", "after", "seconds"),
    [
        (BUSY, EngineSignals(running=0.0, engine_steps=150.0), 1.0),
        (EngineSignals(running=0.0, engine_steps=1.0), EngineSignals(running=4.0, engine_steps=50.0), 1.0),
        (BUSY, EngineSignals(engine_steps=150.0), 1.0),
        (BUSY, EngineSignals(running=4.0, engine_steps=150.0, drafts=600.0), 0.0),
        (BUSY, EngineSignals(running=4.0, engine_steps=102.0, drafts=402.0, accepted_tokens=601.0), 1.0),
        (BUSY, EngineSignals(running=4.0, engine_steps=50.0), 1.0),
        (BUSY, EngineSignals(running=4.0, engine_steps=150.0, drafts=10.0), 1.0),
        (BUSY, EngineSignals(running=4.0), 1.0),
    ],
)
def test_idle_engines_restarts_and_missing_counters_teach_nothing(
    before: EngineSignals, after: EngineSignals, seconds: float
) -> None:
    assert scraped(before, after, seconds=seconds).view().pools == {}


def test_a_plain_engine_has_no_acceptance_whatever_its_counters_say() -> None:
    after = EngineSignals(running=4.0, engine_steps=150.0, drafts=600.0, accepted_tokens=900.0)
    assert scraped(BUSY, after, "base").view().pools["base"].overall.source is AcceptanceSource.PLAIN


def test_slots_are_seen_where_requests_wait_unless_somebody_said() -> None:
    before = EngineSignals(running=32.0, waiting=5.0, engine_steps=100.0)
    after = EngineSignals(running=32.0, waiting=5.0, engine_steps=150.0)
    assert scraped(before, after).view().pools["spec"].slots == 32
    assert scraped(before, after, "base").view().pools["base"].slots == 64


def test_a_table_is_where_learning_begins() -> None:
    prior = PoolPrior(STEPS, {"t0": 3.0}, 2.5, 0.0004)
    learned = Learning({"spec": PoolFacts(PoolKind.SPECULATIVE, 5, prior=prior)}, "abc").view()
    profile = learned.pools["spec"]
    assert (profile.measured, profile.known, profile.observations, learned.table) == (True, True, 0.0, "abc")
    assert profile.step_s[4] == pytest.approx(STEPS.at(4))
    assert (profile.acceptance["t0"].length, profile.overall.length, profile.prefill_s) == (3.0, 2.5, 0.0004)


def test_a_view_is_the_same_object_until_something_changed_and_a_while_has_passed() -> None:
    learning = Learning(FACTS)
    learning.observe(stream("base", 10.0))
    first = learning.view()
    assert learning.view() is first
    learning.observe(stream("spec", 10.1))
    assert learning.view() is first
    learning.observe(stream("spec", 10.7))
    second = learning.view()
    assert second.pools.keys() == {"base", "spec"}
    learning.observe(stream("spec", 11.4))
    assert learning.view().pools["base"] is second.pools["base"]  # nothing has changed there
    assert first.pools.keys() == {"base"}


def test_another_configuration_keeps_what_was_learned_of_pools_that_stay_as_they_were() -> None:
    learning = taught("base")
    learning.observe(stream("spec", 41.0))
    learning.view()
    learning.reconfigure({"base": FACTS["base"], "spec": PoolFacts(PoolKind.SPECULATIVE, 3)}, "abc")
    assert learning.view().pools.keys() == {"base"}
    assert learning.view().pools["base"].known
    assert learning.view().table == "abc"


def test_more_classes_than_there_can_be_are_counted_as_one() -> None:
    learning = Learning(FACTS)
    for number in range(CLASSES_MAX + 10):
        learning.observe(stream("base", float(number), workload=f"t0/{number}"))
    assert len(learning.view().lengths) == CLASSES_MAX + 1
    assert OTHER in learning.view().lengths


def test_of_pools_that_changed_one_is_taken_up_at_a_time() -> None:
    learning = Learning(FACTS)
    for number in range(30):
        for pool in FACTS:
            learning.observe(stream(pool, float(number)))
    first = learning.view()
    assert first.pools.keys() == FACTS.keys()
    for pool in FACTS:
        learning.observe(stream(pool, 40.0, decode_s=3.0))
    second = learning.view()
    assert sum(second.pools[pool] is not first.pools[pool] for pool in FACTS) == 1
    learning.observe(stream("gone", 41.0))
    learning.observe(stream("base", 41.0))
    third = learning.view()
    assert all(third.pools[pool] is not first.pools[pool] for pool in FACTS)
