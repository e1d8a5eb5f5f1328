"""What learning begins with where a measured table speaks of a pool: the table in the classes that requests have.

A table's cells are about a temperature, or about a workload that somebody named; requests have a class of a band of
temperatures and a size, or a name (`workload`). A band is read at the temperature that most of its requests have.
"""

from collections.abc import Iterator

from breakeven_policies.curve import KNOTS, Curve, curve_of
from breakeven_policies.learning import PoolPrior
from breakeven_policies.measured import ANY_WORKLOAD
from breakeven_policies.measurement import Measurement
from breakeven_policies.snapshot import PoolKind
from breakeven_policies.workload import BANDS, band_of

TEMPERATURES = dict(zip(BANDS, (0.0, 0.3, 0.7, 1.0, 1.3), strict=True))
"""For each band the temperature that stands for it: greedy, 0.7 and 1.0 are what clients and protocols send; 0.3 and
1.3 lie in the middle of what is left (rows of published tables: 0.3; 1.2 and 1.5)."""


def prior_of(measurement: Measurement) -> PoolPrior | None:
    """What a table says of a pool, for `learning`; None where it has no step times, without which nothing is known."""
    if not measurement.steps:
        return None
    step_s = curve_of([(point.x, point.value / 1000.0) for point in measurement.steps])
    lengths = {} if measurement.setup.kind is PoolKind.PLAIN else dict(_lengths(measurement))
    return PoolPrior(
        step_s=step_s,
        acceptance_lengths=lengths,
        acceptance_length=_mean(measurement),
        prefill_s=measurement.prefill_s_per_prompt_token,
        draft_share=_draft_share(measurement),
        table=measurement.hash,
    )


def _lengths(measurement: Measurement) -> Iterator[tuple[str, float]]:
    """Tokens per step of bands, and of the classes and names that the table knows, at its smallest batch."""
    for band, temperature in TEMPERATURES.items():
        found = measurement.acceptance_length(ANY_WORKLOAD, temperature, 0.0)
        if found is not None:
            yield band, found.value
    for name in sorted({cell.workload for cell in measurement.cells if cell.acceptance_length is not None}):
        if name == ANY_WORKLOAD:
            continue
        bands = (band_of(name),) if band_of(name) in TEMPERATURES else BANDS
        readings = ((band, measurement.acceptance_length(name, TEMPERATURES[band], 0.0)) for band in bands)
        yield from ((name if len(bands) == 1 else f"{band}/{name}", found.value) for band, found in readings if found)


def _mean(measurement: Measurement) -> float | None:
    """Tokens per step over all its cells, each once: what is said of a class that none of them is about."""
    lengths = [cell.acceptance_length.mean for cell in measurement.cells if cell.acceptance_length is not None]
    return sum(lengths) / len(lengths) if lengths else None


def _draft_share(measurement: Measurement) -> Curve | None:
    """Where k follows the batch, what is left of the acceptance beyond one token, of that at the smallest batch."""
    batches = sorted({cell.running for cell in measurement.cells if cell.acceptance_length is not None})
    if not measurement.setup.speculative_tokens_per_batch_size or len(batches) < 2:
        return None
    first = _beyond_one(measurement, batches[0])
    if first <= 0.0:
        return None
    shares = (_beyond_one(measurement, float(knot)) / first for knot in KNOTS)
    return Curve(tuple(min(max(share, 0.0), 1.0) for share in shares))


def _beyond_one(measurement: Measurement, running: float) -> float:
    """Mean tokens beyond the first of each step at a batch, over the bands."""
    found = [measurement.acceptance_length(ANY_WORKLOAD, each, running) for each in TEMPERATURES.values()]
    lengths = [reading.value for reading in found if reading is not None]
    return sum(lengths) / len(lengths) - 1.0 if lengths else 0.0
