"""`breakeven table FILE...`: are these measured tables sound, what do they say, and what are their hashes."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from breakeven.config_sources import ConfigError
from breakeven.table_files import read_table, shipped_paths, table_paths
from breakeven_policies.measured import Cell, Estimate, Setup, Table, schema, short_hash

NOTHING = "-"
"""What stands for a figure that a table does not have: unknown is not zero."""


def show_tables(paths: Iterable[Path], *, as_json: bool, say: Callable[[str], object]) -> int:
    """Print each table; 1 where one is not sound, the others being shown all the same."""
    broken = 0
    for path in table_paths(paths) or shipped_paths():
        try:
            table = read_table(path)
        except ConfigError as error:
            broken += 1
            say(str(error).removeprefix("tables: "))
            continue
        for line in [_document(path, table)] if as_json else [f"{path}", *table_lines(table), ""]:
            say(line)
    return 1 if broken else 0


def show_schema(say: Callable[[str], object]) -> int:
    """Print the JSON Schema of a table."""
    say(json.dumps(schema(), indent=2))
    return 0


def _document(path: Path, table: Table) -> str:
    content = msgspec.to_builtins(table)
    return json.dumps({"file": str(path), "hash": short_hash(table), "sha256": table.digest(), "table": content})


def table_lines(table: Table) -> Iterator[str]:
    """The table as text."""
    source = table.provenance
    yield f"{table.name}: {table.kind}, hash {short_hash(table)}"
    yield f"  sha256       {table.digest()}"
    facts = {
        "model": source.model,
        "engine": f"{source.engine} {source.engine_version}",
        "gpu": f"{source.gpu}, {source.parallelism}",
        "flags": " ".join(source.flags),
        "data set": source.data_set,
        "measured on": source.measured_on,
        "expires on": source.expires_on,
        "repeats": source.repeats,
        "commit": source.commit,
        "note": source.note,
    }
    yield from (f"  {name:12} {value}" for name, value in facts.items() if value not in (None, ""))
    for setup in table.setups:
        yield from _setup_lines(setup, [cell for cell in table.cells if cell.setup == setup.name])


def _setup_lines(setup: Setup, cells: list[Cell]) -> Iterator[str]:
    drafts = {
        "method": None if setup.method == "none" else setup.method,
        "k": setup.speculative_tokens or None,
        "draft head": setup.draft_model,
        "drafting": setup.drafting,
        "k by batch": ", ".join(f"{a}-{b}: {k}" for a, b, k in setup.speculative_tokens_per_batch_size) or None,
        "prefill ms per prompt token": _shown(setup.prefill_ms_per_prompt_token, None),
        "running at most": setup.running_max,
    }
    said = [f"{name} {value}" for name, value in drafts.items() if value is not None]
    yield f"  setup {setup.name}: {', '.join([setup.kind, *said])}"
    rows: list[tuple[str, ...]] = [
        ("workload", "T", "running", "step ms", "ms per token", "first token ms", "tokens per step", "by position")
    ]
    rows += [_row(cell) for cell in cells]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "    " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _row(cell: Cell) -> tuple[str, ...]:
    figures = (cell.step_time_ms, cell.time_per_output_token_ms, cell.time_to_first_token_ms, cell.acceptance_length)
    return (
        cell.workload,
        NOTHING if cell.temperature is None else f"{cell.temperature:g}",
        f"{cell.running:g}",
        *(_shown(figure, NOTHING) or NOTHING for figure in figures),
        " ".join(f"{share:.3f}" for share in cell.accepted_per_position) or NOTHING,
    )


def _shown(estimate: Estimate | None, unknown: str | None) -> str | None:
    """A mean, its interval, and how many observations are behind it."""
    if estimate is None:
        return unknown
    interval = "" if estimate.low is None else f" [{estimate.low:.4g}, {estimate.high:.4g}]"
    count = "" if estimate.n is None else f" n={estimate.n}"
    return f"{estimate.mean:.4g}{interval}{count}"
