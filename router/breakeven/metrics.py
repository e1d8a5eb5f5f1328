"""Counts what happens and shows it to Prometheus.

Observing costs a few dictionary look-ups (3 µs for a finished request), because it happens in the path of every
request; prometheus_client's own objects appear only when a page is rendered, one family at a time, so that relays run
in between.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import Metric as Family
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from breakeven import metric_table as table
from breakeven.fleet import PoolSpec, Scraped
from breakeven.metric_table import Metric, MetricKind
from breakeven.record import RequestRecord
from breakeven.shortage import Side
from breakeven.signal_window import SignalWindow
from breakeven_policies.snapshot import BackendView, FleetSnapshot, Health

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The text format that every Prometheus reads."""

NONE = "none"
"""The label value where there is no pool or no reason."""

Labels = tuple[str, ...]


class Count:
    """A counter or a gauge: one number for each combination of label values."""

    __slots__ = ("metric", "values")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Raise by `amount`."""
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def family(self) -> Family:
        """The current numbers."""
        kind = CounterMetricFamily if self.metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = kind(self.metric.name, self.metric.help, labels=self.metric.labels)
        for labels, value in self.values.items():
            family.add_metric(labels, value)
        return family


class Histogram:
    """How often a value fell into each bucket, and the sum of all values."""

    __slots__ = ("_buckets", "metric", "series")

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self._buckets = metric.buckets
        self.series: dict[Labels, list[float]] = {}

    def start(self, labels: Labels) -> list[float]:
        """An empty series: one count per bucket, one for what is above them all, and the sum."""
        return self.series.setdefault(labels, [0.0] * (len(self.metric.buckets) + 2))

    def observe(self, labels: Labels, value: float) -> None:
        """Count one value."""
        series = self.series.get(labels) or self.start(labels)
        series[bisect_left(self._buckets, value)] += 1.0
        series[-1] += value

    def family(self) -> Family:
        """The current numbers, cumulated as Prometheus wants them."""
        family = HistogramMetricFamily(self.metric.name, self.metric.help, labels=self.metric.labels)
        bounds = [*map(repr, self.metric.buckets), "+Inf"]
        for labels, series in self.series.items():
            total = 0.0
            buckets = [(bound, total := total + count) for bound, count in zip(bounds, series[:-1], strict=True)]
            family.add_metric(labels, buckets, series[-1])
        return family


class Metrics:
    """All numbers of one router. `pools` fixes the label values; `client_connections` is changed by the data plane."""

    def __init__(self, pools: tuple[PoolSpec, ...]) -> None:
        self.client_connections = 0
        self._pool_of = {backend: pool.name for pool in pools for backend in pool.backends}
        self._windows = {backend: SignalWindow() for backend in self._pool_of}
        self._counts = {metric.name: Count(metric) for metric in table.TABLE if metric.kind is MetricKind.COUNTER}
        self._histograms = {metric.name: Histogram(metric) for metric in table.TABLE if metric.buckets}
        self._requests = self._counts[table.REQUESTS.name]
        self._prompt_tokens = self._counts[table.PROMPT_TOKENS.name]
        self._completion_tokens = self._counts[table.COMPLETION_TOKENS.name]
        self._attempts = self._counts[table.ATTEMPTS.name]
        self._decision = self._histograms[table.DECISION.name]
        self._added_latency = self._histograms[table.ADDED_LATENCY.name]
        self._first_token = self._histograms[table.FIRST_TOKEN.name]
        self._token_time = self._histograms[table.TOKEN_TIME.name]
        self._duration = self._histograms[table.DURATION.name]
        self._start_at_zero(pools)

    def _start_at_zero(self, pools: tuple[PoolSpec, ...]) -> None:
        """A series that starts at 0 lets rate() see its first step; done where the combinations are few."""
        for histogram in (self._decision, self._added_latency):
            histogram.start(())
        for side in Side:
            self._counts[table.SHORTAGES.name].add((side,), 0.0)
        for pool in pools:
            for histogram in (self._first_token, self._token_time, self._duration):
                histogram.start((pool.name,))
            for count in (self._prompt_tokens, self._completion_tokens):
                count.add((pool.name,), 0.0)
            for backend in pool.backends:
                for metric in (table.PROBE_FAILURES, table.SCRAPE_FAILURES):
                    self._counts[metric.name].add((pool.name, backend), 0.0)

    def observe(self, record: RequestRecord) -> None:
        """A request has finished."""
        pool = record.pool
        self._requests.add((pool or NONE, record.reason or NONE, record.outcome or NONE))
        received_s = record.received_s
        if record.decided_s is not None:
            self._decision.observe((), record.decided_s - received_s)
        if pool is None or record.finished_s is None:
            return
        labels = (pool,)
        self._duration.observe(labels, record.finished_s - received_s)
        if record.attempts == 1 and record.sent_s is not None:
            self._added_latency.observe((), record.sent_s - received_s)
        if record.prompt_tokens is not None:
            self._prompt_tokens.add(labels, record.prompt_tokens)
        tokens = record.completion_tokens
        if tokens is not None:
            self._completion_tokens.add(labels, tokens)
        if record.stream and record.first_token_s is not None:
            self._first_token.observe(labels, record.first_token_s - received_s)
            if tokens is not None and tokens > 1:
                self._token_time.observe(labels, (record.finished_s - record.first_token_s) / (tokens - 1))

    def attempt(self, pool: str, backend: str, result: str) -> None:
        """An attempt on a backend ended; `result` is a word of a closed set."""
        self._attempts.add((pool, backend, result))

    def health_changed(self, pool: str, backend: str, health: Health) -> None:
        """The fleet changed its mind about a backend."""
        self._counts[table.HEALTH_CHANGES.name].add((pool, backend, health))

    def probe_failed(self, backend: str) -> None:
        """A health check failed."""
        self._counts[table.PROBE_FAILURES.name].add((self._pool_of[backend], backend))

    def scrape_failed(self, backend: str) -> None:
        """A metrics page could not be read."""
        self._counts[table.SCRAPE_FAILURES.name].add((self._pool_of[backend], backend))

    def shortage(self, side: Side) -> None:
        """A socket could not be had for want of descriptors of our own."""
        self._counts[table.SHORTAGES.name].add((side,))

    def scraped(self, event: Scraped) -> None:
        """A metrics page was read."""
        self._windows[event.backend].add(event.signals, event.now_s)

    async def render(self, snapshot: FleetSnapshot, policy: str) -> bytes:
        """The metrics page. Gives way to the loop after every family, 0.2 ms at most with two pools of two."""
        page = [generate_latest(_Page([family])) for family in await asyncio.to_thread(_process_families)]
        for family in self.families(snapshot, policy):
            page.append(generate_latest(_Page([family])))
            await asyncio.sleep(0)
        return b"".join(page)

    def families(self, snapshot: FleetSnapshot, policy: str) -> Iterator[Family]:
        """Every metric of the table, in its order."""
        gauges = self._gauges(snapshot, policy)
        for metric in table.TABLE:
            accumulated = self._counts.get(metric.name) or self._histograms.get(metric.name)
            yield (accumulated or gauges[metric.name]).family()

    def _gauges(self, snapshot: FleetSnapshot, policy: str) -> dict[str, Count]:
        gauges = {metric.name: Count(metric) for metric in table.TABLE if metric.kind is MetricKind.GAUGE}
        gauges[table.CLIENT_CONNECTIONS.name].add((), self.client_connections)
        gauges[table.POLICY_INFO.name].add((policy,))
        gauges[table.BUILD_INFO.name].add((version("breakeven"),))
        for pool in snapshot.pools:
            for backend in pool.backends:
                for metric, value in _backend_values(backend, self._windows[backend.name], snapshot.now_s):
                    if value is not None:
                        gauges[metric.name].add((pool.name, backend.name), value)
        return gauges


def _backend_values(backend: BackendView, window: SignalWindow, now_s: float) -> Iterator[tuple[Metric, float | None]]:
    """What is known of one backend; None for what is not, since unknown is not zero."""
    yield table.IN_FLIGHT, backend.in_flight
    yield table.READY, backend.health is Health.READY
    signals = backend.signals
    if signals is None:
        return
    yield table.ENGINE_RUNNING, signals.running
    yield table.ENGINE_WAITING, signals.waiting
    yield table.ENGINE_KV_USAGE, signals.kv_usage
    yield table.ENGINE_ACCEPTANCE_LENGTH, window.acceptance_length()
    yield table.ENGINE_ACCEPTANCE_RATIO, window.draft_acceptance_rate()
    yield table.ENGINE_SIGNAL_AGE, backend.signals_age_s(now_s)


class _Page(Collector):
    """Families that are collected already, in the shape that generate_latest wants."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> list[Family]:
        return self._families


def _process_families() -> list[Family]:
    """process_*: in a thread, because listing 10,000 open sockets in /proc takes 5 ms."""
    return list(ProcessCollector(registry=None).collect())
