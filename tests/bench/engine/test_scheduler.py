"""The scheduler: laws over random loads, and each rule at the head of its file by itself."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven_bench.engine.scheduler import BLOCK_TOKENS, Limits, Phase, Scheduler, Sequence
from breakeven_bench.engine.speculation import Method, Speculation
from breakeven_policies.prior import expected_acceptance_length
from tests.bench.engine.engines import chance

PLAIN = Speculation()
K5 = Speculation(Method.EAGLE3, 5)
ROOMY = Limits(sequences_max=64, tokens_per_step_max=2048, kv_blocks=10_000)
STEP_S = 0.02


def constant_step(tokens, kv_tokens, drafts, sequences):
    return STEP_S


def sequence(prompt=10, output=5, acceptance=0.5, seed=1, queued_s=0.0, **fields):
    return Sequence(prompt, output, acceptance, chance(seed), queued_s, **fields)


def scheduler(*sequences, limits=ROOMY, speculation=PLAIN, step_time=constant_step):
    made = Scheduler(limits, speculation, step_time)
    for one in sequences:
        made.add(one)
    return made


def run(made, steps=10_000, now_s=0.0):
    """Run to the end; returns (step, emissions) of every step."""
    history = []
    while (step := made.plan(now_s)) is not None:
        now_s += step.duration_s
        history.append((step, made.complete(step, now_s)))
        assert len(history) < steps, "the scheduler does not come to an end"
    return history


def emitted(history, one):
    return [emission for _, emissions in history for emission in emissions if emission.sequence is one]


# Laws


@dataclass
class Load:
    """A random engine and what is done to it: when sequences arrive, and which are aborted when."""

    limits: Limits
    speculation: Speculation
    arrivals: dict[int, list[Sequence]] = field(default_factory=dict)
    aborts: dict[int, list[Sequence]] = field(default_factory=dict)

    @property
    def sequences(self):
        return [one for arriving in self.arrivals.values() for one in arriving]


@st.composite
def loads(draw, *, with_aborts=True):
    speculation = draw(st.sampled_from([PLAIN, K5, Speculation(Method.NGRAM, 3)]))
    longest = 60 + 40 + speculation.draft_tokens + BLOCK_TOKENS
    slots = draw(st.integers(1, 6))
    limits = Limits(
        sequences_max=slots,
        tokens_per_step_max=draw(st.integers(slots, 80)),
        kv_blocks=draw(st.integers(-(-longest // BLOCK_TOKENS), 40)),
    )
    load = Load(limits, speculation)
    for seed in range(draw(st.integers(1, 12))):
        one = sequence(
            prompt=draw(st.integers(1, 60)),
            output=draw(st.integers(1, 40)),
            acceptance=draw(st.sampled_from([0.05, 0.5, 0.9])),
            seed=seed,
            coverage=draw(st.sampled_from([1.0, 0.3])),
        )
        load.arrivals.setdefault(draw(st.integers(0, 20)), []).append(one)
        if with_aborts and draw(st.booleans()):
            load.aborts.setdefault(draw(st.integers(0, 40)), []).append(one)
    return load


def play(load):
    """Run a load step by step; aborts strike between planning and completing, where they are hardest."""
    made = scheduler(limits=load.limits, speculation=load.speculation)
    history = []
    arrived = set()
    for turn in range(20_000):
        for one in load.arrivals.get(turn, []):
            made.add(one)
            arrived.add(one)
        step = made.plan(turn * STEP_S)
        assert 0.0 <= made.kv_usage <= 1.0
        for one in load.aborts.get(turn, []):
            if one in arrived:
                made.abort(one)
        if step is None:
            if turn > 41:
                return made, history
            continue
        history.append((step, made.complete(step, (turn + 1) * STEP_S)))
    raise AssertionError("the load does not come to an end")


@pytest.mark.slow
@given(loads())
@settings(max_examples=150)
def test_no_step_exceeds_the_budget_the_slots_or_the_kv_cache(load):
    made, history = play(load)
    for step, _ in history:
        assert 0 < step.tokens <= load.limits.tokens_per_step_max
        assert step.tokens == sum(tokens for _, tokens in step.work)
        assert all(tokens > 0 for _, tokens in step.work)
        assert len(step.work) <= load.limits.sequences_max
        assert len({one for one, _ in step.work}) == len(step.work)
    assert made.kv_usage == 0.0


@pytest.mark.slow
@given(loads(with_aborts=False))
@settings(max_examples=150)
def test_no_sequence_is_lost_and_each_gets_exactly_its_tokens_in_order_and_one_end(load):
    made, history = play(load)
    assert (made.running, made.waiting) == (0, 0)
    for one in load.sequences:
        emissions = emitted(history, one)
        assert sum(emission.tokens for emission in emissions) == one.output_tokens == one.generated_tokens
        assert [emission.finished for emission in emissions] == [False] * (len(emissions) - 1) + [True]
        assert [emission.since_last_s is None for emission in emissions] == [True] + [False] * (len(emissions) - 1)
        assert one.phase is Phase.FINISHED


@pytest.mark.slow
@given(loads())
@settings(max_examples=100)
def test_an_aborted_sequence_ends_and_emits_nothing_more(load):
    made, history = play(load)
    assert (made.running, made.waiting) == (0, 0)
    for one in load.sequences:
        assert one.phase is Phase.FINISHED
        assert sum(emission.tokens for emission in emitted(history, one)) == one.generated_tokens <= one.output_tokens


@pytest.mark.slow
@given(loads(with_aborts=False))
@settings(max_examples=100)
def test_what_a_step_emits_is_what_its_drafts_allow(load):
    _, history = play(load)
    for _, emissions in history:
        for emission in emissions:
            assert 0 <= emission.accepted <= emission.drafted <= load.speculation.draft_tokens
            assert 1 <= emission.tokens <= emission.accepted + 1
            assert emission.finished or emission.tokens == emission.accepted + 1


@pytest.mark.slow
@given(loads(with_aborts=False))
@settings(max_examples=100)
def test_the_counts_of_a_sequence_are_those_of_its_emissions(load):
    _, history = play(load)
    for one in load.sequences:
        verified = [emission for emission in emitted(history, one) if emission.drafted]
        assert sum(one.accepted_counts) == len(verified)
        assert one.drafted_tokens == sum(emission.drafted for emission in verified)
        accepted = sum(count * times for count, times in enumerate(one.accepted_counts))
        assert accepted == sum(emission.accepted for emission in verified)


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 40)), min_size=1, max_size=8), st.integers(0, 2**32))
def test_the_luck_of_a_sequence_does_not_depend_on_its_company(shapes, seed):
    together = [sequence(*shape, seed=seed + index) for index, shape in enumerate(shapes)]
    run(scheduler(*together, speculation=K5))
    for index, (shape, in_company) in enumerate(zip(shapes, together, strict=True)):
        alone = sequence(*shape, seed=seed + index)
        run(scheduler(alone, speculation=K5))
        assert alone.accepted_counts == in_company.accepted_counts


# Rules


def test_an_idle_scheduler_has_no_step():
    assert scheduler().plan(0.0) is None


def test_aborting_what_has_finished_says_so_and_changes_nothing():
    one = sequence(output=1)
    made = scheduler(one)
    run(made)
    assert made.abort(one) is False
    assert made.kv_usage == 0.0


def test_a_sequence_aborted_while_waiting_never_runs():
    first, second = sequence(output=50), sequence()
    made = scheduler(first, second, limits=Limits(1, 100, 100))
    made.plan(0.0)
    assert made.abort(second) is True
    assert made.waiting == 0
    assert second.scheduled_s is None


def test_a_sequence_aborted_in_the_middle_of_its_step_frees_its_blocks_at_once():
    one = sequence(prompt=40)
    made = scheduler(one)
    step = made.plan(0.0)
    assert made.kv_usage > 0.0
    made.abort(one)
    assert made.kv_usage == 0.0
    assert made.complete(step, 1.0) == []


def test_the_step_that_finishes_the_prompt_emits_the_first_token_and_each_later_one_emits_one():
    one = sequence(prompt=10, output=4)
    history = run(scheduler(one))
    assert [step.tokens for step, _ in history] == [10, 1, 1, 1]
    assert [emission.tokens for emission in emitted(history, one)] == [1, 1, 1, 1]


def test_a_prompt_longer_than_the_budget_is_computed_in_chunks_that_emit_nothing():
    one = sequence(prompt=250, output=1)
    history = run(scheduler(one, limits=Limits(4, 100, 1000)))
    assert [(step.tokens, len(emissions)) for step, emissions in history] == [(100, 0), (100, 0), (50, 1)]


def test_a_running_sequence_goes_before_a_prompt_and_both_share_the_budget():
    running, prompt = sequence(prompt=5, output=10), sequence(prompt=200, output=1)
    made = scheduler(running, limits=Limits(4, 100, 1000))
    made.complete(made.plan(0.0), 0.1)
    made.add(prompt)
    step = made.plan(0.1)
    assert step.work == [(running, 1), (prompt, 99)]


def test_who_came_first_is_admitted_first_and_slots_are_respected():
    sequences = [sequence(output=3) for _ in range(5)]
    made = scheduler(*sequences, limits=Limits(2, 100, 1000))
    assert [one for one, _ in made.plan(0.0).work] == sequences[:2]
    assert (made.running, made.waiting) == (2, 3)


def test_a_verify_step_costs_a_token_per_draft_and_one_more():
    one = sequence(prompt=10, output=100)
    made = scheduler(one, speculation=K5)
    made.complete(made.plan(0.0), 0.1)
    assert made.plan(0.1).tokens == 6


def test_the_budget_may_cut_drafts_off():
    one, other = sequence(prompt=1, output=100), sequence(prompt=1, output=100)
    made = scheduler(one, other, limits=Limits(2, 8, 1000), speculation=K5)
    made.complete(made.plan(0.0), 0.1)
    step = made.plan(0.1)
    assert [tokens for _, tokens in step.work] == [6, 2]
    assert [emission.drafted for emission in made.complete(step, 0.2)] == [5, 1]


def test_accepted_drafts_beyond_the_end_of_the_answer_are_counted_but_not_emitted():
    one = sequence(prompt=1, output=3, acceptance=0.95, seed=3)
    history = run(scheduler(one, speculation=K5))
    last = emitted(history, one)[-1]
    assert last.accepted == 5
    assert last.tokens == 2


def test_a_sequence_without_a_draft_this_time_emits_one_token_and_counts_no_verify_step():
    one = sequence(prompt=1, output=200, coverage=0.2)
    history = run(scheduler(one, speculation=K5))
    without = [emission for emission in emitted(history, one) if not emission.drafted]
    assert all(emission.tokens == 1 for emission in without)
    assert 0 < sum(one.accepted_counts) < len(history) / 3


def test_dynamic_speculation_drafts_by_the_size_of_the_batch_before():
    speculation = Speculation(Method.EAGLE3, 5, by_batch=(0, 5, 2, 0))
    first, second = sequence(prompt=1, output=100), sequence(prompt=1, output=100)
    made = scheduler(first, speculation=speculation)
    assert made.plan(0.0).drafts_next == 5
    made = scheduler(first := sequence(prompt=1, output=100), second, speculation=speculation)
    made.complete(made.plan(0.0), 0.1)
    step = made.plan(0.1)
    assert step.drafts_next == 2
    assert [tokens for _, tokens in step.work] == [3, 3]


def test_a_sequence_waits_until_all_of_its_tokens_have_room():
    first, second = sequence(prompt=48, output=20), sequence(prompt=64, output=1)
    made = scheduler(first, second, limits=Limits(4, 2048, kv_blocks=6))
    assert [one for one, _ in made.plan(0.0).work] == [first]
    assert made.waiting == 1


def test_who_finds_no_block_takes_those_of_the_last_admitted_which_then_starts_anew_in_front():
    first, second, third = (sequence(prompt=32, output=40) for _ in range(3))
    made = scheduler(first, second, limits=Limits(4, 2048, kv_blocks=5))
    made.complete(made.plan(0.0), 0.1)
    made.add(third)
    step = made.plan(0.1)
    while not step.preempted:
        made.complete(step, 0.2)
        step = made.plan(0.2)
    assert [one for one, _ in step.work] == [first]
    assert second.phase is Phase.WAITING
    assert (second.preemptions, second.computed_tokens, second.drafts) == (1, 0, 0)
    assert made.waiting == 2
    generated = second.generated_tokens
    made.complete(step, 0.3)
    history = run(made, now_s=0.3)
    resumed = next(step for step, _ in history if second in [one for one, _ in step.work])
    assert dict(resumed.work)[second] == 32 + generated
    assert second.generated_tokens == 40
    assert second.scheduled_s == 0.0


def test_a_step_that_preempted_admits_nobody():
    sequences = [sequence(prompt=16, output=60) for _ in range(4)]
    history = run(scheduler(*sequences, limits=Limits(4, 2048, kv_blocks=8)))
    preempting = [index for index, (step, _) in enumerate(history) if step.preempted]
    assert preempting
    for index in preempting:
        before = {one for one, _ in history[index - 1][0].work}
        assert {one for one, _ in history[index][0].work} <= before


def test_what_a_sibling_has_cached_is_not_computed_again():
    one = sequence(prompt=50, output=1, cached_tokens=48)
    step = scheduler(one).plan(0.0)
    assert step.tokens == 2


def test_the_step_time_is_asked_with_the_tokens_the_context_the_drafts_and_the_sequences():
    asked = []

    def step_time(*shape):
        asked.append(shape)
        return STEP_S

    sequences = [sequence(prompt=10, output=2) for _ in range(3)]
    run(scheduler(*sequences, speculation=K5, step_time=step_time))
    assert asked[:2] == [(30, 0, 5, 3), (18, 30, 5, 3)]


def test_times_are_those_of_the_caller():
    one = sequence(prompt=10, output=3, queued_s=0.5)
    made = scheduler(one)
    step = made.plan(1.0)
    made.complete(step, 1.5)
    made.complete(made.plan(1.5), 2.5)
    last = made.complete(made.plan(2.5), 4.5)[0]
    assert (one.queued_s, one.scheduled_s, one.first_token_s, one.last_token_s) == (0.5, 1.0, 1.5, 4.5)
    assert last.since_last_s == 2.0


def test_verify_steps_are_listed_only_for_those_who_want_them():
    silent, listed = sequence(output=30), sequence(output=30, verified=[])
    run(scheduler(silent, listed, speculation=K5))
    assert silent.verified is None
    assert sum(listed.accepted_counts) == len(listed.verified)
    assert listed.drafted_tokens == sum(drafted for drafted, _ in listed.verified)


@pytest.mark.parametrize("acceptance", [0.38, 0.64, 0.81])
def test_the_mean_acceptance_length_over_many_sequences_is_the_expected_one(acceptance):
    sequences = [sequence(prompt=1, output=100, acceptance=acceptance, seed=seed) for seed in range(60)]
    run(scheduler(*sequences, speculation=K5))
    steps = sum(sum(one.accepted_counts) for one in sequences)
    accepted = sum(count * times for one in sequences for count, times in enumerate(one.accepted_counts))
    assert 1 + accepted / steps == pytest.approx(expected_acceptance_length(acceptance, 5), rel=0.04)
