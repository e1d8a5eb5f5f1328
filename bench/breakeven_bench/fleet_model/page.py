"""The tables of a study as a part of a page, between two markers, so that they can be renewed in place."""

from collections.abc import Sequence

from breakeven_bench.fleet_model.result import Provenance, Study
from breakeven_bench.fleet_model.table import (
    POLICY,
    SCENARIO,
    WORSE_MAX,
    capacity_table,
    latency_table,
    loss_sentences,
    margin_table,
    scenario_table,
)

BEGIN = "<!-- results of breakeven-bench simulate: written by the command, not by hand -->"
END = "<!-- end of results -->"


def page(study: Study) -> str:
    """Everything, the verdicts before the figures."""
    parts = [_origin(study.provenance)]
    if any(row.arm == POLICY for row in study.rows):
        parts += [f"### Where `{POLICY}` loses", *_list(loss_sentences(study))]
        parts += [f"### `{POLICY}` against the best of the others", margin_table(study)]
    if any(row.arm.startswith(SCENARIO) for row in study.rows):
        parts += [f"### `{POLICY}` in worse conditions, after the warm-up", scenario_table(study)]
    if study.capacities:
        parts += ["### The highest rate carried, requests per second", capacity_table(study)]
    for pair, world, load in study.places():
        title = study.titles.get(pair, pair)
        parts += [f"### {title}: {world}{'' if load == 'mixed' else f', {load}'}", "Mean seconds per request:"]
        parts.append(latency_table(study, pair, world, load))
    return "\n\n".join(parts)


def replaced(text: str, results: str) -> str:
    """The page with other results between its markers; ValueError where it has none."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        message = f"the page has no place for results: it needs the lines {BEGIN} and {END}"
        raise ValueError(message)
    return f"{before}{BEGIN}\n\n{results}\n\n{END}{after}"


def between_markers(text: str) -> str:
    """The results of a page, without the lines around them; empty where it has no markers."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def _origin(provenance: Sequence[Provenance]) -> str:
    """How the figures came about: one command in full, of several what they have in common or not."""
    if len(provenance) == 1:
        return f"`{provenance[0].command}`, {provenance[0].date}. {_extent(provenance[0])}"
    days = dict.fromkeys(each.date for each in provenance)
    extents = dict.fromkeys(map(_extent, provenance))
    return f"{len(provenance)} runs of `breakeven-bench simulate`, {', '.join(days)}. {' '.join(extents)}"


def _extent(provenance: Provenance) -> str:
    trace = "" if provenance.trace is None else f" The trace is {provenance.trace}."
    return (
        f"Simulated, not measured: {3 * provenance.requests:,} requests for each figure, after "
        f"{provenance.warm_up:,} that warm up, seed {provenance.seed}. A mean that grows with the run is called "
        f"unstable. Differences below {WORSE_MAX:.0%} are not told apart.{trace}"
    )


def _list(sentences: list[str]) -> list[str]:
    return ["\n".join(f"- {sentence}" for sentence in sentences)]
