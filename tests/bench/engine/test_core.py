"""The engine against a clock that the test turns: when steps end, who gets what, and what the page shows."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from breakeven_bench.engine.answers import write_book
from breakeven_bench.engine.core import CoreState, EngineCore
from breakeven_bench.engine.events import Endpoint, Envelope
from breakeven_bench.engine.families import FINISH_REASONS
from breakeven_bench.engine.faults import FaultSwitch, parse_fault
from breakeven_bench.engine.generation import Generation
from breakeven_bench.engine.hardware import NO_DRAFTER, PROFILES, step_s
from breakeven_bench.engine.intake import Intake
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.protocol import ChatRequest
from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_policies.prior import expected_acceptance_length
from tests.bench.engine.engines import EAGLE3, HI, RememberingSink, TurnedClock, chance

BOOK = write_book()
HARDWARE = PROFILES["a100-tp2-int8"]


class Bench:
    """An engine, its clock, and requests made by a few words."""

    def __init__(self, **options):
        self.clock = TurnedClock()
        self.faults = FaultSwitch()
        self.options = EngineOptions(**options)
        self.core = EngineCore(self.options, self.clock, self.faults, 0.0)
        self.intake = Intake(self.options, BOOK, chance)

    def request(self, fault=None, **fields):
        asked = {"messages": HI, "stream": True, "ignore_eos": True, "max_tokens": 5, **fields}
        order = self.intake.chat(ChatRequest.model_validate(asked), None, self.clock.time())
        sink = RememberingSink()
        envelope = Envelope(Endpoint.CHAT, "id-1", 1, "m", "f")
        made = Generation(order, envelope, sink, self.core.metrics_of, fault and parse_fault(fault))
        self.core.submit(made)
        return made, sink

    def shown(self, name, **labels):
        found = [
            sample.value
            for family in text_string_to_metric_families(self.core.page().decode())
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        (value,) = found
        return value

    def finished(self, reason):
        return self.shown("vllm:request_success_total", finished_reason=reason)


def test_a_client_that_leaves_frees_its_slot_and_what_it_had_of_its_answer_is_all_that_is_counted():
    bench = Bench()
    made, sink = bench.request(max_tokens=100)
    bench.clock.turn()
    bench.clock.turn()
    bench.core.abort(made)
    assert bench.shown("vllm:num_requests_running") == 0
    assert bench.shown("vllm:kv_cache_usage_perc") == 0
    assert bench.shown("vllm:generation_tokens_total") == 2
    assert {reason: bench.finished(reason) for reason in FINISH_REASONS} == dict.fromkeys(FINISH_REASONS, 0)
    assert bench.shown("vllm:e2e_request_latency_seconds_count") == 0
    assert bench.shown("vllm:request_params_n_count") == 0
    written = len(sink.written)
    bench.clock.run()
    assert len(sink.written) == written


def test_leaving_after_the_end_changes_nothing():
    bench = Bench()
    made, _ = bench.request()
    bench.clock.run()
    page = bench.core.page()
    bench.core.abort(made)
    assert (bench.finished("length"), bench.core.page()) == (1, page)


def test_leaving_with_several_choices_aborts_those_that_still_run():
    bench = Bench()
    made, _ = bench.request(n=3, temperature=1.0, max_tokens=50)
    bench.clock.turn()
    bench.core.abort(made)
    assert bench.shown("vllm:num_requests_running") == 0
    bench.clock.run()
    assert bench.clock.pending == 0
    assert bench.shown("vllm:generation_tokens_total") == 3


def test_a_request_of_several_choices_counts_once_when_the_last_has_ended_with_the_longest_of_them():
    bench = Bench()
    made, _ = bench.request(n=3, temperature=1.0, ignore_eos=False, max_tokens=400)
    lengths = sorted(choice.answer.tokens for choice in made.order.choices)
    assert len(set(lengths)) == 3
    for _ in range(lengths[1]):  # a plain engine gives every choice a token per step
        bench.clock.turn()
    assert (bench.shown("vllm:num_requests_running"), bench.shown("vllm:request_params_n_count")) == (1, 0)
    bench.clock.run()
    assert (bench.shown("vllm:request_params_n_count"), bench.shown("vllm:request_params_n_sum")) == (1, 3)
    assert bench.shown("vllm:request_max_num_generation_tokens_sum") == max(lengths)
    assert bench.shown("vllm:request_params_max_tokens_sum") == 3 * 400


def test_a_stream_that_breaks_off_ends_as_an_error_and_frees_its_slot():
    bench = Bench()
    _, sink = bench.request({"fault": "error_event", "after_events": 2}, max_tokens=100)
    bench.clock.run()
    assert sink.events[-1] == "[DONE]"
    assert bench.finished("error") == 1
    assert bench.shown("vllm:num_requests_running") == 0


def test_when_one_choice_breaks_the_stream_off_its_siblings_of_the_same_step_emit_nothing_more():
    bench = Bench()
    _, sink = bench.request({"fault": "die_mid_stream", "after_events": 1}, n=3, temperature=1.0, max_tokens=50)
    bench.clock.run()
    assert sink.was_cut
    assert bench.finished("error") == 3


def test_when_the_core_dies_everything_fails_at_once_and_nothing_more_is_emitted_or_counted():
    bench = Bench()
    made, stream = bench.request(max_tokens=100)
    _, whole = bench.request(stream=False, n=2, temperature=1.0, max_tokens=100)
    bench.clock.turn()
    bench.clock.turn()
    page = bench.core.page()
    assert [failed.order.stream for failed in bench.core.die()] == [True, False]
    assert bench.core.state is CoreState.DEAD
    assert stream.events[-1] == "[DONE]"
    assert stream.events[-2]["error"]["code"] == whole.status == 500
    bench.core.abort(made)
    bench.clock.run()
    assert (bench.core.page(), bench.clock.pending) == (page, 0)


def test_an_idle_core_dies_without_failing_anybody():
    assert Bench().core.die() == []


def test_a_dead_core_that_is_asked_to_end_stays_dead():
    bench = Bench()
    bench.core.die()
    bench.core.halt()
    assert bench.core.state is CoreState.DEAD


def test_a_halted_core_tells_nobody_and_does_nothing_more():
    bench = Bench()
    _, sink = bench.request(max_tokens=100)
    bench.clock.turn()
    written = list(sink.written)
    bench.core.halt()
    bench.clock.run()
    assert bench.core.state is CoreState.HALTED
    assert (sink.written, sink.ended, sink.was_cut) == (written, False, False)


def test_an_engine_at_rest_has_no_timer():
    bench = Bench()
    assert bench.clock.pending == 0
    bench.request()
    bench.clock.run()
    assert bench.clock.pending == 0


def test_an_idle_engine_begins_at_once_and_takes_the_modelled_time():
    bench = Bench()
    made, sink = bench.request(max_tokens=2)
    began_s = bench.clock.time()
    prompt = made.order.prompt_tokens
    bench.clock.turn()
    prefill_s = step_s(HARDWARE, NO_DRAFTER, prompt, 0, 0, 1)
    assert bench.clock.time() - began_s == pytest.approx(prefill_s)
    bench.clock.turn()
    decode_s = step_s(HARDWARE, NO_DRAFTER, 1, prompt, 0, 1)
    assert bench.clock.time() - began_s == pytest.approx(prefill_s + decode_s)
    assert sink.ended


@pytest.mark.parametrize("time_scale", [1.0, 10.0])
def test_times_on_the_page_are_wall_times(time_scale):
    bench = Bench(time_scale=time_scale)
    bench.request(max_tokens=1)
    began_s = bench.clock.time()
    bench.clock.run()
    elapsed_s = bench.clock.time() - began_s
    assert elapsed_s == pytest.approx(step_s(HARDWARE, NO_DRAFTER, 9, 0, 0, 1) / time_scale)
    assert bench.shown("vllm:e2e_request_latency_seconds_sum") == pytest.approx(elapsed_s)
    assert bench.shown("breakeven_sim_time_scale") == time_scale


def test_a_request_that_comes_during_a_step_joins_the_next_one():
    bench = Bench()
    bench.request(max_tokens=10)
    _, late = bench.request(max_tokens=10)
    assert (bench.shown("vllm:num_requests_running"), bench.shown("vllm:num_requests_waiting")) == (1, 1)
    bench.clock.turn()
    assert not late.written
    bench.clock.turn()
    assert len(late.written) == 1


def test_all_sequences_of_a_step_are_served_by_one_timer():
    bench = Bench()
    sinks = [bench.request(max_tokens=20)[1] for _ in range(30)]
    bench.clock.turn()
    bench.clock.turn()
    assert bench.clock.pending == 1
    assert all(len(sink.written) >= 1 for sink in sinks)


def test_slow_events_stretch_the_steps_that_begin_while_it_is_on():
    bench = Bench(time_scale=10.0)
    bench.faults.set(parse_fault({"fault": "slow_events", "gap_ms": 500}), bench.clock.time())
    bench.request(max_tokens=4)
    began_s = bench.clock.time()
    bench.clock.run()
    assert 4 * 0.5 < bench.clock.time() - began_s < 4 * 0.5 + 0.05


def test_a_client_that_reads_again_gets_what_it_missed():
    bench = Bench()
    made, sink = bench.request(max_tokens=5)
    sink.writable = False
    bench.clock.run()
    sink.writable = True
    bench.core.resume(made)
    assert sink.events[-1] == "[DONE]"


def test_a_broken_stream_found_on_resuming_is_dropped():
    bench = Bench()
    made, sink = bench.request({"fault": "die_mid_stream", "after_events": 1}, max_tokens=50)
    bench.clock.turn()
    sink.writable = False
    bench.clock.turn()
    sink.writable = True
    bench.core.resume(made)
    assert bench.finished("error") == 1


def test_the_page_counts_steps_and_late_ones():
    bench = Bench()
    bench.request(max_tokens=3)
    bench.clock.turn()
    bench.clock.now_s += 1.0
    bench.clock.run()
    assert bench.shown("breakeven_sim_steps_total") == 3
    assert bench.shown("breakeven_sim_steps_late_total") == 1
    assert bench.shown("breakeven_sim_lost_seconds_total") == pytest.approx(1.0, abs=0.03)
    assert bench.shown("breakeven_sim_events_total") == 3


def test_counters_and_per_request_metrics_tell_the_same_acceptance():
    bench = Bench(speculation=EAGLE3, speculation_detail=SpeculationDetail.SUMMARY)
    sinks = []
    for seed in range(40):
        options = {"include_usage": True}
        sinks.append(bench.request(max_tokens=150, temperature=0.7, seed=seed, stream_options=options)[1])
    bench.clock.run()
    reported = [sink.events[-2]["metrics"]["speculative_decoding"] for sink in sinks]
    drafts = sum(one["num_spec_steps"] for one in reported)
    accepted = sum(one["num_accepted_draft_tokens"] for one in reported)
    assert bench.shown("vllm:spec_decode_num_drafts_total") == drafts
    assert bench.shown("vllm:spec_decode_num_accepted_tokens_total") == accepted
    assert bench.shown("vllm:spec_decode_num_draft_tokens_total") == 5 * drafts
    assert 1 + accepted / drafts == pytest.approx(expected_acceptance_length(0.64, 5), rel=0.04)
    assert bench.shown("vllm:generation_tokens_total") == 40 * 150


def test_speculation_makes_a_single_greedy_stream_nearly_three_times_as_fast():
    def seconds(**options):
        bench = Bench(**options)
        bench.request(max_tokens=1000, temperature=0)
        began_s = bench.clock.time()
        bench.clock.run()
        return bench.clock.time() - began_s

    assert seconds() / seconds(speculation=EAGLE3) == pytest.approx(3.07, rel=0.05)


def test_two_runs_with_equal_seeds_are_equal():
    def run():
        bench = Bench(speculation=EAGLE3, seed=3)
        sinks = [bench.request(max_tokens=60, temperature=0.7, seed=seed)[1] for seed in range(10)]
        bench.clock.run()
        return bench.clock.time(), [b"".join(sink.written) for sink in sinks], bench.core.page()

    assert run() == run()


def test_an_engine_that_was_asked_for_no_metrics_reports_none():
    bench = Bench(speculation=EAGLE3)
    made, _ = bench.request()
    bench.clock.run()
    assert bench.core.metrics_of(made.sequences[0], False) is None


@pytest.mark.parametrize(("stop", "told"), [(["@@"], True), (["e", "a", "o"], False)])
def test_an_answer_that_a_stop_string_ended_says_nothing_of_its_drafts(stop, told):
    bench = Bench(speculation=EAGLE3, speculation_detail=SpeculationDetail.SUMMARY, request_timing=True)
    _, sink = bench.request(stream=False, stop=stop, max_tokens=60)
    bench.clock.run()
    metrics = sink.answered["metrics"]
    assert metrics["time_to_first_token_ms"] > 0
    assert (metrics["speculative_decoding"] is not None) is told


def test_a_step_that_nobody_began_is_an_error_of_ours():
    with pytest.raises(RuntimeError, match="nobody began"):
        Bench().core._end_step()
