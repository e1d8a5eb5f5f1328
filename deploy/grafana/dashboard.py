#!/usr/bin/env python3
"""Writes the Grafana dashboard: what each panel asks and says is a table here, how Grafana wants it spelt is below.

    python deploy/grafana/dashboard.py > deploy/grafana/dashboards/breakeven.json

Change the table, run that, commit both; a test compares them. Every query is checked against a live router's metrics.
"""

import json
import sys
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

Json = dict[str, Any]

GRID_WIDTH = 24
PANEL_HEIGHT = 8
DATASOURCE: Json = {"type": "prometheus", "uid": "prometheus"}
POOL = 'pool=~"$pool"'


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and the legend of its series."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph. `unit` is Grafana's name of a unit; `note` says how to read it; `most` ends a bounded axis."""

    title: str
    unit: str
    note: str
    queries: tuple[Query, ...]
    stacked: bool = False
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side under one heading."""

    title: str
    panels: tuple[Panel, ...]


def rate(metric: str, *by: str, where: str = POOL) -> str:
    """Events per second, summed over all routers."""
    selector = f"{metric}{{{where}}}" if where else metric
    return f"sum by ({', '.join(by)}) (rate({selector}[$__rate_interval]))"


def quantiles(metric: str, *by: str, where: str = POOL) -> tuple[Query, ...]:
    """Median and 95th percentile of a histogram, per combination of `by`."""
    legend = " · ".join(f"{{{{{label}}}}}" for label in by)
    buckets = rate(f"{metric}_bucket", *by, "le", where=where)
    return tuple(
        Query(f"histogram_quantile({share}, {buckets})", f"{legend} {name}".strip())
        for share, name in ((0.5, "p50"), (0.95, "p95"))
    )


def per_backend(metric: str) -> tuple[Query, ...]:
    """A gauge that every router reads off the same engine: its largest reading."""
    return (Query(f"max by (pool, backend) ({metric}{{{POOL}}})", "{{pool}} · {{backend}}"),)


ROWS = (
    Row(
        "Traffic",
        (
            Panel(
                "Requests by pool and reason",
                "reqps",
                "The reason is the word of the header x-breakeven-reason.",
                (Query(rate("breakeven_requests_total", "pool", "reason"), "{{pool}} · {{reason}}"),),
                stacked=True,
            ),
            Panel(
                "Outcomes",
                "reqps",
                "rejected_by_engine and client_error are the client's doing, upstream_* the engines'; "
                "refused: no engine was ready.",
                (Query(rate("breakeven_requests_total", "outcome", where=""), "{{outcome}}"),),
                stacked=True,
            ),
            Panel(
                "In flight",
                "short",
                "Requests that this router has under way on each backend, and clients connected to it.",
                (
                    Query(f"sum by (pool, backend) (breakeven_requests_in_flight{{{POOL}}})", "{{pool}} · {{backend}}"),
                    Query("sum(breakeven_client_connections)", "client connections"),
                ),
            ),
        ),
    ),
    Row(
        "What a client sees",
        (
            Panel(
                "Time to first token",
                "s",
                "From the complete request to the first event with text; streaming requests only.",
                quantiles("breakeven_time_to_first_token_seconds", "pool"),
            ),
            Panel(
                "Time per output token",
                "s",
                "From usage, never from counted events: a speculative engine puts several tokens into one. "
                "Streams without usage (stream_options.include_usage) are missing here.",
                quantiles("breakeven_time_per_output_token_seconds", "pool"),
            ),
            Panel(
                "Duration",
                "s",
                "From the complete request to the end of its answer.",
                quantiles("breakeven_request_duration_seconds", "pool"),
            ),
            Panel(
                "Tokens",
                "short",
                "Per second, from usage.",
                (
                    Query(rate("breakeven_completion_tokens_total", "pool"), "{{pool}} completion"),
                    Query(rate("breakeven_prompt_tokens_total", "pool"), "{{pool}} prompt"),
                ),
            ),
        ),
    ),
    Row(
        "What the router adds",
        (
            Panel(
                "Added latency",
                "s",
                "From the complete request to its last byte written to the engine; first attempts only.",
                quantiles("breakeven_added_latency_seconds", where=""),
            ),
            Panel(
                "Decision",
                "s",
                "From the complete request to the policy's answer.",
                quantiles("breakeven_decision_seconds", where=""),
            ),
            Panel(
                "Attempts upstream",
                "reqps",
                "More attempts than requests: connections fail and the next backend in the ranking takes over.",
                (
                    Query(
                        rate("breakeven_upstream_attempts_total", "pool", "backend", "result"),
                        "{{pool}} · {{backend}} {{result}}",
                    ),
                ),
            ),
            Panel(
                "Lost lines",
                "short",
                "Per second, of access log, journal or spans that were not written: the disk is full, or too slow.",
                (Query(rate("breakeven_log_lines_lost_total", "log", "why", where=""), "{{log}} {{why}}"),),
            ),
        ),
    ),
    Row(
        "Limits",
        (
            Panel(
                "Waiting for an engine",
                "short",
                "Requests that wait because every engine that could serve them has max_in_flight.",
                (Query("sum(breakeven_queued_requests)", "queued"),),
            ),
            Panel(
                "Time spent waiting",
                "s",
                "Of those that waited, by how that ended: expired and full queues are answered with 503.",
                quantiles("breakeven_queue_wait_seconds", "result", where=""),
            ),
            Panel(
                "Out of descriptors",
                "short",
                "Sockets per second that could not be opened. Raise ulimit -n; each streaming request needs two.",
                (Query(rate("breakeven_descriptor_shortages_total", "side", where=""), "{{side}}"),),
            ),
            Panel(
                "Workers replaced",
                "short",
                "Worker processes per second that ended unasked. The log says how; each broke the requests it held.",
                (Query("sum(rate(breakeven_worker_restarts_total[$__rate_interval]))", "replaced"),),
            ),
        ),
    ),
    Row(
        "Shadow policies",
        (
            Panel(
                "What they would have done",
                "reqps",
                "Requests decided by the policies of shadow too, against what was done: same, another backend of the "
                "same pool, another pool, a refusal; failed and skipped are no answers.",
                (
                    Query(
                        rate("breakeven_shadow_decisions_total", "policy", "result", where=""), "{{policy}} {{result}}"
                    ),
                ),
            ),
            Panel(
                "Where they would have sent them",
                "reqps",
                "The pool that each policy wanted; none: it refused, failed, or was not asked.",
                (
                    Query(
                        rate("breakeven_shadow_decisions_total", "policy", "wanted", where=""), "{{policy}} {{wanted}}"
                    ),
                ),
            ),
            Panel(
                "What they expect to be lost",
                "short",
                "For doing otherwise than the shadow policy would, by its figures: request-seconds per second, where "
                "its objective is latency; and requests per second of which it can say that.",
                (
                    Query(rate("breakeven_shadow_regret_total", "policy", where=""), "{{policy}} lost"),
                    Query(rate("breakeven_shadow_regret_known_total", "policy", where=""), "{{policy}} known"),
                ),
            ),
            Panel(
                "What their decisions take",
                "s",
                "Beside the requests, never before one. Above 100 µs a policy is asked about a share of them only.",
                quantiles("breakeven_shadow_decision_seconds", "policy", where=""),
            ),
        ),
    ),
    Row(
        "Configuration",
        (
            Panel(
                "Readings of the configuration",
                "short",
                "Over the window of the graph's step. After a failure the router serves by the last good one; its log "
                "names each mistake.",
                (Query("sum by (result) (increase(breakeven_config_reloads_total[$__rate_interval]))", "{{result}}"),),
            ),
            Panel(
                "Configuration read",
                "dateTimeFromNow",
                "When the one in force was.",
                (Query("max by (instance) (breakeven_config_last_success_timestamp_seconds * 1000)", "{{instance}}"),),
            ),
            Panel(
                "Certificates expire",
                "dateTimeFromNow",
                "Those of the router (pool none) and those by which it meets engines; nothing where there is no TLS.",
                (
                    Query(
                        "min by (pool, setting) (breakeven_certificate_expiry_timestamp_seconds * 1000)",
                        "{{pool}} {{setting}}",
                    ),
                ),
            ),
            Panel(
                "Policy",
                "short",
                "By how many routers each is in force, and whether one was switched to (PUT /policy) that is not the "
                "configured one.",
                (
                    Query("sum by (policy) (breakeven_policy_info)", "{{policy}}"),
                    Query("max by (instance) (breakeven_policy_switched)", "{{instance}} switched"),
                ),
            ),
        ),
    ),
    Row(
        "Speculation",
        (
            Panel(
                "Acceptance length",
                "short",
                "Tokens per verified draft, the engine's own token included: 1 is no gain. It pays while it is above "
                "the ratio of a step with drafts to one without, which grows with the running batch.",
                per_backend("breakeven_engine_acceptance_length"),
            ),
            Panel(
                "Draft acceptance",
                "percentunit",
                "Accepted over drafted tokens. Not the chance of a single token: 0.81 per token at k=5 is 0.56 here.",
                per_backend("breakeven_engine_draft_acceptance_ratio"),
                most=1,
            ),
        ),
    ),
    Row(
        "Engines",
        (
            Panel("Running", "short", "The batch.", per_backend("breakeven_engine_requests_running")),
            Panel(
                "Waiting",
                "short",
                "In the engine's own queue: it is full.",
                per_backend("breakeven_engine_requests_waiting"),
            ),
            Panel(
                "KV cache",
                "percentunit",
                "In use. Near 1 requests are preempted.",
                per_backend("breakeven_engine_kv_cache_usage_ratio"),
                most=1,
            ),
            Panel(
                "Age of these figures",
                "s",
                "Since the last successful scrape. Old figures are no ground for a decision.",
                per_backend("breakeven_engine_signal_age_seconds"),
            ),
        ),
    ),
    Row(
        "Health",
        (
            Panel(
                "Ready",
                "short",
                "1: requests are sent there.",
                (Query(f"min by (pool, backend) (breakeven_backend_ready{{{POOL}}})", "{{pool}} · {{backend}}"),),
                most=1,
            ),
            Panel(
                "Draining",
                "short",
                "1: somebody wants it to be given no requests (POST /backends/NAME/resume ends that).",
                (Query(f"max by (pool, backend) (breakeven_backend_draining{{{POOL}}})", "{{pool}} · {{backend}}"),),
                most=1,
            ),
            Panel(
                "Changes of health",
                "short",
                "Over the window of the graph's step.",
                (
                    Query(
                        "sum by (pool, backend, health) "
                        f"(increase(breakeven_backend_health_changes_total{{{POOL}}}[$__rate_interval]))",
                        "{{pool}} · {{backend}} {{health}}",
                    ),
                    Query(
                        "sum by (pool, backend, cause) "
                        f"(increase(breakeven_backend_ejections_total{{{POOL}}}[$__rate_interval]))",
                        "{{pool}} · {{backend}} ejected for {{cause}}",
                    ),
                ),
            ),
            Panel(
                "Failed probes and scrapes",
                "short",
                "Per second.",
                (
                    Query(
                        rate("breakeven_backend_probe_failures_total", "pool", "backend"),
                        "{{pool}} · {{backend}} probes",
                    ),
                    Query(
                        rate("breakeven_backend_scrape_failures_total", "pool", "backend"),
                        "{{pool}} · {{backend}} scrapes",
                    ),
                ),
            ),
            Panel(
                "Routers",
                "short",
                "How many run, by version and policy.",
                (
                    Query("count by (version) (breakeven_build_info)", "version {{version}}"),
                    Query("count by (policy) (breakeven_policy_info)", "policy {{policy}}"),
                ),
            ),
            Panel(
                "Equivalence",
                "short",
                "Share of greedy answers that differ from a plain engine's; broken 1: too many.",
                (
                    Query(
                        f"max by (pool, backend) (breakeven_equivalence_diverged_ratio{{{POOL}}})",
                        "{{pool}} · {{backend}} differ",
                    ),
                    Query(
                        f"max by (pool, backend) (breakeven_equivalence_broken{{{POOL}}})",
                        "{{pool}} · {{backend}} broken",
                    ),
                    Query(
                        rate("breakeven_equivalence_checks_total", "pool", "backend", "result"),
                        "{{pool}} · {{backend}} {{result}} per second",
                    ),
                ),
                most=1,
            ),
            Panel(
                "Measured tables",
                "short",
                "1: the pool is known by this table; 0: it is unmeasured, and why.",
                (
                    Query(
                        f"max by (pool, table_hash, why) (breakeven_policy_table_applies{{{POOL}}})",
                        "{{pool}} {{table_hash}} {{why}}",
                    ),
                ),
                most=1,
            ),
        ),
    ),
)


def row_json(row: Row, top: int) -> list[Json]:
    """The heading and its panels, `top` grid lines from the top of the page."""
    width = GRID_WIDTH // len(row.panels)
    heading: Json = {
        "type": "row",
        "title": row.title,
        "collapsed": False,
        "gridPos": {"x": 0, "y": top, "w": GRID_WIDTH, "h": 1},
        "panels": [],
    }
    places = ({"x": index * width, "y": top + 1, "w": width, "h": PANEL_HEIGHT} for index in range(len(row.panels)))
    return [heading, *(panel_json(panel, place) for panel, place in zip(row.panels, places, strict=True))]


def panel_json(panel: Panel, place: Json) -> Json:
    """A time series as Grafana 12 stores it."""
    custom: Json = {"fillOpacity": 25 if panel.stacked else 0, "lineWidth": 1, "showPoints": "never"}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    defaults: Json = {"unit": panel.unit, "min": 0, "custom": custom}
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.note,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query.expr, "legendFormat": query.legend, "datasource": DATASOURCE}
            for index, query in enumerate(panel.queries)
        ],
    }


def dashboard() -> Json:
    """The whole page."""
    tops = accumulate((PANEL_HEIGHT + 1 for _ in ROWS), initial=0)
    placed = [panel for row, top in zip(ROWS, tops, strict=False) for panel in row_json(row, top)]
    pool_variable: Json = {
        "name": "pool",
        "label": "Pool",
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": "label_values(breakeven_backend_ready, pool)", "refId": "pools"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    return {
        "uid": "breakeven",
        "title": "Breakeven",
        "tags": ["breakeven", "vllm"],
        "schemaVersion": 39,
        "editable": False,
        "time": {"from": "now-15m", "to": "now"},
        "refresh": "5s",
        "timezone": "browser",
        "templating": {"list": [pool_variable]},
        "panels": [{"id": number, **panel} for number, panel in enumerate(placed, start=1)],
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
