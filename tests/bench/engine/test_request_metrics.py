"""The `metrics` object of an answer."""

import pytest

from breakeven_bench.engine.request_metrics import SpeculationDetail, request_metrics
from breakeven_bench.engine.scheduler import Sequence
from tests.bench.engine.engines import chance

NONE, SUMMARY, DETAILED = SpeculationDetail


def finished(**fields):
    times = {"scheduled_s": 10.5, "first_token_s": 11.0, "last_token_s": 13.0, "generated_tokens": 11}
    return Sequence(5, 11, 0.5, chance(1), 10.0, **{**times, **fields})


def metrics(sequence, *, timing=False, speculation=NONE, draft_tokens=3):
    return request_metrics(sequence, timing=timing, speculation=speculation, draft_tokens=draft_tokens)


def test_an_engine_that_was_not_asked_for_metrics_gives_none():
    assert metrics(finished()) is None


def test_a_sequence_that_never_ran_has_no_times():
    made = metrics(finished(first_token_s=None, last_token_s=None), timing=True)
    assert set(made.values()) == {None}


def test_timing_leaves_the_queue_out_of_the_first_token():
    assert metrics(finished(), timing=True) == {
        "time_to_first_token_ms": 500.0,
        "generation_time_ms": 2000.0,
        "queue_time_ms": 500.0,
        "mean_itl_ms": 200.0,
        "tokens_per_second": pytest.approx(11 / 2.5),
        "speculative_decoding": None,
    }


def test_a_single_token_has_no_mean_gap_and_an_instant_no_throughput():
    made = metrics(finished(generated_tokens=1, first_token_s=10.5, last_token_s=10.5), timing=True)
    assert made["mean_itl_ms"] is None
    assert made["tokens_per_second"] is None


def test_acceptance_is_summed_up_as_vllm_does():
    sequence = finished(accepted_counts=[2, 1, 0, 3], drafted_tokens=17)
    assert metrics(sequence, speculation=SUMMARY)["speculative_decoding"] == {
        "mean_acceptance_length": pytest.approx(1 + 10 / 6),
        "draft_acceptance_rate": pytest.approx(10 / 17),
        "acceptance_histogram": [2, 1, 0, 3],
        "num_spec_steps": 6,
        "num_accepted_draft_tokens": 10,
        "num_draft_tokens": 17,
        "num_spec_tokens": 3,
        "per_step_accepted": None,
        "per_step_drafted": None,
    }


def test_without_a_verify_step_the_length_is_one_and_the_rate_zero():
    made = metrics(finished(accepted_counts=[0, 0, 0, 0]), speculation=SUMMARY)["speculative_decoding"]
    assert (made["mean_acceptance_length"], made["draft_acceptance_rate"], made["num_spec_steps"]) == (1.0, 0.0, 0)


def test_detail_lists_every_verify_step_in_order():
    sequence = finished(accepted_counts=[1, 0, 1, 0], drafted_tokens=6, verified=[(3, 2), (3, 0)])
    made = metrics(sequence, speculation=DETAILED)["speculative_decoding"]
    assert (made["per_step_accepted"], made["per_step_drafted"]) == ([2, 0], [3, 3])


def test_times_are_null_where_only_acceptance_is_asked_for():
    made = metrics(finished(accepted_counts=[0, 0, 0, 0]), speculation=SUMMARY)
    assert made["time_to_first_token_ms"] is None
