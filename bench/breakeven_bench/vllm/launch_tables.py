"""The tables of `deploy/vllm/README.md`, and what the launch files show of the same figures."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from breakeven_bench.vllm import facts
from breakeven_bench.vllm.break_even import BATCH_LIMIT, break_even_batch, speed_up
from breakeven_bench.vllm.facts import METHODS, Method
from breakeven_bench.vllm.machines import FLEETS, Fleet, Weights
from breakeven_bench.vllm.memory import Memory, memory
from breakeven_policies.prior import prior_at

TEMPERATURES = (0.0, 0.7, 1.0, 1.5)
"""Of the published table, whose acceptance the break-even batches take."""

GB = 1e9

MEMORY_COLUMNS = (
    "engine",
    "weights",
    "drafter",
    "KV per token",
    "tokens of KV",
    f"requests of {facts.MODEL_LEN_MAX}",
    f"tokens each of {facts.SEQUENCES_MAX}",
)


def memory_groups(fleet: Fleet, weights: Weights) -> list[tuple[str, Memory]]:
    """Scripts whose engines need the same memory, side by side."""
    groups: dict[Memory, list[str]] = {}
    for method in METHODS:
        groups.setdefault(memory(fleet, method, weights), []).append(method.script)
    return [(", ".join(scripts), each) for each, scripts in groups.items()]


def memory_cells(scripts: str, each: Memory) -> tuple[str, ...]:
    """One row below `MEMORY_COLUMNS`."""
    return (
        scripts,
        f"{each.weights_bytes / GB:.1f} GB",
        f"{each.drafter_bytes / GB:.1f} GB" if each.drafter_bytes else "-",
        f"{each.kv_bytes_per_token:,.0f} B",
        f"{each.kv_tokens:,}",
        f"{each.longest_requests:.1f}",
        f"{each.tokens_per_slot:,}",
    )


def edge(batch: int | None) -> str:
    """A break-even batch, or that there is none in reach."""
    return f"> {BATCH_LIMIT}" if batch is None else str(batch)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ["---"] * len(header), *rows))


def methods_table() -> str:
    """What starts what."""
    rows = ((f"`{each.script}.sh`", each.title, each.since or "-", str(tokens(each) or "-")) for each in METHODS)
    return markdown(("script", "engine", "since vLLM", "k"), rows)


def tokens(method: Method) -> str | int | None:
    """The default k; None of a plain engine."""
    return next((key.default for key in method.keys if key.name == "num_speculative_tokens"), None)


def memory_table() -> str:
    """What fits, per GPU of an engine, with the default weights of each fleet."""
    rows = [
        (f"`{fleet.name}`", *memory_cells(scripts, each))
        for fleet in FLEETS
        for scripts, each in memory_groups(fleet, fleet.weights[0])
    ]
    return markdown(("fleet", *MEMORY_COLUMNS), rows)


def break_even_table() -> str:
    """Speed-up of a single request and the batch beyond which there is none, per profile of the step time."""
    profiles = {weights.hardware.name: weights.hardware for fleet in FLEETS for weights in fleet.weights}
    greedy = prior_at(0.0).acceptance
    rows = [
        (
            f"`{name}`",
            str(drafts),
            f"{speed_up(hardware, drafts, 1, greedy):.1f}x",
            *(edge(break_even_batch(hardware, drafts, prior_at(each).acceptance)) for each in TEMPERATURES),
        )
        for name, hardware in profiles.items()
        for drafts in (facts.DRAFT_TOKENS, facts.DRAFT_TOKENS_PUBLISHED)
    ]
    return markdown(("profile", "k", "speed-up alone, T=0", *(f"batch at T={each:g}" for each in TEMPERATURES)), rows)


def gone_table() -> str:
    """What older guides name."""
    rows = ((f"`{each.name}`", each.fate, each.instead) for each in facts.GONE)
    return markdown(("name", "fate", "now"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "methods": methods_table,
    "memory": memory_table,
    "break-even": break_even_table,
    "gone": gone_table,
}
"""Name of a table in the README to what renders it."""

_BEGIN = "<!-- written by breakeven-bench launch-files: {} -->\n"
_END = "<!-- end of {} -->\n"


def with_tables(page: str) -> str:
    """The page with every table of `TABLES` written anew between its marks. ValueError where a mark is missing."""
    for name, render in TABLES.items():
        begin, end = _BEGIN.format(name), _END.format(name)
        before, opened, rest = page.partition(begin)
        _, closed, after = rest.partition(end)
        if not (opened and closed):
            message = f"the page has no place for the table {name}: {begin.strip()} ... {end.strip()}"
            raise ValueError(message)
        page = f"{before}{begin}\n{render()}\n{end}{after}"
    return page
