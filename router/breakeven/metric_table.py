"""Every metric the router exports, in one table: name, kind, meaning, labels, buckets.

Label values come from the configuration or from closed enumerations, never from a client: the number of series is fixed
when the router starts (field case B69). Dashboards and alert rules are tested against this table.
"""

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """Prometheus' own words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class ReloadResult(StrEnum):
    """What came of reading the configuration again."""

    SUCCESS = "success"
    FAILURE = "failure"


class Compared(StrEnum):
    """What came of comparing two greedy answers."""

    SAME = "same"
    DIVERGED = "diverged"
    FAILED = "failed"
    """An engine did not answer."""
    SKIPPED = "skipped"
    """Requests waited at one of them."""


@dataclass(frozen=True, slots=True)
class Metric:
    """`buckets` are upper bounds in the unit of the name, without the infinite one."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


OWN_SECONDS = (2e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 1e-2, 5e-2, 0.25, 1.0)
"""Our own work: a decision takes some 10 µs, a new connection some 200 µs; above 2 ms something is wrong."""

TOKEN_SECONDS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0)
"""A 70B model on 4 A100 gives a token every 23 ms alone and 61 ms in a batch of 256; 50 ms is the usual target."""

FIRST_TOKEN_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Prefill and queue; 2 s is the usual target."""

DURATION_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)
"""From an embedding to a long reasoning answer."""

_BACKEND = ("pool", "backend")
_COUNTER, _GAUGE, _HISTOGRAM = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM

REQUESTS = Metric(
    "breakeven_requests_total", _COUNTER, "Requests finished, in whatever way; pool is none where no pool took it.",
    ("pool", "reason", "outcome"),
)  # fmt: skip
IN_FLIGHT = Metric("breakeven_requests_in_flight", _GAUGE, "Requests of this router on the engine now.", _BACKEND)
DECISION = Metric(
    "breakeven_decision_seconds", _HISTOGRAM, "From the complete request to the policy's answer.", (), OWN_SECONDS
)
ADDED_LATENCY = Metric(
    "breakeven_added_latency_seconds", _HISTOGRAM,
    "From the complete request to its last byte written to the engine, first attempts only.", (), OWN_SECONDS,
)  # fmt: skip
FIRST_TOKEN = Metric(
    "breakeven_time_to_first_token_seconds", _HISTOGRAM,
    "From the complete request to the first event with generated text, streaming requests only.",
    ("pool",), FIRST_TOKEN_SECONDS,
)  # fmt: skip
TOKEN_TIME = Metric(
    "breakeven_time_per_output_token_seconds", _HISTOGRAM,
    "From the first token to the end, divided by the further tokens; streams whose answer carries usage only.",
    ("pool",), TOKEN_SECONDS,
)  # fmt: skip
DURATION = Metric(
    "breakeven_request_duration_seconds", _HISTOGRAM, "From the complete request to the end of its answer.",
    ("pool",), DURATION_SECONDS,
)  # fmt: skip
PROMPT_TOKENS = Metric(
    "breakeven_prompt_tokens_total", _COUNTER, "Prompt tokens by the engines' own usage, where given.", ("pool",)
)
COMPLETION_TOKENS = Metric(
    "breakeven_completion_tokens_total", _COUNTER, "Generated tokens by the engines' own usage, where given.", ("pool",)
)
ATTEMPTS = Metric(
    "breakeven_upstream_attempts_total", _COUNTER, "Attempts to have a request served by an engine, by how they ended.",
    ("pool", "backend", "result"),
)  # fmt: skip
READY = Metric("breakeven_backend_ready", _GAUGE, "1 where the engine is routed to, else 0.", _BACKEND)
DRAINING = Metric(
    "breakeven_backend_draining", _GAUGE, "1 where somebody wants the engine to be given no requests, else 0.", _BACKEND
)
HEALTH_CHANGES = Metric(
    "breakeven_backend_health_changes_total", _COUNTER, "Changes of the engine's health, by what it became.",
    ("pool", "backend", "health"),
)  # fmt: skip
EJECTIONS = Metric(
    "breakeven_backend_ejections_total", _COUNTER,
    "Times that the engine was taken out although its health checks were answered, by what was held against it.",
    ("pool", "backend", "cause"),
)  # fmt: skip
PROBE_FAILURES = Metric("breakeven_backend_probe_failures_total", _COUNTER, "Failed health checks.", _BACKEND)
SCRAPE_FAILURES = Metric("breakeven_backend_scrape_failures_total", _COUNTER, "Failed reads of metrics.", _BACKEND)
ENGINE_RUNNING = Metric(
    "breakeven_engine_requests_running", _GAUGE, "Requests running, as the engine reports it.", _BACKEND
)
ENGINE_WAITING = Metric(
    "breakeven_engine_requests_waiting", _GAUGE, "Requests waiting, as the engine reports it.", _BACKEND
)
ENGINE_KV_USAGE = Metric(
    "breakeven_engine_kv_cache_usage_ratio", _GAUGE, "Share of the KV cache in use, as the engine reports it.", _BACKEND
)
ENGINE_ACCEPTANCE_LENGTH = Metric(
    "breakeven_engine_acceptance_length", _GAUGE, "Tokens per verify step over the last minute.", _BACKEND
)
ENGINE_ACCEPTANCE_RATIO = Metric(
    "breakeven_engine_draft_acceptance_ratio", _GAUGE, "Accepted share of drafted tokens, last minute.", _BACKEND
)
ENGINE_SIGNAL_AGE = Metric(
    "breakeven_engine_signal_age_seconds", _GAUGE, "Age of the engine's figures that routing uses.", _BACKEND
)
LINES_LOST = Metric(
    "breakeven_log_lines_lost_total", _COUNTER, "Lines of access log or journal, or spans, that were not written.",
    ("log", "why"),
)  # fmt: skip
CLIENT_CONNECTIONS = Metric("breakeven_client_connections", _GAUGE, "Open connections of clients.")
QUEUED = Metric("breakeven_queued_requests", _GAUGE, "Requests that wait for a place at an engine (max_in_flight).")
QUEUE_WAIT = Metric(
    "breakeven_queue_wait_seconds", _HISTOGRAM, "How long requests waited for a place at an engine, by how that ended.",
    ("result",), FIRST_TOKEN_SECONDS,
)  # fmt: skip
SHORTAGES = Metric(
    "breakeven_descriptor_shortages_total", _COUNTER,
    "Sockets that could not be had because the router has no descriptors (or memory) left, by what they were for.",
    ("side",),
)  # fmt: skip
WORKER_RESTARTS = Metric(
    "breakeven_worker_restarts_total", _COUNTER, "Worker processes that ended unasked and were replaced."
)
CONFIG_RELOADS = Metric(
    "breakeven_config_reloads_total", _COUNTER, "Times the configuration was read again, by whether it could be used.",
    ("result",),
)  # fmt: skip
CONFIG_SUCCESS = Metric(
    "breakeven_config_last_success_timestamp_seconds", _GAUGE,
    "When the configuration in force was read, Unix time.",
)  # fmt: skip
SHADOW_DECISIONS = Metric(
    "breakeven_shadow_decisions_total", _COUNTER,
    "Requests decided under a shadow policy too, by how that compares and the pool it wanted (none: none).",
    ("policy", "result", "wanted"),
)  # fmt: skip
SHADOW_SECONDS = Metric(
    "breakeven_shadow_decision_seconds", _HISTOGRAM, "What one decision of a shadow policy takes.",
    ("policy",), OWN_SECONDS,
)  # fmt: skip
SHADOW_REGRET = Metric(
    "breakeven_shadow_regret_total", _COUNTER,
    "What a shadow policy expects to be lost by what was done instead: request-seconds where it minds latency.",
    ("policy",),
)  # fmt: skip
SHADOW_REGRET_KNOWN = Metric(
    "breakeven_shadow_regret_known_total", _COUNTER, "Requests of which a shadow policy could say that.", ("policy",)
)
POLICY_SWITCHED = Metric(
    "breakeven_policy_switched", _GAUGE, "1 where another policy than the configured one was switched to (PUT /policy)."
)
CERTIFICATE_EXPIRY = Metric(
    "breakeven_certificate_expiry_timestamp_seconds", _GAUGE,
    "When the certificate of a setting expires, Unix time; pool is none for the router's own settings.",
    ("pool", "setting"),
)  # fmt: skip
POLICY_INFO = Metric(
    "breakeven_policy_info", _GAUGE, "1 for the policy in force, and the measured tables that pools are known by.",
    ("policy", "table_hash"),
)  # fmt: skip
EQUIVALENCE_CHECKS = Metric(
    "breakeven_equivalence_checks_total", _COUNTER,
    "Greedy answers of the speculative engine compared with those of a plain one, by what came of it.",
    ("pool", "backend", "result"),
)  # fmt: skip
EQUIVALENCE_DIVERGED = Metric(
    "breakeven_equivalence_diverged_ratio", _GAUGE,
    "Share of the last greedy answers that differ; of a plain engine, from its own.", _BACKEND,
)  # fmt: skip
EQUIVALENCE_BROKEN = Metric(
    "breakeven_equivalence_broken", _GAUGE,
    "1 where more answers differ than equivalence_divergence_max and the plain engine agrees with itself, else 0.",
    _BACKEND,
)  # fmt: skip
TABLE_APPLIES = Metric(
    "breakeven_policy_table_applies", _GAUGE,
    "1 where a measured table is used for the pool, else 0; why says applies, or what stands in the way.",
    ("pool", "table_hash", "why"),
)  # fmt: skip
BUILD_INFO = Metric("breakeven_build_info", _GAUGE, "1 for the running version.", ("version",))

TABLE = (
    REQUESTS, IN_FLIGHT, DECISION, ADDED_LATENCY, FIRST_TOKEN, TOKEN_TIME, DURATION, PROMPT_TOKENS, COMPLETION_TOKENS,
    ATTEMPTS, READY, DRAINING, HEALTH_CHANGES, EJECTIONS, PROBE_FAILURES, SCRAPE_FAILURES, ENGINE_RUNNING,
    ENGINE_WAITING, ENGINE_KV_USAGE, ENGINE_ACCEPTANCE_LENGTH, ENGINE_ACCEPTANCE_RATIO, ENGINE_SIGNAL_AGE, LINES_LOST,
    CLIENT_CONNECTIONS, QUEUED, QUEUE_WAIT, SHORTAGES, WORKER_RESTARTS, CONFIG_RELOADS, CONFIG_SUCCESS,
    CERTIFICATE_EXPIRY, SHADOW_DECISIONS, SHADOW_SECONDS, SHADOW_REGRET, SHADOW_REGRET_KNOWN,
    POLICY_INFO, POLICY_SWITCHED, TABLE_APPLIES,
    EQUIVALENCE_CHECKS, EQUIVALENCE_DIVERGED, EQUIVALENCE_BROKEN, BUILD_INFO,
)  # fmt: skip

BY_NAME = {metric.name: metric for metric in TABLE}

OF_THE_FLEET = (
    IN_FLIGHT, READY, DRAINING, ENGINE_RUNNING, ENGINE_WAITING, ENGINE_KV_USAGE, ENGINE_ACCEPTANCE_LENGTH,
    ENGINE_ACCEPTANCE_RATIO, ENGINE_SIGNAL_AGE, EQUIVALENCE_DIVERGED, EQUIVALENCE_BROKEN,
)  # fmt: skip
"""Gauges that say what is believed of a backend at the moment of the scrape: nobody counts them."""
