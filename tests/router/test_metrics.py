"""`breakeven.metrics`: counted once, shown as Prometheus reads it, and unknown is left out."""

import sys
from collections.abc import Mapping
from time import perf_counter

import pytest
from prometheus_client.parser import text_string_to_metric_families

from breakeven import metric_table as table
from breakeven.certificate_dates import Certificate
from breakeven.fleet import Fleet, PoolSpec, ProbeSucceeded, Scraped, Started
from breakeven.ledger import Ledger
from breakeven.metric_table import ReloadResult
from breakeven.metrics import Metrics
from breakeven.record import Outcome, RequestRecord
from breakeven_policies.snapshot import EngineSignals, Health, PoolKind

POOLS = (
    PoolSpec("base", PoolKind.PLAIN, "none", 0, ("base-0",)),
    PoolSpec("spec", PoolKind.SPECULATIVE, "eagle3", 3, ("spec-0", "spec-1")),
)


class Page:
    """A rendered page, read by Prometheus' own parser."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self._values.get((name, frozenset(labels.items())))

    @property
    def series(self) -> int:
        return len(self._values)


async def page_of(metrics: Metrics, fleet: Fleet | None = None, now_s: float = 0.0) -> Page:
    snapshot = (fleet or Fleet(POOLS)).snapshot(now_s)
    return Page((await metrics.render(snapshot, "threshold")).decode())


def record(**changes: object) -> RequestRecord:
    made = RequestRecord("id", "chat.completions", received_s=10.0, stream=True, pool="spec", backend="spec-0")
    made.reason, made.outcome, made.attempts = "temperature_within_threshold", Outcome.COMPLETED, 1
    made.decided_s, made.sent_s, made.first_token_s, made.finished_s = 10.00001, 10.0002, 10.5, 12.5
    made.prompt_tokens, made.completion_tokens = 20, 101
    for name, value in changes.items():
        setattr(made, name, value)
    return made


async def test_a_refused_request_is_counted_under_no_pool_and_measures_only_its_decision() -> None:
    metrics = Metrics(POOLS)
    metrics.observe(record(pool=None, backend=None, reason="no_backend", outcome=Outcome.REFUSED, sent_s=None))
    metrics.observe(record(pool=None, backend=None, reason=None, outcome=Outcome.CLIENT_ERROR, decided_s=None))
    page = await page_of(metrics)
    assert page.value("breakeven_requests_total", pool="none", reason="no_backend", outcome="refused") == 1
    assert page.value("breakeven_requests_total", pool="none", reason="none", outcome="client_error") == 1
    assert page.value("breakeven_decision_seconds_count") == 1
    assert page.value("breakeven_request_duration_seconds_count", pool="none") is None


async def test_a_finished_stream_fills_every_histogram_once() -> None:
    metrics = Metrics(POOLS)
    metrics.observe(record())
    page = await page_of(metrics)
    labels = {"pool": "spec", "reason": "temperature_within_threshold", "outcome": "completed"}
    assert page.value("breakeven_requests_total", **labels) == 1
    assert page.value("breakeven_decision_seconds_sum") == pytest.approx(1e-5)
    assert page.value("breakeven_added_latency_seconds_sum") == pytest.approx(2e-4)
    assert page.value("breakeven_time_to_first_token_seconds_sum", pool="spec") == pytest.approx(0.5)
    assert page.value("breakeven_time_per_output_token_seconds_sum", pool="spec") == pytest.approx(0.02)
    assert page.value("breakeven_request_duration_seconds_sum", pool="spec") == pytest.approx(2.5)
    assert page.value("breakeven_prompt_tokens_total", pool="spec") == 20
    assert page.value("breakeven_completion_tokens_total", pool="spec") == 101


@pytest.mark.parametrize(
    ("changes", "metric"),
    [
        ({"attempts": 2}, table.ADDED_LATENCY),
        ({"sent_s": None}, table.ADDED_LATENCY),
        ({"first_token_s": None}, table.FIRST_TOKEN),
        ({"stream": False}, table.FIRST_TOKEN),
        ({"stream": False}, table.TOKEN_TIME),
        ({"first_token_s": None}, table.TOKEN_TIME),
        ({"completion_tokens": None}, table.TOKEN_TIME),
        ({"completion_tokens": 1}, table.TOKEN_TIME),
        ({"completion_tokens": 0}, table.TOKEN_TIME),
        ({"finished_s": None}, table.DURATION),
    ],
)
async def test_a_duration_that_means_nothing_is_not_observed(
    changes: Mapping[str, object], metric: table.Metric
) -> None:
    metrics = Metrics(POOLS)
    metrics.observe(record(**changes))
    labels = {"pool": "spec"} if metric.labels else {}
    assert (await page_of(metrics)).value(f"{metric.name}_count", **labels) == 0


async def test_tokens_are_counted_only_where_the_engine_said_how_many() -> None:
    metrics = Metrics(POOLS)
    metrics.observe(record(prompt_tokens=None, completion_tokens=None))
    page = await page_of(metrics)
    assert page.value("breakeven_prompt_tokens_total", pool="spec") == 0
    assert page.value("breakeven_completion_tokens_total", pool="spec") == 0


async def test_buckets_are_cumulative_and_a_value_on_a_bound_is_within_it() -> None:
    metrics = Metrics(POOLS)
    for duration_s in (0.05, 0.06, 10_000.0):
        metrics.observe(record(received_s=0.0, decided_s=None, finished_s=duration_s))
    page = await page_of(metrics)
    name = "breakeven_request_duration_seconds_bucket"
    assert [page.value(name, pool="spec", le=bound) for bound in ("0.05", "0.1", "512.0", "+Inf")] == [1, 2, 2, 3]


async def test_gauges_of_backends_come_from_the_fleet_at_this_moment() -> None:
    metrics, fleet = Metrics(POOLS), Fleet(POOLS)
    fleet.apply(ProbeSucceeded("spec-0"))
    fleet.apply(Started("spec-0"))
    event = Scraped("spec-0", EngineSignals(running=3.0, waiting=0.0, kv_usage=0.25), 5.0)
    fleet.apply(event)
    metrics.scraped(event)
    page = await page_of(metrics, fleet, now_s=7.0)
    spec = {"pool": "spec", "backend": "spec-0"}
    assert page.value("breakeven_requests_in_flight", **spec) == 1
    assert page.value("breakeven_backend_ready", **spec) == 1
    assert page.value("breakeven_backend_ready", pool="base", backend="base-0") == 0
    assert page.value("breakeven_engine_requests_running", **spec) == 3
    assert page.value("breakeven_engine_requests_waiting", **spec) == 0
    assert page.value("breakeven_engine_kv_cache_usage_ratio", **spec) == 0.25
    assert page.value("breakeven_engine_signal_age_seconds", **spec) == 2


async def test_what_an_engine_does_not_report_is_absent_and_not_zero() -> None:
    metrics, fleet = Metrics(POOLS), Fleet(POOLS)
    event = Scraped("base-0", EngineSignals(waiting=1.0), 5.0)
    fleet.apply(event)
    metrics.scraped(event)
    page = await page_of(metrics, fleet)
    for name in (
        "requests_running",
        "requests_waiting",
        "kv_cache_usage_ratio",
        "acceptance_length",
        "signal_age_seconds",
    ):
        assert page.value(f"breakeven_engine_{name}", pool="spec", backend="spec-0") is None
    assert page.value("breakeven_engine_requests_running", pool="base", backend="base-0") is None
    assert page.value("breakeven_engine_requests_waiting", pool="base", backend="base-0") == 1
    assert page.value("breakeven_engine_acceptance_length", pool="base", backend="base-0") is None


async def test_acceptance_is_shown_for_an_engine_that_speculates() -> None:
    metrics, fleet = Metrics(POOLS), Fleet(POOLS)
    for second, count in ((1.0, 100.0), (3.0, 200.0)):
        signals = EngineSignals(drafts=count, draft_tokens=3 * count, accepted_tokens=1.5 * count)
        fleet.apply(Scraped("spec-0", signals, second))
        metrics.scraped(Scraped("spec-0", signals, second))
    page = await page_of(metrics, fleet)
    assert page.value("breakeven_engine_acceptance_length", pool="spec", backend="spec-0") == 2.5
    assert page.value("breakeven_engine_draft_acceptance_ratio", pool="spec", backend="spec-0") == 0.5


async def test_events_of_backends_are_counted_under_their_pool() -> None:
    metrics = Metrics(POOLS)
    metrics.attempt("spec", "spec-1", "refused")
    metrics.health_changed("spec", "spec-1", Health.DOWN)
    metrics.probe_failed("spec-1")
    metrics.scrape_failed("spec-1")
    metrics.scrape_failed("spec-1")
    metrics.client_connections += 4
    page = await page_of(metrics)
    spec = {"pool": "spec", "backend": "spec-1"}
    assert page.value("breakeven_upstream_attempts_total", result="refused", **spec) == 1
    assert page.value("breakeven_backend_health_changes_total", health="down", **spec) == 1
    assert page.value("breakeven_backend_probe_failures_total", **spec) == 1
    assert page.value("breakeven_backend_scrape_failures_total", **spec) == 2
    assert page.value("breakeven_client_connections") == 4
    assert page.value("breakeven_policy_info", policy="threshold", table_hash="none") == 1
    with pytest.raises(KeyError):
        metrics.probe_failed("unknown")


async def test_what_other_processes_counted_is_added_by_label_set() -> None:
    ledgers = [Ledger(), Ledger()]
    workers = [Metrics(POOLS, ledger) for ledger in ledgers]
    shown = Metrics(POOLS, others=lambda: ledgers)
    for number, worker in enumerate(workers, 1):
        worker.observe(record())
        worker.observe(record(reason=f"only_{number}"))
        worker.client_connections += number
    shown.observe(record())
    page = await page_of(shown)
    labels = {"pool": "spec", "outcome": "completed"}
    assert page.value("breakeven_requests_total", reason="temperature_within_threshold", **labels) == 3
    assert page.value("breakeven_requests_total", reason="only_1", **labels) == 1
    assert page.value("breakeven_requests_total", reason="only_2", **labels) == 1
    assert page.value("breakeven_request_duration_seconds_count", pool="spec") == 5
    assert page.value("breakeven_request_duration_seconds_sum", pool="spec") == pytest.approx(12.5)
    assert page.value("breakeven_request_duration_seconds_bucket", pool="spec", le="4.0") == 5
    assert page.value("breakeven_client_connections") == 3


async def test_a_backend_or_pool_that_was_taken_away_is_not_shown_and_counts_on_when_it_is_back() -> None:
    metrics = Metrics(POOLS)
    metrics.observe(record())
    for backend in ("spec-0", "spec-1"):
        metrics.attempt("spec", backend, "answered")
    only_one = PoolSpec("spec", PoolKind.SPECULATIVE, "eagle3", 3, ("spec-1",))
    page = await page_of(metrics, Fleet((POOLS[0], only_one)))
    result = {"pool": "spec", "result": "answered"}
    assert page.value("breakeven_upstream_attempts_total", backend="spec-0", **result) is None
    assert page.value("breakeven_upstream_attempts_total", backend="spec-1", **result) == 1
    page = await page_of(metrics, Fleet(POOLS[:1]))
    assert 'pool="spec"' not in page.text
    metrics.attempt("spec", "spec-0", "answered")
    page = await page_of(metrics)
    assert page.value("breakeven_upstream_attempts_total", backend="spec-0", **result) == 2
    assert page.value("breakeven_request_duration_seconds_count", pool="spec") == 1


async def test_the_page_has_every_metric_of_the_table_once_and_those_of_the_process() -> None:
    page = await page_of(Metrics(POOLS))
    types = [line.split()[2:] for line in page.text.splitlines() if line.startswith("# TYPE")]
    assert [[metric.name, metric.kind] for metric in table.TABLE] == [line for line in types if "breakeven" in line[0]]
    assert page.value("process_open_fds") is not None
    assert len({name for name, _ in types}) == len(types)


async def test_the_number_of_series_does_not_grow_with_what_clients_send() -> None:
    metrics = Metrics(POOLS)
    metrics.observe(record())
    before = (await page_of(metrics)).series
    for number in range(1000):
        metrics.observe(record(model=f"model-{number}", request_id=f"id-{number}", endpoint="chat.completions"))
    page = await page_of(metrics)
    assert page.series == before
    assert len(page.text) < 100_000


@pytest.mark.skipif(sys.gettrace() is not None, reason="a tracer multiplies the cost")
def test_observing_a_request_costs_microseconds() -> None:
    metrics, finished = Metrics(POOLS), record()

    def timed() -> float:
        began = perf_counter()
        for _ in range(1000):
            metrics.observe(finished)
        return (perf_counter() - began) / 1000

    # 4 µs measured; the bound leaves room for a busy machine and still catches a tenfold cost.
    assert min(timed() for _ in range(5)) < 20e-6


async def test_another_configuration_begins_new_series_at_zero_and_lets_none_fall() -> None:
    metrics = Metrics(POOLS)
    metrics.attempt("spec", "spec-0", "answered")
    metrics.probe_failed("spec-1")
    pools = (PoolSpec("spec", PoolKind.SPECULATIVE, "eagle3", 3, ("spec-1", "spec-2")),)
    metrics.reconfigure(pools)
    page = await page_of(metrics, Fleet(pools))
    assert page.value("breakeven_backend_probe_failures_total", pool="spec", backend="spec-1") == 1
    assert page.value("breakeven_backend_probe_failures_total", pool="spec", backend="spec-2") == 0
    assert "spec-0" not in page.text
    metrics.scraped(Scraped("spec-2", EngineSignals(running=1.0), 1.0))


async def test_a_backend_that_moved_to_another_pool_is_shown_in_that_one_only() -> None:
    metrics = Metrics(POOLS)
    metrics.probe_failed("spec-1")
    pools = (
        PoolSpec("base", PoolKind.PLAIN, "none", 0, ("spec-1",)),
        PoolSpec("spec", PoolKind.SPECULATIVE, "eagle3", 3, ("spec-0",)),
    )
    metrics.reconfigure(pools)
    page = await page_of(metrics, Fleet(pools))
    assert page.value("breakeven_backend_probe_failures_total", pool="spec", backend="spec-1") is None
    assert page.value("breakeven_backend_probe_failures_total", pool="base", backend="spec-1") == 0


async def test_readings_of_the_configuration_are_counted_and_the_last_good_one_dated() -> None:
    metrics = Metrics(POOLS)
    metrics.config_reloaded(ReloadResult.SUCCESS, 100.0)
    metrics.config_reloaded(ReloadResult.FAILURE, 200.0)
    page = await page_of(metrics)
    assert page.value("breakeven_config_reloads_total", result="success") == 1
    assert page.value("breakeven_config_reloads_total", result="failure") == 1
    assert page.value("breakeven_config_last_success_timestamp_seconds") == 100.0


async def test_the_end_of_each_certificate_is_shown_and_of_one_that_is_gone_no_more() -> None:
    name = "breakeven_certificate_expiry_timestamp_seconds"
    metrics = Metrics(POOLS)
    metrics.certificates = [Certificate(None, "tls_cert", 1e9), Certificate("spec", "tls.ca", 2e9)]
    page = await page_of(metrics)
    assert page.value(name, pool="none", setting="tls_cert") == 1e9
    assert page.value(name, pool="spec", setting="tls.ca") == 2e9
    metrics.certificates = []
    assert (await page_of(metrics)).value(name, pool="none", setting="tls_cert") is None


async def test_a_page_that_is_being_made_while_a_backend_goes_is_finished() -> None:
    metrics = Metrics(POOLS)
    before = Fleet(POOLS).snapshot(0.0)
    metrics.reconfigure(POOLS[:1])
    assert b"spec-1" in await metrics.render(before, "threshold")
