"""Small builders of records, summaries and runs for the tests of what is made of them."""

from dataclasses import replace

from breakeven_bench.arms import ARMS, Arm
from breakeven_bench.record import RequestRecord
from breakeven_bench.stats import Backlog
from breakeven_bench.summary import Summary
from breakeven_bench.verdict import Run

SETTLED = Backlog(middle=10.0, last=10.0, arrivals=20.0)
GROWING = Backlog(middle=10.0, last=20.0, arrivals=20.0)


def record(index: int, latency_s: float = 3.0, **changes) -> RequestRecord:
    """A complete answer of 21 tokens in three events: first token after 1 s, due once a second."""
    start_s = float(index)
    made = RequestRecord(
        run_id="r",
        arm="arm",
        index=index,
        prompt_id="short_qa-0",
        category="short_qa",
        temperature=0.7,
        max_tokens=100,
        seed=index,
        scheduled_s=start_s,
        sent_s=start_s,
        head_s=start_s + 0.5,
        end_s=start_s + latency_s,
        event_s=(start_s + 1.0, start_s + 1.0 + (latency_s - 1.0) / 2, start_s + latency_s),
        event_tokens=(1, 11, 21),
        reads=3,
        status=200,
        pool="speculative",
        backend="speculative-0",
        reason="least_loaded",
        prompt_tokens=10,
        completion_tokens=21,
        finish_reason="stop",
    )
    return replace(made, **changes)


def summary(
    name: str = "threshold", mean_s: float = 3.0, backlog: Backlog | None = SETTLED, count: int = 60
) -> Summary:
    """Latencies that vary from request to request, around a mean."""
    latencies = {index: mean_s * (0.5 + (index % 11) / 10) for index in range(count)}
    return Summary(
        arm=name,
        rate_per_s=2.0,
        sent=count,
        latencies_s=latencies,
        errors={},
        latency_mean_s=sum(latencies.values()) / count if count else None,
        latency_p95_s=None,
        ttft_mean_s=0.2,
        ttft_p95_s=None,
        tpot_mean_ms=12.5,
        tpot_token_weighted_ms=12.0,
        tokens_per_event=2.5,
        gap_p95_ms=30.0,
        pool_shares={"baseline": 0.08, "speculative": 0.92},
        within_target=0.97,
        late_p95_s=0.001,
        late_share=0.0,
        events_per_read=1.0,
        backlog=backlog,
    )


def arm(name: str) -> Arm:
    """The arm of the table."""
    return next(arm for arm in ARMS if arm.name == name)


def run(name: str, mean_s: float, *, backlog: Backlog | None = SETTLED, doubts=(), count: int = 60, steps=None) -> Run:
    """A run of an arm of the table."""
    return Run(arm(name), summary(name, mean_s, backlog, count), tuple(doubts), steps)
