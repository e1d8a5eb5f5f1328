"""Measured tables: what speculation yielded and cost on known engines, as a file that is reviewed like code.

A table says for each *setup* (a kind of pool: method, draft head, k, drafting mode), *workload* (a class of requests)
and number of running requests how long a step took and how many tokens it gave. Its provenance says on which engines
that was, so that it can be refused where others run (`table_match`); `measurement` reads between its cells. The file is
JSON of the types below; `tables/table.schema.json` is the same for editors and is made from them (`schema`).

A table is known by its hash: the SHA-256 of what it says, whatever the spacing and the order of members. Fields that
are left out do not count, so that a field added by a later version changes no hash of a table that does not use it.

Quantities: milliseconds per step, per token and per prompt token; an acceptance *length* is the mean number of tokens
per step, the target model's own one included, so at least 1 and at most k + 1; acceptance *per position* is the share
of drafts of which at least that many tokens were accepted (unconditional, as vLLM's counters give it). Those shares add
up to acceptance length - 1. A published "acceptance rate" is often neither (vLLM's is accepted over drafted tokens).
"""

import re
from collections.abc import Iterator
from datetime import date
from enum import StrEnum
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from breakeven_policies.snapshot import PoolKind

FORMAT = 1
"""The version of the file's form; a table of another form is refused, not guessed at."""

ANY_WORKLOAD = "*"
"""The workload of a cell that was measured over a mix, and holds where there is no cell for a class."""

SHORT_HASH_LENGTH = 12
"""Hexadecimal digits that are shown: 48 bits tell a thousand tables apart for certain, and fit a header and a label."""

CELLS_MAX = 10_000
"""Ten setups, fifty classes, twenty batch sizes: more than anybody has measured, and 10 ms to read."""

POSITIONS_SLACK = 0.05
"""Tokens by which an acceptance length and its shares per position may disagree: both are rounded when written."""

Positive = Annotated[float, Meta(gt=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1, max_length=200)]
Word = Annotated[str, Meta(pattern=r"^[A-Za-z0-9*][A-Za-z0-9_.:/+*-]{0,79}$")]


class TableError(ValueError):
    """What is wrong with a table: one line that names the place, `cells[3].step_time_ms.mean: must be > 0`."""


class TableKind(StrEnum):
    """Whether somebody measured this, or only says so. Only what was measured is ever matched against a fleet."""

    MEASURED = "measured"
    PRIOR = "prior, unverified"


class Drafting(StrEnum):
    """How a drafter picks its tokens (vLLM 0.33.0, `draft_sample_method`); it decides what temperature does."""

    GREEDY = "greedy"
    PROBABILISTIC = "probabilistic"


class Estimate(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A mean with its 95 % confidence interval and the number of observations; None: not known, never zero."""

    mean: Positive
    low: Positive | None = None
    high: Positive | None = None
    n: Count | None = None


class Setup(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One kind of pool. A plain one drafts nothing; `drafting` is None for methods that have no such choice (ngram).

    `speculative_tokens_per_batch_size` is vLLM's own list of (first, last, k) where k follows the batch, and
    `speculative_tokens` then the largest k. `prefill_ms_per_prompt_token` and `running_max` (max_num_seqs) are the
    same for every workload.
    """

    name: Word
    kind: PoolKind
    method: Word = "none"
    speculative_tokens: Annotated[int, Meta(ge=0, le=64)] = 0
    draft_model: Text | None = None
    drafting: Drafting | None = None
    speculative_tokens_per_batch_size: tuple[tuple[int, int, int], ...] = ()
    prefill_ms_per_prompt_token: Estimate | None = None
    running_max: Annotated[int, Meta(ge=1)] | None = None


class Cell(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one setup did with one workload at one number of running requests; figures that are left out are unknown.

    `temperature` is the one it was measured at; None where the workload says it, or where it does not matter.
    """

    setup: Word
    workload: Word
    running: Annotated[float, Meta(gt=0, le=100_000)]
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    step_time_ms: Estimate | None = None
    time_per_output_token_ms: Estimate | None = None
    time_to_first_token_ms: Estimate | None = None
    acceptance_length: Estimate | None = None
    accepted_per_position: tuple[Share, ...] = ()


class Provenance(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a table comes from: what is needed to measure it again, and to tell whether it speaks of a given fleet.

    `model` is a name under which engines load or serve it (`root` or `id` in their list of models); `engine_version` is
    what GET /version answers; `flags` are those of all engines; `commit` is that of the suite. `expires_on` is the
    first day on which it does not count any more: acceptance drifts with software and traffic.
    """

    model: Text
    engine: Word
    engine_version: Word
    gpu: Text
    parallelism: Text
    data_set: Text
    measured_on: date | None = None
    repeats: Annotated[int, Meta(ge=1)] | None = None
    expires_on: date | None = None
    flags: tuple[Text, ...] = ()
    commit: Word | None = None
    note: Annotated[str, Meta(max_length=2000)] | None = None


class Table(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One file. `cells` are in any order; no two are about the same setup, workload, temperature and batch."""

    format: int
    name: Word
    kind: TableKind
    provenance: Provenance
    setups: Annotated[tuple[Setup, ...], Meta(min_length=1, max_length=100)]
    cells: Annotated[tuple[Cell, ...], Meta(min_length=1, max_length=CELLS_MAX)]

    def digest(self) -> str:
        """The SHA-256 of what it says, in hexadecimal."""
        return sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()


_DECODER = msgspec.json.Decoder(Table)
_BOUND = re.compile(r"Expected `\w+` (?P<bound>[<>]=?) (?P<limit>[0-9.]+)")


def short_hash(table: Table) -> str:
    """The beginning of its hash, as it is shown in headers, metrics and logs."""
    return table.digest()[:SHORT_HASH_LENGTH]


def parse_table(data: bytes) -> Table:
    """The table in a file; TableError says what is wrong and where."""
    try:
        table = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TableError(_placed(str(error))) from None
    problem = next(problems(table), None)
    if problem is not None:
        raise TableError(problem)
    return table


def encode_table(table: Table) -> bytes:
    """The table as a file that people read and compare: indented, in the order of the types."""
    return msgspec.json.format(msgspec.json.encode(table), indent=2) + b"\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a table, made from the types; what `problems` finds is beyond it."""
    made = msgspec.json.schema(Table)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Breakeven table, format 1"}
    return head | made


def _placed(message: str) -> str:
    """Msgspec's message with the place in front, as a person would write it."""
    what, _, where = message.partition(" - at `$")
    where = where.rstrip("`").removeprefix(".")
    bound = _BOUND.fullmatch(what)
    if bound is not None:
        what = f"must be {bound['bound']} {float(bound['limit']):g}"
    else:
        what = what.replace("`", "").removeprefix("Object ")
        what = what if what.startswith("JSON") else what[:1].lower() + what[1:]
    return f"{where}: {what}" if where else what


def problems(table: Table) -> Iterator[str]:
    """What types alone cannot say, each as one line with its place."""
    if table.format != FORMAT:
        yield f"format: must be {FORMAT}, the only one that this version reads; found {table.format}"
    yield from _provenance_problems(table)
    setups: dict[str, Setup] = {}
    for index, setup in enumerate(table.setups):
        if setup.name in setups:
            yield f"setups[{index}].name: {setup.name!r} is there twice"
        setups[setup.name] = setup
        yield from _setup_problems(f"setups[{index}]", setup)
    seen: dict[tuple[str, str, float | None, float], int] = {}
    for index, cell in enumerate(table.cells):
        place = f"cells[{index}]"
        if cell.setup not in setups:
            yield f"{place}.setup: there is no setup {cell.setup!r}; there are: {', '.join(setups)}"
            continue
        first = seen.setdefault((cell.setup, cell.workload, cell.temperature, cell.running), index)
        if first != index:
            yield f"{place}: cells[{first}] is about the same setup, workload, temperature and batch"
        yield from _cell_problems(place, cell, setups[cell.setup])
    spoken_of = {cell.setup for cell in table.cells}
    for index, setup in enumerate(table.setups):
        if setup.name not in spoken_of:
            yield f"setups[{index}]: no cell is about {setup.name!r}"


def _provenance_problems(table: Table) -> Iterator[str]:
    provenance = table.provenance
    if table.kind is TableKind.MEASURED:
        for name in ("measured_on", "expires_on", "repeats", "commit"):
            if getattr(provenance, name) is None:
                yield f"provenance.{name}: a measured table needs it"
    measured_on, expires_on = provenance.measured_on, provenance.expires_on
    if measured_on is not None and expires_on is not None and expires_on <= measured_on:
        yield "provenance.expires_on: must be later than measured_on"


def _setup_problems(place: str, setup: Setup) -> Iterator[str]:
    yield from _estimate_problems(f"{place}.prefill_ms_per_prompt_token", setup.prefill_ms_per_prompt_token)
    if setup.kind is PoolKind.PLAIN:
        drafts = (
            setup.speculative_tokens or setup.draft_model or setup.drafting or setup.speculative_tokens_per_batch_size
        )
        if drafts or setup.method != "none":
            yield f"{place}: a plain setup drafts nothing, so it has no method, head, k or drafting"
    elif setup.method in {"none", "unknown"}:
        yield f"{place}.method: a speculative setup needs one, such as eagle3"
    elif not setup.speculative_tokens:
        yield f"{place}.speculative_tokens: must be >= 1 for a speculative setup"


def _cell_problems(place: str, cell: Cell, setup: Setup) -> Iterator[str]:
    for name in ("step_time_ms", "time_per_output_token_ms", "time_to_first_token_ms", "acceptance_length"):
        yield from _estimate_problems(f"{place}.{name}", getattr(cell, name))
    length, positions = cell.acceptance_length, cell.accepted_per_position
    if cell.step_time_ms is None and cell.time_per_output_token_ms is None and length is None:
        yield f"{place}: says neither step_time_ms nor time_per_output_token_ms nor acceptance_length"
    if setup.kind is PoolKind.PLAIN:
        if length is not None or positions:
            yield f"{place}: {setup.name!r} is plain, so nothing is accepted there"
        return
    most = setup.speculative_tokens + 1
    if length is not None and not 1.0 <= length.mean <= most:
        yield f"{place}.acceptance_length.mean: must be from 1 to {most}, which is k + 1"
    if len(positions) > setup.speculative_tokens:
        yield f"{place}.accepted_per_position: {len(positions)} positions, but k is {setup.speculative_tokens}"
    if any(later > earlier for earlier, later in pairwise(positions)):
        yield f"{place}.accepted_per_position: must not rise; a token is accepted only after all before it"
    if length is not None and len(positions) == setup.speculative_tokens:
        total = 1.0 + sum(positions)
        if abs(total - length.mean) > POSITIONS_SLACK:
            yield f"{place}.accepted_per_position: adds up to a length of {total:.2f}, not {length.mean:.2f}"


def _estimate_problems(place: str, estimate: Estimate | None) -> Iterator[str]:
    if estimate is None:
        return
    if (estimate.low is None) != (estimate.high is None):
        yield f"{place}: low and high go together"
    elif estimate.low is not None and estimate.high is not None and not estimate.low <= estimate.mean <= estimate.high:
        yield f"{place}: the mean lies outside its interval"
