"""Counts what happens and shows it to Prometheus.

Observing happens in the path of every request: the places of its numbers (`ledger`) are looked up once for each label
set, and from then on it is additions only. prometheus_client's own objects appear only when a page is rendered, one
family at a time, so that relays run in between.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate

from msgspec import Struct
from prometheus_client import Metric as Family
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from breakeven import metric_table as table
from breakeven.certificate_dates import Certificate
from breakeven.equivalence import Finding
from breakeven.fleet import PoolSpec, Scraped
from breakeven.ledger import Labels, Ledger, totals
from breakeven.metric_table import Compared, Metric, MetricKind, ReloadResult
from breakeven.record import Outcome, RequestRecord, Waited
from breakeven.shortage import Side
from breakeven.signal_window import SignalWindow
from breakeven.table_book import Match, hash_in_use
from breakeven_policies.agreement import Agreement
from breakeven_policies.snapshot import BackendView, FleetSnapshot, Health, Suspicion

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The text format that every Prometheus reads."""

_POOL = ("pool",)
_BACKEND = ("pool", "backend")

NONE = "none"
"""The label value where there is no pool or no reason."""

CAUSES = (Suspicion.FAILURES, Suspicion.FROZEN, Suspicion.ERRORS)
"""What an engine is ejected for."""

Series = dict[Labels, list[float]]


class Count:
    """A counter, or a gauge that is kept: one cell for each combination of label values."""

    __slots__ = ("_cells", "_ledger", "_places", "metric")

    def __init__(self, metric: Metric, ledger: Ledger) -> None:
        self.metric = metric
        self._ledger = ledger
        self._cells = ledger.cells
        self._places: dict[Labels, int] = {}

    def place(self, labels: Labels) -> int:
        """Where its cell is; from now on the series is shown."""
        place = self._places.get(labels)
        if place is None:
            place = self._places[labels] = self._ledger.place(self.metric.name, labels)
        return place

    def add(self, labels: Labels, amount: float = 1.0) -> None:
        """Raise by `amount`."""
        self._cells[self.place(labels)] += amount


class Histogram:
    """How often a value fell into each bucket, and the sum of all values, for one combination of label values."""

    __slots__ = ("_bounds", "_cells", "_start", "_sum")

    def __init__(self, metric: Metric, labels: Labels, ledger: Ledger) -> None:
        self._bounds = metric.buckets
        self._cells = ledger.cells
        # One cell for each bucket, one for what is above them all, one for the sum.
        self._start = ledger.place(metric.name, labels, len(metric.buckets) + 2)
        self._sum = self._start + len(metric.buckets) + 1

    def observe(self, value: float) -> None:
        """Count one value."""
        cells = self._cells
        cells[self._start + bisect_left(self._bounds, value)] += 1.0
        cells[self._sum] += value


class PoolSeries(Struct, frozen=True):
    """What is counted for the requests of one pool."""

    prompt_tokens: int
    completion_tokens: int
    first_token: Histogram
    token_time: Histogram
    duration: Histogram


class Metrics:
    """All numbers of one router. `pools` fixes the label values; `client_connections` is changed by the data plane.

    It counts in `ledger`; `others` are those of other processes, whose numbers are shown added to its own.
    """

    def __init__(
        self,
        pools: tuple[PoolSpec, ...],
        ledger: Ledger | None = None,
        others: Callable[[], Iterable[Ledger]] = tuple,
    ) -> None:
        self._ledger = ledger = Ledger() if ledger is None else ledger
        self._cells = ledger.cells
        self._others = others
        self.config_success_s = 0.0
        self.certificates: Sequence[Certificate] = ()
        self.policy_switched = False
        self.tables_in_use: tuple[Match, ...] = ()
        self.equivalence: Mapping[str, Finding] = {}
        self._pool_of = {backend: pool.name for pool in pools for backend in pool.backends}
        self._windows = {backend: SignalWindow() for backend in self._pool_of}
        self._counts = {name: Count(metric, ledger) for name, metric in table.BY_NAME.items() if not metric.buckets}
        self._attempts = self._counts[table.ATTEMPTS.name]
        self._connections = self._counts[table.CLIENT_CONNECTIONS.name].place(())
        self._queued = self._counts[table.QUEUED.name].place(())
        self._waits = {how: Histogram(table.QUEUE_WAIT, (how,), ledger) for how in Waited}
        self._decision = Histogram(table.DECISION, (), ledger)
        self._added_latency = Histogram(table.ADDED_LATENCY, (), ledger)
        self._pool_series: dict[str, PoolSeries] = {}
        self._shadow_times: dict[str, Histogram] = {}
        self._requests: dict[tuple[str | None, str | None, Outcome | None], int] = {}
        self._start_at_zero(pools)

    def _start_at_zero(self, pools: tuple[PoolSpec, ...]) -> None:
        """A series that starts at 0 lets rate() see its first step; done where the combinations are few."""
        self._counts[table.WORKER_RESTARTS.name].place(())
        for side in Side:
            self._counts[table.SHORTAGES.name].place((side,))
        for log in ("access", "journal", "spans"):
            for why in ("queue_full", "write_failed"):
                self._counts[table.LINES_LOST.name].place((log, why))
        for result in ReloadResult:
            self._counts[table.CONFIG_RELOADS.name].place((result,))
        for pool in pools:
            self._series_of(pool.name)
            for backend in pool.backends:
                for metric in (table.PROBE_FAILURES, table.SCRAPE_FAILURES):
                    self._counts[metric.name].place((pool.name, backend))
                for cause in CAUSES:
                    self._counts[table.EJECTIONS.name].place((pool.name, backend, cause))

    def _series_of(self, pool: str) -> PoolSeries:
        labels = (pool,)
        series = self._pool_series[pool] = PoolSeries(
            prompt_tokens=self._counts[table.PROMPT_TOKENS.name].place(labels),
            completion_tokens=self._counts[table.COMPLETION_TOKENS.name].place(labels),
            first_token=Histogram(table.FIRST_TOKEN, labels, self._ledger),
            token_time=Histogram(table.TOKEN_TIME, labels, self._ledger),
            duration=Histogram(table.DURATION, labels, self._ledger),
        )
        return series

    def _count_request(self, record: RequestRecord) -> None:
        key = (record.pool, record.reason, record.outcome)
        place = self._requests.get(key)
        if place is None:
            labels = (record.pool or NONE, record.reason or NONE, record.outcome or NONE)
            place = self._requests[key] = self._counts[table.REQUESTS.name].place(labels)
        self._cells[place] += 1.0

    @property
    def client_connections(self) -> int:
        """Open connections of clients to this process."""
        return int(self._cells[self._connections])

    @client_connections.setter
    def client_connections(self, count: int) -> None:
        self._cells[self._connections] = float(count)

    @property
    def queued(self) -> int:
        """Requests of this process that wait for a place at an engine."""
        return int(self._cells[self._queued])

    @queued.setter
    def queued(self, count: int) -> None:
        self._cells[self._queued] = float(count)

    def waited(self, how: Waited, wait_s: float) -> None:
        """A request does not wait for a place any more."""
        self._waits[how].observe(wait_s)

    def reconfigure(self, pools: tuple[PoolSpec, ...]) -> None:
        """Other pools from now on. What is counted stays counted; what is gone is shown no more."""
        self._pool_of = {backend: pool.name for pool in pools for backend in pool.backends}
        self._windows = {backend: self._windows.get(backend) or SignalWindow() for backend in self._pool_of}
        self._start_at_zero(pools)

    def config_reloaded(self, result: ReloadResult, at_s: float) -> None:
        """The configuration was read again, or at the start for the first time, at this Unix time."""
        if result is ReloadResult.SUCCESS:
            self.config_success_s = at_s
        self._counts[table.CONFIG_RELOADS.name].add((result,))

    def observe(self, record: RequestRecord) -> None:
        """A request has finished."""
        self._count_request(record)
        pool, received_s, finished_s = record.pool, record.received_s, record.finished_s
        waited = record.waited_s is not None  # for a place: what the engines took, not the router
        if record.decided_s is not None and not waited:
            self._decision.observe(record.decided_s - received_s)
        if pool is None or finished_s is None:
            return
        series = self._pool_series.get(pool) or self._series_of(pool)
        series.duration.observe(finished_s - received_s)
        if record.attempts == 1 and record.sent_s is not None and not waited:
            self._added_latency.observe(record.sent_s - received_s)
        if record.prompt_tokens is not None:
            self._cells[series.prompt_tokens] += record.prompt_tokens
        tokens = record.completion_tokens
        if tokens is not None:
            self._cells[series.completion_tokens] += tokens
        first_token_s = record.first_token_s
        if record.stream and first_token_s is not None:
            series.first_token.observe(first_token_s - received_s)
            if tokens is not None and tokens > 1:
                series.token_time.observe((finished_s - first_token_s) / (tokens - 1))

    def attempt(self, pool: str, backend: str, result: str) -> None:
        """An attempt on a backend ended; `result` is a word of a closed set."""
        self._attempts.add((pool, backend, result))

    def health_changed(self, pool: str, backend: str, health: Health) -> None:
        """The fleet changed its mind about a backend."""
        self._counts[table.HEALTH_CHANGES.name].add((pool, backend, health))

    def worker_replaced(self) -> None:
        """A worker process ended and another one was started."""
        self._counts[table.WORKER_RESTARTS.name].add(())

    def ejected(self, pool: str, backend: str, cause: Suspicion | None) -> None:
        """The fleet ejected a backend."""
        self._counts[table.EJECTIONS.name].add((pool, backend, cause or NONE))

    def probe_failed(self, backend: str) -> None:
        """A health check failed."""
        self._counts[table.PROBE_FAILURES.name].add((self._pool_of[backend], backend))

    def scrape_failed(self, backend: str) -> None:
        """A metrics page could not be read."""
        self._counts[table.SCRAPE_FAILURES.name].add((self._pool_of[backend], backend))

    def shadow_starts(self, policy: str) -> None:
        """Requests are decided under this policy too from now on."""
        self._shadow_times[policy] = Histogram(table.SHADOW_SECONDS, (policy,), self._ledger)
        for metric in (table.SHADOW_REGRET, table.SHADOW_REGRET_KNOWN):
            self._counts[metric.name].place((policy,))
        for result in Agreement:
            self._counts[table.SHADOW_DECISIONS.name].place((policy, result, NONE))

    def shadow_decided(self, policy: str, result: str, wanted: str | None = None, took_s: float | None = None) -> None:
        """A shadow policy was asked, or was not for want of time; `wanted`: the pool that it would have chosen."""
        self._counts[table.SHADOW_DECISIONS.name].add((policy, result, wanted or NONE))
        if took_s is not None:
            self._shadow_times[policy].observe(took_s)

    def shadow_regrets(self, policy: str, regret: float) -> None:
        """A shadow policy could say what is lost by what was done instead of what it would have done."""
        self._counts[table.SHADOW_REGRET.name].add((policy,), regret)
        self._counts[table.SHADOW_REGRET_KNOWN.name].add((policy,))

    def shortage(self, side: Side) -> None:
        """A socket could not be had for want of descriptors of our own."""
        self._counts[table.SHORTAGES.name].add((side,))

    def lines_lost(self, log: str, why: str, lines: int) -> None:
        """A log could not keep up or could not be written. Each pair of labels is counted by one thread only."""
        self._counts[table.LINES_LOST.name].add((log, why), lines)

    def compared(self, pool: str, backend: str, result: Compared) -> None:
        """A greedy answer of a speculative engine was compared with that of a plain one, or could not be."""
        self._counts[table.EQUIVALENCE_CHECKS.name].add((pool, backend, result))

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
        configured = _configured(snapshot)
        for metric in table.TABLE:
            series = gauges.get(metric.name)
            if series is None:
                counted = self.counted(metric)
                series = {labels: numbers for labels, numbers in counted.items() if configured(metric, labels)}
            yield _family(metric, series)

    def counted(self, metric: Metric) -> Series:
        """The numbers of all processes together, by label set."""
        return totals((self._ledger, *self._others()), metric.name)

    def _gauges(self, snapshot: FleetSnapshot, policy: str) -> dict[str, Series]:
        """What is not counted but known now."""
        gauges: dict[str, Series] = {metric.name: {} for metric in table.OF_THE_FLEET}
        gauges[table.POLICY_SWITCHED.name] = {(): [float(self.policy_switched)]}
        gauges[table.POLICY_INFO.name] = {(policy, hash_in_use(self.tables_in_use)): [1.0]}
        gauges[table.TABLE_APPLIES.name] = {
            (match.pool, match.hash, match.why): [float(match.measurement is not None)] for match in self.tables_in_use
        }
        gauges[table.CONFIG_SUCCESS.name] = {(): [self.config_success_s]}
        gauges[table.CERTIFICATE_EXPIRY.name] = {
            (each.pool or NONE, each.setting): [each.expires_s] for each in self.certificates
        }
        gauges[table.BUILD_INFO.name] = {(version("breakeven"),): [1.0]}
        for pool in snapshot.pools:
            for backend in pool.backends:
                # A page is made in many turns of the loop: a reload may have taken away what the snapshot still shows.
                window = self._windows.get(backend.name) or SignalWindow()
                for metric, value in _backend_values(backend, window, snapshot.now_s):
                    if value is not None:
                        gauges[metric.name][pool.name, backend.name] = [value]
                finding = self.equivalence.get(backend.name)
                if finding is not None:
                    gauges[table.EQUIVALENCE_DIVERGED.name][pool.name, backend.name] = [finding.share]
                    gauges[table.EQUIVALENCE_BROKEN.name][pool.name, backend.name] = [float(finding.broken)]
        return gauges


def _configured(snapshot: FleetSnapshot) -> Callable[[Metric, Labels], bool]:
    """Whether the pool and the backend among the labels are there: those that a reload took away are not shown."""
    pools = {pool.name for pool in snapshot.pools} | {NONE}
    backends = {(pool.name, backend.name) for pool in snapshot.pools for backend in pool.backends}
    return lambda metric, labels: (
        labels[:2] in backends if metric.labels[:2] == _BACKEND else metric.labels[:1] != _POOL or labels[0] in pools
    )


def _family(metric: Metric, series: Series) -> Family:
    """The numbers as prometheus_client wants them; those of a histogram cumulated."""
    if metric.kind is not MetricKind.HISTOGRAM:
        kind = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
        family = kind(metric.name, metric.help, labels=metric.labels)
        for labels, (value,) in series.items():
            family.add_metric(labels, value)
        return family
    histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    bounds = [*map(repr, metric.buckets), "+Inf"]
    for labels, numbers in series.items():
        buckets = list(zip(bounds, accumulate(numbers[:-1]), strict=True))
        histogram.add_metric(labels, buckets, numbers[-1])
    return histogram


def _backend_values(backend: BackendView, window: SignalWindow, now_s: float) -> Iterator[tuple[Metric, float | None]]:
    """What is known of one backend; None for what is not, since unknown is not zero."""
    yield table.IN_FLIGHT, backend.in_flight
    yield table.READY, backend.health is Health.READY
    yield table.DRAINING, backend.draining
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
