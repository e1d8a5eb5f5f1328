"""The metrics page: the same, byte for byte, as the Prometheus client's; and what each event changes on it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client import Histogram as ClientHistogram
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from breakeven_bench.engine.families import FINISH_REASONS, Kind, families
from breakeven_bench.engine.metrics import Histogram, Metrics, Recorder, go_float
from breakeven_bench.engine.scheduler import Emission, Sequence
from tests.bench.engine.engines import chance

MODEL = 'meta "70B"\\x'
CREATED_S = 1_796_026_850.66884


def sequence(**fields):
    return Sequence(100, 20, 0.5, chance(1), 10.0, **fields)


@pytest.fixture
def recorder():
    return Recorder(Metrics("m", 8192, 3, CREATED_S))


def samples(metrics):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.page().decode())
        for sample in family.samples
    }


def series(metrics, name, **labels):
    return samples(metrics)[(name, *sorted({"engine": "0", "model_name": "m", **labels}.items()))]


def client_page(observations):
    """The page that vLLM's own library prints for the same table and observations."""
    registry = CollectorRegistry()
    made = {}
    for family in families(8192, 3):
        labels = [] if family.own else ["model_name", "engine", *([family.label] if family.label else [])]
        kinds = {Kind.COUNTER: Counter, Kind.GAUGE: Gauge, Kind.HISTOGRAM: ClientHistogram}
        more = {"buckets": family.buckets} if family.kind is Kind.HISTOGRAM else {}
        metric = kinds[family.kind](family.name, family.text, labels, registry=registry, **more)
        for position, value in enumerate(family.values):
            child = metric if family.own else metric.labels(MODEL, "0", *([value] if family.label else []))
            made[family.name, position] = child
            if family.kind is not Kind.GAUGE:
                child._created = CREATED_S
    for name, position, amount in observations:
        child = made[name, position]
        getattr(child, "observe" if isinstance(child, ClientHistogram) else "inc")(amount)
    return generate_latest(registry).decode()


def own_page(observations):
    metrics = Metrics(MODEL, 8192, 3, CREATED_S)
    kinds = {family.name: family.kind for family in families(8192, 3)}
    for name, position, amount in observations:
        if kinds[name] is Kind.HISTOGRAM:
            metrics.observe(name, amount)
        else:
            metrics.add(name, amount, position)
    return metrics.page().decode()


SOME_OBSERVATIONS = [
    ("vllm:spec_decode_num_accepted_tokens_per_pos", 2, 7),
    ("vllm:generation_tokens", 0, 123_456_789),
    ("vllm:request_success", 1, 3),
    ("vllm:kv_cache_usage_perc", 0, 0.3125),
    ("vllm:time_to_first_token_seconds", 0, 0.08),
    ("vllm:time_to_first_token_seconds", 0, 5000.0),
    ("vllm:iteration_tokens_total", 0, 512),
    ("breakeven_sim_steps", 0, 5),
]


@pytest.mark.parametrize("observations", [[], SOME_OBSERVATIONS], ids=["empty", "used"])
def test_the_page_is_the_one_that_the_prometheus_client_prints(observations):
    assert own_page(observations).splitlines() == client_page(observations).splitlines()


@pytest.mark.slow
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_are_printed_as_the_prometheus_client_prints_them(value):
    assert go_float(value) == floatToGoString(value)


def test_a_value_on_a_buckets_bound_belongs_to_it():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.sum == 7.5


def test_a_step_without_output_counts_nothing_but_preemptions(recorder):
    recorder.observe_step([], 2, 11.0)
    metrics = recorder.metrics
    assert series(metrics, "vllm:num_preemptions_total") == 2
    assert series(metrics, "vllm:iteration_tokens_total_count") == 0
    assert series(metrics, "vllm:generation_tokens_total") == 0


def test_a_first_token_counts_its_prompt_and_the_time_since_arrival(recorder):
    recorder.observe_step([Emission(sequence(cached_tokens=48), 1, 0, 0, False, None)], 0, 10.5)
    metrics = recorder.metrics
    assert series(metrics, "vllm:time_to_first_token_seconds_sum") == 0.5
    assert series(metrics, "vllm:inter_token_latency_seconds_count") == 0
    assert series(metrics, "vllm:prompt_tokens_total") == 100
    assert series(metrics, "vllm:prompt_tokens_cached_total") == 48
    assert series(metrics, "vllm:prefix_cache_queries_total") == 100
    assert series(metrics, "vllm:prefix_cache_hits_total") == 48
    assert series(metrics, "vllm:prompt_tokens_by_source_total", source="local_compute") == 52
    assert series(metrics, "vllm:prompt_tokens_by_source_total", source="local_cache_hit") == 48
    assert series(metrics, "vllm:iteration_tokens_total_sum") == 53


def test_a_later_step_has_one_latency_per_sequence_however_many_tokens_it_got(recorder):
    recorder.observe_step(
        [Emission(sequence(), 4, 3, 3, False, 0.02), Emission(sequence(), 1, 3, 0, False, 0.03)], 0, 11
    )
    metrics = recorder.metrics
    assert series(metrics, "vllm:inter_token_latency_seconds_count") == 2
    assert series(metrics, "vllm:inter_token_latency_seconds_sum") == pytest.approx(0.05)
    assert series(metrics, "vllm:generation_tokens_total") == 5
    assert series(metrics, "vllm:iteration_tokens_total_count") == 1
    assert series(metrics, "vllm:prompt_tokens_total") == 0
    assert samples(metrics)["breakeven_sim_events_total",] == 2


def test_verify_steps_are_counted_whole_and_by_position(recorder):
    recorder.observe_step(
        [Emission(sequence(), 3, 3, 2, False, 0.02), Emission(sequence(), 1, 2, 0, False, 0.02)], 0, 11
    )
    metrics = recorder.metrics
    assert series(metrics, "vllm:spec_decode_num_drafts_total") == 2
    assert series(metrics, "vllm:spec_decode_num_draft_tokens_total") == 5
    assert series(metrics, "vllm:spec_decode_num_accepted_tokens_total") == 2
    by_position = [
        series(metrics, "vllm:spec_decode_num_accepted_tokens_per_pos_total", position=str(position))
        for position in range(3)
    ]
    assert by_position == [1, 1, 0]


def test_a_step_without_drafts_counts_no_verify_step(recorder):
    recorder.observe_step([Emission(sequence(), 1, 0, 0, False, 0.02)], 0, 11)
    assert series(recorder.metrics, "vllm:spec_decode_num_drafts_total") == 0


def test_a_plain_engine_exports_no_series_of_speculation():
    page = Metrics("m", 8192, None, CREATED_S).page()
    assert b"spec_decode" not in page
    assert b"vllm:num_requests_running" in page


def test_a_finished_sequence_counts_its_phases(recorder):
    done = sequence(generated_tokens=21, scheduled_s=11.0, first_token_s=12.0, last_token_s=16.0, preemptions=1)
    recorder.observe_finished(done, FINISH_REASONS.index("length"), 64, 16.5)
    sums = {
        "e2e_request_latency_seconds": 6.5,
        "request_queue_time_seconds": 1.0,
        "request_prefill_time_seconds": 1.0,
        "request_decode_time_seconds": 4.0,
        "request_inference_time_seconds": 5.0,
        "request_time_per_output_token_seconds": 0.2,
        "request_prompt_tokens": 100,
        "request_prefill_kv_computed_tokens": 100,
        "request_generation_tokens": 21,
        "request_params_max_tokens": 64,
        "request_num_preemptions": 1,
    }
    shown = {name: series(recorder.metrics, f"vllm:{name}_sum") for name in sums}
    assert shown == pytest.approx(sums)
    assert series(recorder.metrics, "vllm:request_success_total", finished_reason="length") == 1
    assert series(recorder.metrics, "vllm:request_success_total", finished_reason="stop") == 0


def test_a_sequence_aborted_in_the_queue_has_no_phases(recorder):
    recorder.observe_finished(sequence(), FINISH_REASONS.index("abort"), 64, 16.5)
    assert series(recorder.metrics, "vllm:request_success_total", finished_reason="abort") == 1
    assert series(recorder.metrics, "vllm:request_queue_time_seconds_count") == 0
    assert series(recorder.metrics, "vllm:e2e_request_latency_seconds_count") == 1


def test_a_single_token_has_no_time_per_output_token(recorder):
    done = sequence(generated_tokens=1, scheduled_s=11.0, first_token_s=12.0, last_token_s=12.0)
    recorder.observe_finished(done, 0, 64, 12.0)
    assert series(recorder.metrics, "vllm:request_time_per_output_token_seconds_sum") == 0.0


def test_a_request_counts_its_choices_and_the_longest_of_them(recorder):
    recorder.observe_request([12, 64, 3])
    assert series(recorder.metrics, "vllm:request_params_n_sum") == 3
    assert series(recorder.metrics, "vllm:request_max_num_generation_tokens_count") == 1
    assert series(recorder.metrics, "vllm:request_max_num_generation_tokens_sum") == 64


def test_the_present_state_is_shown_and_waiting_is_for_capacity(recorder):
    recorder.observe_state(5, 2, 0.25)
    metrics = recorder.metrics
    assert series(metrics, "vllm:num_requests_running") == 5
    assert series(metrics, "vllm:num_requests_waiting") == 2
    assert series(metrics, "vllm:num_requests_waiting_by_reason", reason="capacity") == 2
    assert series(metrics, "vllm:num_requests_waiting_by_reason", reason="deferred") == 0
    assert series(metrics, "vllm:kv_cache_usage_perc") == 0.25
    assert metrics.value("vllm:num_requests_running") == 5
