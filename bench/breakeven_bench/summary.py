"""From the records of one arm at one rate to what a table shows, and to the reasons for not believing it.

All times are seconds of the engine, simulated or real.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakeven_bench.engine_page import StepCounts
from breakeven_bench.record import Figures, RequestRecord, figures, inter_event_ms, tokens_after_first
from breakeven_bench.stats import Backlog, Estimate, backlog, interpolated, mean, quantile, quantile_n_min

LATE_SHARE_MAX = 0.05
"""Above this share of late steps or late sends an arm measures the machine it ran on."""

LATE_SEND_S = 0.1
"""A request is sent late from here on: 5 % of the target for the first token."""

LAG_MAX_S = 0.1
"""The same for the client's loop, at its 99th percentile: events are then stamped that much after they came."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a user should get: time to first token, and time per output token after it."""

    ttft_s: float = 2.0
    tpot_ms: float = 50.0

    def is_met(self, served: Figures) -> bool:
        """Whether an answer was in time; one of a single event has only a first token to be late with."""
        return served.ttft_s <= self.ttft_s and (served.tpot_ms is None or served.tpot_ms <= self.tpot_ms)


@dataclass(frozen=True, slots=True)
class Summary:
    """One arm at one rate (None: a closed loop). `latencies_s` is by index of the request, so that arms can be paired.

    `within_target` is a share of everything sent: what failed did not meet it. `pool_shares` is of what an engine
    answered. Time per output token is given request-weighted (every answer counts once) and token-weighted (every
    token does). `gap_p95_ms` is of all gaps between events. `backlog` is None where the run is too short to tell
    whether it settled.
    """

    arm: str
    rate_per_s: float | None
    sent: int
    latencies_s: Mapping[int, float]
    errors: Mapping[str, int]
    latency_mean_s: float | None
    latency_p95_s: Estimate | None
    ttft_mean_s: float | None
    ttft_p95_s: Estimate | None
    tpot_mean_ms: float | None
    tpot_token_weighted_ms: float | None
    tokens_per_event: float | None
    gap_p95_ms: float | None
    pool_shares: Mapping[str, float]
    within_target: float
    late_p95_s: float | None
    late_share: float
    events_per_read: float | None
    backlog: Backlog | None

    @property
    def settled(self) -> bool | None:
        """Whether the arm kept up with its arrivals; None: too short to tell."""
        return None if self.backlog is None else self.backlog.settled


def summarise(arm: str, rate_per_s: float | None, records: Sequence[RequestRecord], target: Target) -> Summary:
    """The figures of one arm at one rate; ValueError of no record at all."""
    if not records:
        message = f"nothing was sent to {arm}"
        raise ValueError(message)
    served = {record.index: made for record in records if (made := figures(record)) is not None}
    complete = [record for record in records if record.error is None]
    late_s = sorted((record.sent_s - record.scheduled_s) * record.time_scale for record in records)
    return Summary(
        arm=arm,
        rate_per_s=rate_per_s,
        sent=len(records),
        latencies_s={index: made.latency_s for index, made in served.items()},
        errors=dict(Counter(str(record.error) for record in records if record.error is not None)),
        latency_mean_s=mean([made.latency_s for made in served.values()]),
        latency_p95_s=quantile([made.latency_s for made in served.values()], 0.95),
        ttft_mean_s=mean([made.ttft_s for made in served.values()]),
        ttft_p95_s=quantile([made.ttft_s for made in served.values()], 0.95),
        tpot_mean_ms=mean([made.tpot_ms for made in served.values() if made.tpot_ms is not None]),
        tpot_token_weighted_ms=token_weighted_ms(complete),
        tokens_per_event=mean([made.tokens_per_event for made in served.values() if made.tokens_per_event]),
        gap_p95_ms=gap_p95_ms(complete),
        pool_shares=shares([record.pool for record in records if record.pool is not None]),
        within_target=sum(target.is_met(made) for made in served.values()) / len(records),
        late_p95_s=interpolated(late_s, 0.95),
        late_share=sum(late > LATE_SEND_S for late in late_s) / len(late_s),
        events_per_read=events_per_read(complete),
        backlog=backlog(*lives(records)),
    )


def token_weighted_ms(records: Sequence[RequestRecord]) -> float | None:
    """Time between first and last event over the tokens that came in it, of all answers together."""
    counted = [(record, tokens) for record in records if (tokens := tokens_after_first(record)) is not None]
    spent_s = sum((record.event_s[-1] - record.event_s[0]) * record.time_scale for record, _ in counted)
    tokens = sum(tokens for _, tokens in counted)
    return 1000.0 * spent_s / tokens if tokens else None


def gap_p95_ms(records: Sequence[RequestRecord]) -> float | None:
    """95th percentile of the gaps between events, of all answers together: how smooth the streams were.

    Without an interval: the gaps of one answer depend on each other. None below as many gaps as the quantile needs.
    """
    gaps_ms = sorted(gap_ms for record in records for gap_ms in inter_event_ms(record))
    return interpolated(gaps_ms, 0.95) if len(gaps_ms) >= quantile_n_min(0.95) else None


def events_per_read(records: Sequence[RequestRecord]) -> float | None:
    """Events with tokens for each socket read: well above 1 on a plain engine, the client reads late."""
    reads = sum(record.reads for record in records)
    return sum(len(record.event_s) for record in records) / reads if reads else None


def shares(names: Sequence[str]) -> dict[str, float]:
    """Each name's share, by name."""
    return {name: number / len(names) for name, number in sorted(Counter(names).items())}


def lives(records: Sequence[RequestRecord]) -> tuple[list[float], list[float | None]]:
    """When each request was due and when it ended, in seconds of the engine; what was given up has no end."""
    starts = [record.scheduled_s * record.time_scale for record in records]
    ends = [None if record.end_s is None else record.end_s * record.time_scale for record in records]
    return starts, ends


def doubts(summary: Summary, steps: StepCounts | None, lag_p99_s: float | None) -> tuple[str, ...]:
    """Why the figures of an arm are not to be believed; empty: nothing speaks against them.

    `steps` is None for real engines, which have no deadlines to miss. `lag_p99_s` is in seconds of the engine.
    """
    found = []
    if steps is not None and steps.late_share > LATE_SHARE_MAX:
        found.append(f"{steps.late_share:.1%} of engine steps late")
    if summary.late_share > LATE_SHARE_MAX:
        found.append(f"{summary.late_share:.1%} of requests sent late")
    if lag_p99_s is not None and lag_p99_s > LAG_MAX_S:
        found.append(f"client lagged {lag_p99_s:.2f} s")
    return tuple(found)
