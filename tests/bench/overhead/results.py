"""A small result that the tests share."""

from breakeven_bench.overhead.result import SCHEMA_VERSION, Provenance, Result, Sample, Visit


def sample(peer, load, number, value, failed=0, delay=(0.5, 2.0)):
    """One sample; `value` is its CPU in µs."""
    low, high = delay
    return Sample(peer, load, number, value, 20.0 + number, Visit(1.0, 100, failed, 1.0, 2.0, low, high))


_CPU = {
    "direct": {"documents": (30, 31, 29), "streams": (35, 34, 36), "paced": (40, 41, 42)},
    "breakeven": {"documents": (150, 160, 155), "streams": (50, 45, 47), "paced": (60, 66, 61)},
    "vllm-router": {"documents": (200, 200, 200), "streams": (50, 50, 40), "paced": (50, 50, 50)},
}

RESULT = Result(
    SCHEMA_VERSION,
    Provenance("2026-11-30T12:00:00+00:00", 60.0, "breakeven-bench overhead", "Linux x86_64", "A CPU", {"a": "1"}, 0.1),
    tuple(
        sample(peer, load, number, float(of_load[load][number]))
        for number in range(3)
        for peer, of_load in _CPU.items()
        for load in of_load
    ),
)
