"""A result as a Markdown table and as sentences."""

from collections.abc import Sequence
from statistics import median

from breakeven_bench.overhead.loads import DOCUMENTS, PACED, STREAMS
from breakeven_bench.overhead.result import DIRECT, OURS, Result, Sample, cpu_us, ratio

NOTHING = "–"

ROUNDS_MIN = 3
"""With fewer, chance alone puts every round on one side."""

WHAT = {
    DOCUMENTS.name: "CPU of a request with one JSON document",
    STREAMS.name: "CPU of a relayed event, streams at 25,000 events/s",
    PACED.name: "CPU of a relayed event, streams at 10,000 events/s",
}


def table(result: Result) -> str:
    """One row for each peer, medians over the rounds. The engine's own row is what the others stand in front of."""
    head = ["", *(f"{WHAT.get(load, load)}, µs" for load in result.loads())]
    paced = PACED.name in result.loads()
    head += ["delay of an event at 10,000/s, p50 / p99, ms"] * paced + ["memory, MB"]
    rows = [_row(result, peer, paced=paced) for peer in result.peers()]
    return "\n".join(_line(cells) for cells in (head, ["---"] * len(head), *rows))


def _row(result: Result, peer: str, *, paced: bool) -> list[str]:
    cells = [f"{peer} (the engine)" if peer == DIRECT else peer]
    cells += [_number(cpu_us(result.of(peer, load))) for load in result.loads()]
    if paced:
        visits = [sample.visit for sample in result.of(peer, PACED.name) if not sample.visit.failed]
        low = [visit.delay_p50_ms for visit in visits if visit.delay_p50_ms is not None]
        high = [visit.delay_p99_ms for visit in visits if visit.delay_p99_ms is not None]
        cells.append(f"{median(low):.2f} / {median(high):.1f}" if low and high else NOTHING)
    return [*cells, f"{max(sample.resident_mb for sample in result.samples if sample.peer == peer):.0f}"]


def sentences(result: Result, reference: str) -> list[str]:
    """Ours against one other, with the range over the rounds; and what failed, whoever failed it."""
    lines = []
    for load in result.loads():
        found = ratio(result.of(OURS, load), result.of(reference, load))
        if found is not None:
            middle, low, high = found
            rounds = min(len(result.of(peer, load)) for peer in (OURS, reference))
            verdict = _verdict(found, rounds)
            lines.append(f"{WHAT.get(load, load)}: {middle:.2f} of {reference}'s ({low:.2f} to {high:.2f}). {verdict}")
    return lines + _failures(result.samples)


def _verdict(found: tuple[float, float, float], rounds: int) -> str:
    _, low, high = found
    if rounds < ROUNDS_MIN:
        return f"Fewer than {ROUNDS_MIN} rounds say nothing."
    if high < 1.0:
        return "Less, in every round."
    if low > 1.0:
        return "More, in every round."
    return "No difference that holds in every round."


def _failures(samples: Sequence[Sample]) -> list[str]:
    bad = [sample for sample in samples if sample.visit.failed]
    return [
        f"{sample.peer} failed {sample.visit.failed} requests of {sample.load} in round {sample.round}."
        for sample in bad
    ]


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.1f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
