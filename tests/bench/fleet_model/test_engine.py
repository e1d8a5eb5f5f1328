"""The engine: closed forms where there are any, and vLLM's rules where there are none."""

from collections import Counter
from math import ceil

import numpy as np
import pytest

from breakeven_bench.fleet_model.engine import JITTER_MIN, Engine, Job
from breakeven_bench.fleet_model.kinds import SEQUENCES_MAX, STEP_TOKENS_MAX, KindName, engine_kind
from breakeven_bench.fleet_model.worlds import tokens_per_step
from tests.bench.fleet_model.fleets import arrival, engine, serve


def latencies(name, output_tokens=400, acceptance=0.7, count=60):
    """Single requests one after the other on an idle engine."""
    alone = []
    for index in range(count):
        (job,) = serve(engine(name), [arrival(index, output_tokens=output_tokens, acceptance=acceptance)])
        alone.append(job.finished_s)
    return alone


@pytest.mark.slow
@pytest.mark.parametrize("name", list(KindName))
def test_a_single_request_takes_its_prefill_and_its_length_over_the_acceptance_length_in_steps(name):
    kind = engine_kind(name)
    drafts = kind.drafts_by_batch[1]
    prefill_s = kind.step_s(100, 0, drafts, 1)
    steps = 399 / tokens_per_step(0.7, drafts)
    expected = prefill_s + steps * kind.decode_step_s(1, 100 + 200)
    assert np.mean(latencies(name)) == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", [KindName.PLAIN, KindName.K3])
def test_a_full_batch_makes_slots_times_acceptance_length_tokens_per_step(name):
    kind = engine_kind(name)
    full = engine(name, kv_tokens_max=10**9)
    for index in range(SEQUENCES_MAX):
        full.add(Job(arrival(index, prompt_tokens=16, output_tokens=2000)), 0.0)
    while full.signals(full.ends_s).waiting or full._chunks:
        full.advance()
    length_s = full.ends_s - full._stretch_began_s
    before, after = (full.signals(full._stretch_began_s + share * length_s) for share in (0.1, 0.9))
    rate = (after.generation_tokens - before.generation_tokens) / (after.engine_steps - before.engine_steps)
    assert rate == pytest.approx(SEQUENCES_MAX * tokens_per_step(0.7, kind.draft_tokens), rel=0.03)


def test_a_stretch_is_the_same_as_its_steps_one_by_one():
    """Another way to the same end: the engine is interrupted at every step by somebody who changes nothing."""
    straight, stepped = engine(KindName.K3), engine(KindName.K3)
    (job,) = serve(straight, [arrival(output_tokens=300)])
    other = Job(arrival(output_tokens=300))
    stepped.add(other, 0.0)
    while stepped.load:
        stepped._stretch_steps, stepped.ends_s = 1, stepped._stretch_began_s + stepped._seconds_of(1)
        stepped.advance()
    assert other.finished_s == pytest.approx(job.finished_s)
    assert other.pulls == job.pulls


def test_every_step_reads_the_context_that_has_grown_until_then():
    kind = engine_kind(KindName.PLAIN)
    (job,) = serve(engine(KindName.PLAIN), [arrival(prompt_tokens=100, output_tokens=50)])
    steps_s = sum(kind.decode_step_s(1, 101 + step) for step in range(49))
    assert job.finished_s == pytest.approx(kind.step_s(100, 100, 0, 1) + steps_s, rel=1e-9)


def test_the_engine_counts_drafts_that_it_accepted_beyond_the_end_of_an_answer():
    lucky = Engine(engine_kind(KindName.K3), np.full(5000, 1000.0), lambda: 0.0)
    (job,) = serve(lucky, [arrival(output_tokens=11)])
    page = lucky.signals(job.finished_s)
    assert (job.pulls, page.drafts, page.accepted_tokens, page.generation_tokens) == (1 + 3, 3, 9, 11)


def test_who_comes_during_a_stretch_begins_with_the_next_step():
    busy = engine(KindName.PLAIN)
    busy.add(Job(arrival(0, output_tokens=500)), 0.0)
    busy.advance()
    step_s = busy._seconds_of(1)
    began_s = busy._stretch_began_s
    late = Job(arrival(1, output_tokens=1))
    busy.add(late, began_s + 2.5 * step_s)
    assert busy.ends_s == pytest.approx(began_s + busy._seconds_of(3))
    assert busy.advance() == []
    assert busy.advance() == [late]
    assert late.first_token_s == late.finished_s


def test_who_finds_no_slot_waits_until_one_is_free_and_interrupts_nobody():
    full = engine(KindName.PLAIN, kv_tokens_max=10**9)
    jobs = [Job(arrival(index, prompt_tokens=10, output_tokens=100)) for index in range(SEQUENCES_MAX)]
    for job in jobs:
        full.add(job, 0.0)
    while full.signals(0.0).waiting or full._chunks:
        full.advance()
    ends_s = full.ends_s
    late = Job(arrival(999, prompt_tokens=10, output_tokens=2))
    full.add(late, full._stretch_began_s + 0.01)
    assert (full.ends_s, full.running, full.load) == (ends_s, SEQUENCES_MAX, SEQUENCES_MAX + 1)
    while late.finished_s is None:
        full.advance()
    assert late.first_token_s > min(job.finished_s for job in jobs if job.finished_s is not None)


def test_a_prompt_longer_than_a_step_is_computed_in_chunks_beside_those_who_decode():
    busy = engine(KindName.PLAIN)
    first = Job(arrival(0, output_tokens=1000))
    busy.add(first, 0.0)
    busy.advance()
    long = Job(arrival(1, prompt_tokens=2 * STEP_TOKENS_MAX, output_tokens=10))
    busy.add(long, busy._stretch_began_s)
    begun = busy.signals(busy.ends_s).generation_tokens
    steps = 0
    while long.first_token_s is None:
        busy.advance()
        steps += 1
    assert steps == 4  # the running one, then two chunks of less than a step and the rest
    assert busy.signals(busy._stretch_began_s).generation_tokens == begun + 4 + 1
    assert busy.backlog_tokens == 0


def test_prompts_share_the_budget_of_a_step_in_the_order_in_which_they_came():
    idle = engine(KindName.PLAIN)
    jobs = [Job(arrival(index, prompt_tokens=STEP_TOKENS_MAX, output_tokens=1)) for index in range(3)]
    for job in jobs:
        idle.add(job, 0.0)
    assert [idle.advance() for _ in range(3)] == [[job] for job in jobs]


def test_drafts_become_fewer_when_the_batch_grows_and_every_answer_still_gets_all_its_tokens():
    dynamic = engine(KindName.DYNAMIC)
    jobs = serve(dynamic, [arrival(index, at_s=0.2 * index, output_tokens=150) for index in range(80)])
    assert len(jobs) == 80
    signals = dynamic.signals(jobs[-1].finished_s)
    assert signals.generation_tokens == 80 * 150
    assert signals.draft_tokens < 5 * signals.drafts
    assert dynamic.kv_tokens == 0


def test_steps_before_a_change_of_drafts_keep_the_tokens_that_they_made():
    lucky = Engine(engine_kind(KindName.DYNAMIC), np.full(5000, 1000.0), lambda: 0.0)
    first = Job(arrival(0, output_tokens=101))
    lucky.add(first, 0.0)
    lucky.advance()
    fifth_step_s = lucky._stretch_began_s + lucky._seconds_of(5)
    for index in range(1, 11):
        lucky.add(Job(arrival(index, output_tokens=2000)), fifth_step_s - 0.001)
    while first.finished_s is None:
        lucky.advance()
    # Five steps of six tokens alone, then steps of four tokens in a batch of eleven.
    assert first.pulls == 1 + 5 + ceil((100 - 5 * 6) / 4)


@pytest.mark.parametrize("name", list(KindName))
def test_counters_add_up_at_the_end(name):
    served = engine(name)
    jobs = serve(served, [arrival(index, at_s=0.4 * index, output_tokens=100) for index in range(30)])
    signals = served.signals(jobs[-1].finished_s)
    assert (signals.running, signals.waiting, signals.kv_usage) == (0, 0, 0)
    assert signals.prompt_tokens == 30 * 100
    assert signals.generation_tokens == 30 * 100
    assert sum(job.pulls for job in jobs) >= signals.engine_steps / 30
    if name is KindName.PLAIN:
        assert (signals.drafts, signals.accepted_tokens) == (None, None)
    elif name is not KindName.DYNAMIC:
        length = 1.0 + signals.accepted_tokens / signals.drafts
        assert length == pytest.approx(tokens_per_step(0.7, served._kind.draft_tokens), rel=0.04)
        assert signals.draft_tokens == signals.drafts * served._kind.draft_tokens


def test_a_page_read_in_the_middle_of_a_stretch_lies_between_its_ends():
    busy = engine(KindName.K5)
    for index in range(3):
        busy.add(Job(arrival(index, output_tokens=400)), 0.0)
    busy.advance()
    busy.advance()
    began_s, ends_s = busy._stretch_began_s, busy.ends_s
    pages = [busy.signals(began_s + share * (ends_s - began_s)) for share in (0.0, 0.3, 0.6, 0.999)]
    for field in ("generation_tokens", "engine_steps", "drafts", "accepted_tokens", "kv_usage"):
        values = [getattr(page, field) for page in pages]
        assert values == sorted(values)
        assert values[0] < values[-1]
    busy.advance()
    assert busy.signals(ends_s).generation_tokens >= pages[-1].generation_tokens


def test_where_the_cache_is_full_the_last_one_goes_back_and_nobody_loses_a_token():
    small = engine(KindName.K3, kv_tokens_max=2000)
    jobs = [Job(arrival(index, prompt_tokens=450, output_tokens=400)) for index in range(4)]
    for job in jobs:
        small.add(job, 0.0)
    seen = set()
    while small.load:
        assert small.kv_tokens <= 2000 + 4 * 4
        page = small.signals(small.ends_s)
        seen.add(page.preemptions)
        small.advance()
    assert small.preemptions > 0
    assert jobs[0].preemptions == 0
    assert Counter(job.finished_s is None for job in jobs) == {False: 4}
    page = small.signals(small.ends_s)
    assert page.generation_tokens == 4 * 400
    assert page.prompt_tokens > 4 * 450
    assert page.accepted_tokens > 0


def test_a_request_that_the_cache_has_no_room_for_waits():
    small = engine(KindName.PLAIN, kv_tokens_max=1000)
    first, second = Job(arrival(0, 0.0, 600, 50)), Job(arrival(1, 0.0, 600, 50))
    small.add(first, 0.0)
    small.add(second, 0.01)
    while second.finished_s is None:
        small.advance()
    assert second.first_token_s > first.finished_s


def test_a_steps_time_scatters_and_never_vanishes():
    lucky, unlucky = engine(KindName.PLAIN, lambda: -1000.0), engine(KindName.PLAIN, lambda: 1.0)
    (fast,), (slow,) = (serve(each, [arrival(output_tokens=1)]) for each in (lucky, unlucky))
    (usual,) = serve(engine(KindName.PLAIN), [arrival(output_tokens=1)])
    assert fast.finished_s == pytest.approx(JITTER_MIN * usual.finished_s)
    assert slow.finished_s == pytest.approx(1.1 * usual.finished_s)


def test_an_answer_of_unusually_few_accepted_drafts_is_drawn_to_its_end():
    unlucky = Engine(engine_kind(KindName.K5), np.zeros(5000), lambda: 0.0)
    (job,) = serve(unlucky, [arrival(output_tokens=300, acceptance=0.9)])
    assert job.pulls == 300
