"""Every metric family that the engine exports, with vLLM 0.33.0's names, texts, labels and buckets.

Sources: `v1/metrics/loggers.py`, `v1/metrics/buckets.py`, `v1/spec_decode/metrics.py`. Families under
`breakeven_sim_` are the simulator's own and carry no labels. Left out are families of features that are not simulated
(multi-modal and external caches, LoRA, KV transfer) and those of the Python process and its HTTP framework.
"""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The words of the exposition format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Family:
    """One family; `name` is without the `_total` that a counter's series carry.

    `label` and its `values` make one series each, beside `model_name` and `engine`; without a label there is one
    series.
    """

    name: str
    kind: Kind
    text: str
    label: str | None = None
    values: tuple[str, ...] = ("",)
    buckets: tuple[float, ...] = ()
    own: bool = False


# fmt: off
REQUEST_LATENCY = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)
TIME_TO_FIRST_TOKEN = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    160.0, 640.0, 2560.0,
)
INTER_TOKEN_LATENCY = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)
# fmt: on
ITERATION_TOKENS = (1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0)
REQUEST_PARAMS_N = (1.0, 2.0, 5.0, 10.0, 20.0)
REQUEST_PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


def request_tokens(max_model_len: int) -> tuple[float, ...]:
    """1, 2, 5, 10, ... up to the context length: the buckets of token counts."""
    decades = range(len(str(max_model_len)))
    series = (mantissa * 10.0**decade for decade in decades for mantissa in (1, 2, 5))
    return tuple(bound for bound in series if bound <= max_model_len)


def families(max_model_len: int, draft_tokens: int | None) -> tuple[Family, ...]:
    """The families in vLLM's order; those of speculation only where `draft_tokens` is not None."""
    speculation = () if draft_tokens is None else _speculation(draft_tokens)
    return (*speculation, *_state(), *_tokens(), *_requests(max_model_len), *_times(), *_own())


def _counter(name: str, text: str, label: str | None = None, values: tuple[str, ...] = ("",)) -> Family:
    return Family(f"vllm:{name}", Kind.COUNTER, text, label, values)


def _gauge(name: str, text: str, label: str | None = None, values: tuple[str, ...] = ("",)) -> Family:
    return Family(f"vllm:{name}", Kind.GAUGE, text, label, values)


def _histogram(name: str, text: str, buckets: tuple[float, ...]) -> Family:
    return Family(f"vllm:{name}", Kind.HISTOGRAM, text, buckets=buckets)


def _speculation(draft_tokens: int) -> tuple[Family, ...]:
    positions = tuple(str(position) for position in range(draft_tokens))
    return (
        _counter("spec_decode_num_drafts", "Number of spec decoding drafts."),
        _counter("spec_decode_num_draft_tokens", "Number of draft tokens."),
        _counter("spec_decode_num_accepted_tokens", "Number of accepted tokens."),
        _counter(
            "spec_decode_num_accepted_tokens_per_pos", "Accepted tokens per draft position.", "position", positions
        ),
    )


def _state() -> tuple[Family, ...]:
    return (
        _gauge("num_requests_running", "Number of requests in model execution batches."),
        _gauge("num_requests_waiting", "Number of requests waiting to be processed."),
        _gauge(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; "
            "'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). "
            "Sum of all reasons equals vllm:num_requests_waiting.",
            "reason",
            ("capacity", "deferred"),
        ),
        _gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
    )


def _tokens() -> tuple[Family, ...]:
    return (
        _counter("prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens."),
        _counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."),
        _counter("num_preemptions", "Cumulative number of preemption from the engine."),
        _counter("prompt_tokens", "Number of prefill tokens processed."),
        _counter(
            "prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            "source",
            ("local_compute", "local_cache_hit", "external_kv_transfer"),
        ),
        _counter("prompt_tokens_cached", "Number of cached prompt tokens (local + external)."),
        _counter("generation_tokens", "Number of generation tokens processed."),
        _counter("request_success", "Count of successfully processed requests.", "finished_reason", FINISH_REASONS),
    )


def _requests(max_model_len: int) -> tuple[Family, ...]:
    lengths = request_tokens(max_model_len)
    return (
        _histogram("request_prompt_tokens", "Number of prefill tokens processed.", lengths),
        _histogram("request_generation_tokens", "Number of generation tokens processed.", lengths),
        _histogram("iteration_tokens_total", "Histogram of number of tokens per engine_step.", ITERATION_TOKENS),
        _histogram(
            "request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            lengths,
        ),
        _histogram("request_params_n", "Histogram of the n request parameter.", REQUEST_PARAMS_N),
        _histogram("request_params_max_tokens", "Histogram of the max_tokens request parameter.", lengths),
        _histogram(
            "request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            lengths,
        ),
    )


def _times() -> tuple[Family, ...]:
    return (
        _histogram("time_to_first_token_seconds", "Histogram of time to first token in seconds.", TIME_TO_FIRST_TOKEN),
        _histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", INTER_TOKEN_LATENCY),
        _histogram(
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            INTER_TOKEN_LATENCY,
        ),
        _histogram("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", REQUEST_LATENCY),
        _histogram(
            "request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", REQUEST_LATENCY
        ),
        _histogram(
            "request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", REQUEST_LATENCY
        ),
        _histogram(
            "request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", REQUEST_LATENCY
        ),
        _histogram(
            "request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", REQUEST_LATENCY
        ),
        _histogram(
            "request_num_preemptions", "Histogram of the number of times a request was preempted.", REQUEST_PREEMPTIONS
        ),
    )


def _own() -> tuple[Family, ...]:
    return (
        Family("breakeven_sim_steps", Kind.COUNTER, "Engine steps that ended.", own=True),
        Family("breakeven_sim_steps_late", Kind.COUNTER, "Steps that ended noticeably after their deadline.", own=True),
        Family("breakeven_sim_lost_seconds", Kind.COUNTER, "Wall time given up because steps overran.", own=True),
        Family("breakeven_sim_events", Kind.COUNTER, "Emissions of sequences in engine steps.", own=True),
        Family("breakeven_sim_time_scale", Kind.GAUGE, "Modelled seconds per second of wall time.", own=True),
    )
