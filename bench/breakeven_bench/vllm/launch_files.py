"""Renders the launch files of the real fleet from `facts`, `machines` and `memory`.

    <method>.sh        starts one engine: the fleet's flags and, unless it is the plain pool, `--speculative-config`
    pools.sh           what both pools share; chooses the fleet (FLEET)
    fleets/<fleet>.sh  the model, its GPUs, and the account of their memory

Every default is `${VARIABLE:-value}`, so that a file serves other machines unchanged. Text in, text out: writing and
comparing files is `launch_files_command`.
"""

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping

from breakeven_bench.engine.options import VLLM_VERSION
from breakeven_bench.vllm.break_even import best_schedule, break_even_batch, speed_up
from breakeven_bench.vllm.facts import (
    BASELINE,
    DRAFT_TOKENS,
    DRAFT_TOKENS_PUBLISHED,
    EAGLE3,
    MEMORY_SHARE,
    METHODS,
    PORTS,
    SHARED_FLAGS,
    SPECULATIVE_FLAGS,
    Flag,
    Key,
    Method,
)
from breakeven_bench.vllm.launch_tables import GB, MEMORY_COLUMNS, edge, memory_cells, memory_groups
from breakeven_bench.vllm.machines import BF16_BYTES, FLEETS, Fleet, Weights, settings
from breakeven_bench.vllm.memory import draft_logits_bytes, memory, weight_bytes
from breakeven_policies.prior import prior_at

COMMENT_COLUMNS = 118

MARK = "# Written by `breakeven-bench launch-files`: change bench/breakeven_bench/vllm, not this file."

SCHEDULE_TEMPERATURE = 0.7
"""Where the schedule of dynamic speculation is best: what most clients ask for."""


def launch_files() -> dict[str, str]:
    """Path below `deploy/vllm` to text. What begins with `#!` is to be executable."""
    files = {"pools.sh": pools_file()}
    files |= {f"fleets/{fleet.name}.sh": fleet_file(fleet) for fleet in FLEETS}
    return files | {f"{method.script}.sh": method_file(method) for method in METHODS}


def comment(text: str, indent: str = "") -> list[str]:
    """The text as comment lines."""
    prefix = f"{indent}# "
    return textwrap.wrap(text, COMMENT_COLUMNS, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


def default(variable: str, value: object) -> str:
    """The variable as given from outside, or this value."""
    return f'{variable}="${{{variable}:-{value}}}"'


def alternatives(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *front, last = words
    return f"{', '.join(front)} or {last}" if front else last


def refusal(variable: str, allowed: Iterable[str]) -> str:
    """The branch of a `case` for any other value."""
    return f"""*) echo "{variable} must be {alternatives(allowed)}, got '${variable}'" >&2; exit 2 ;;"""


def pools_file() -> str:
    """Chooses the fleet and lists the flags that both pools share."""
    names = [fleet.name for fleet in FLEETS]
    lines = [
        "# shellcheck shell=bash",
        MARK,
        "#",
        *comment(
            "What the two pools of a fleet share, sourced by the scripts that start an engine. Whatever stands here is "
            "equal in both, so that a comparison measures speculation and nothing else. Every value can be given from "
            f"outside. Flags as of vLLM {VLLM_VERSION}; sources in parentheses are files of that version."
        ),
        "",
        default("FLEET", names[0]),
        'case "$FLEET" in',
        f"  {' | '.join(names)}) ;;",
        f"  {refusal('FLEET', names)}",
        "esac",
        f"# shellcheck source=deploy/vllm/fleets/{names[0]}.sh",
        'source "$(dirname "${BASH_SOURCE[0]}")/fleets/$FLEET.sh"',
        "",
        "# Read by the scripts that source this file.",
        "# shellcheck disable=SC2034",
        "POOL_FLAGS=(",
        '  "${QUANTIZATION[@]}"',
        *(line for flag in SHARED_FLAGS for line in flag_lines(flag)),
        ")",
    ]
    return text_of(lines)


def flag_lines(flag: Flag) -> list[str]:
    """The flag as members of a bash array, its reason above it."""
    words = flag.name if flag_value(flag) is None else f"{flag.name} {flag_value(flag)}"
    return ["", *comment(flag.why, "  "), f"  {words}"] if flag.why else [f"  {words}"]


def flag_value(flag: Flag) -> str | None:
    """In bash; None for a flag that takes none. A variable without a default of its own was set by the fleet's file."""
    if flag.variable is None:
        return None if flag.default is None else f'"{flag.default}"'
    return f'"${flag.variable}"' if flag.default is None else f'"${{{flag.variable}:-{flag.default}}}"'


def fleet_file(fleet: Fleet) -> str:
    """Model, GPUs and drafters of a fleet, below the account of its memory."""
    lines = [
        "# shellcheck shell=bash disable=SC2034",
        MARK,
        "#",
        *comment(f"{fleet.title}. {fleet.where}"),
        "#",
        *(f"# {line}".rstrip() for line in memory_account(fleet)),
        "",
        *weights_lines(fleet),
        "",
        *(default(variable, value) for variable, value in settings(fleet).items()),
    ]
    return text_of(lines)


def weights_lines(fleet: Fleet) -> list[str]:
    """The choice of weights, with what depends on it."""
    names = [weights.name for weights in fleet.weights]
    lines = [
        *comment(
            "SCHEDULE is for dynamic.sh alone: [first, last batch, k], the best k of each batch size by the model "
            f"of the step time with the published, unverified acceptance at T={SCHEDULE_TEMPERATURE}."
        ),
        default("WEIGHTS", names[0]),
        'case "$WEIGHTS" in',
    ]
    for weights in fleet.weights:
        lines += comment(f"{weights.name}: {weights.why}", "  ")
        lines += [
            f"  {weights.name})",
            f"    {default('MODEL', weights.repository)}",
            f"    QUANTIZATION=({' '.join(weights.flags)})",
            f"    {default('SCHEDULE', schedule(weights))}",
            "    ;;",
        ]
    return [*lines, f"  {refusal('WEIGHTS', names)}", "esac"]


def schedule(weights: Weights) -> str:
    """JSON without blanks, as it stands in one word of a command line."""
    ranges = best_schedule(weights.hardware, prior_at(SCHEDULE_TEMPERATURE).acceptance)
    return json.dumps(ranges, separators=(",", ":"))


def memory_account(fleet: Fleet) -> list[str]:
    """What fits into one GPU: line by line for the plain pool, then in a row for each script."""
    rows = [MEMORY_COLUMNS, *(memory_cells(group, each) for group, each in memory_groups(fleet, fleet.weights[0]))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(MEMORY_COLUMNS))]
    return [
        "Memory of one GPU, computed and not measured (vLLM measures while it starts, and logs the tokens that fit):",
        "",
        *(f"  {line}" for line in plain_account(fleet)),
        "",
        *("  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows),
        "",
        f"DRAFT_SAMPLE_METHOD=probabilistic takes another {draft_logits_bytes(fleet) / GB:.1f} GB.",
    ]


def plain_account(fleet: Fleet) -> list[str]:
    """The arithmetic of the plain pool with the default weights."""
    weights, target, gpus = fleet.weights[0], fleet.target, fleet.tensor_parallel
    plain = memory(fleet, BASELINE, weights)
    linear, ends = target.linear_parameters / 1e9, target.embedding_parameters / 1e9
    split = f" / {gpus} GPUs" if gpus > 1 else ""
    amounts = [
        (f"{fleet.gpu.name}: {fleet.gpu.memory_bytes / GB:.1f} GB x {MEMORY_SHARE:.2f}", plain.allowed_bytes, ""),
        ("- activations, CUDA graphs, NCCL", plain.runtime_bytes, "assumed"),
        (
            f"- ({linear:.1f}e9 x {weights.bytes_per_linear_weight} B + {ends:.1f}e9 x {BF16_BYTES} B){split}",
            plain.weights_bytes,
            f"weights, {weight_bytes(fleet, weights) / GB:.1f} GB in all",
        ),
        ("= for keys and values", plain.kv_bytes, ""),
    ]
    token = f"{target.layers} layers x {target.kv_heads} heads x {target.head_dim} x 2 x {BF16_BYTES} B{split}"
    return [
        *(f"{what:<46} {amount / GB:>5.1f} GB  {note}".rstrip() for what, amount, note in amounts),
        f"/ ({token}) = {plain.kv_bytes_per_token:,.0f} B per token",
        f"= {plain.kv_tokens:,} tokens of context for all requests of the plain pool together",
    ]


def method_file(method: Method) -> str:
    """The script that starts one engine."""
    gpus = "SPECULATIVE_GPUS" if method.speculates else "BASELINE_GPUS"
    since = f" Since vLLM {method.since}." if method.since else ""
    lines = [
        "#!/usr/bin/env bash",
        MARK,
        "#",
        *comment(f"{method.title[0].upper()}{method.title[1:]}. Port {PORTS[method.speculates]}.{since} {method.note}"),
        *comment(f"Read in: {method.source}."),
        "set -euo pipefail",
        "# shellcheck source=deploy/vllm/pools.sh",
        'source "$(dirname "${BASH_SOURCE[0]}")/pools.sh"',
        "",
        f'export CUDA_VISIBLE_DEVICES="${{CUDA_VISIBLE_DEVICES-${gpus}}}"',
        "",
        *(speculative_lines(method) if method.speculates else plain_lines()),
    ]
    return text_of(lines)


def start_line(method: Method) -> str:
    """The command up to the flags that both pools share."""
    return f'exec vllm serve "$MODEL" --port "${{PORT:-{PORTS[method.speculates]}}}" "${{POOL_FLAGS[@]}}"'


def plain_lines() -> list[str]:
    """How the plain pool starts."""
    missing = alternatives(flag.name for flag in SPECULATIVE_FLAGS)
    return [
        *comment(f"No {missing} here: without speculation it is an error at start-up."),
        f'{start_line(BASELINE)} "$@"',
    ]


def speculative_lines(method: Method) -> list[str]:
    """The variables of `--speculative-config`, their reasons, and how the engine starts."""
    lines: list[str] = []
    for key in method.keys:
        lines += comment(reason(method, key))
        if key.variable is not None and key.default is not None:
            lines += [default(key.variable, key.default), ""]
    variables = [f'"${key.variable}"' for key in method.keys if key.variable is not None]
    members = ", ".join(member(key) for key in method.keys)
    extra = [f"  {flag.name} {flag_value(flag)} \\" for flag in SPECULATIVE_FLAGS]
    return [
        *lines,
        f"SPECULATIVE_CONFIG=$(printf '{{{members}}}' \\",
        f"  {' '.join(variables)})",
        "",
        f"{start_line(method)} \\",
        '  --speculative-config "$SPECULATIVE_CONFIG" \\',
        *extra,
        '  "$@"',
    ]


def member(key: Key) -> str:
    """A member of the JSON object in a format of printf; `%d` refuses what is no number."""
    if key.variable is None:
        return f'"{key.name}": {json.dumps(key.default)}'
    place = "%s" if key.is_json else "%d" if isinstance(key.default, int) else '"%s"'
    return f'"{key.name}": {place}'


def reason(method: Method, key: Key) -> str:
    """Why the key has its default in this script: computed, or as the facts say."""
    computed = COMPUTED_REASONS.get((method.script, key.name))
    return key.why if computed is None else computed()


def why_default_k() -> str:
    """The reason for the default k, in the figures of the default fleet."""
    hardware = FLEETS[0].weights[0].hardware
    alone, usual = prior_at(0.0).acceptance, prior_at(SCHEDULE_TEMPERATURE).acceptance

    def gain(drafts: int) -> str:
        return f"{speed_up(hardware, drafts, 1, alone):.1f}x"

    def end(drafts: int) -> str:
        return edge(break_even_batch(hardware, drafts, usual))

    few, many = DRAFT_TOKENS, DRAFT_TOKENS_PUBLISHED
    return (
        f"{few} is the better length for a pool that carries load. By the model of the step time on {hardware.name}, "
        f"with the published and unverified acceptance, k={many} gives one greedy request {gain(many)} and k={few} "
        f"{gain(few)}, but at T={SCHEDULE_TEMPERATURE} k={many} stops paying beyond {end(many)} running requests and "
        f"k={few} beyond {end(few)}. SPEC_TOKENS={many} is the length of the published table."
    )


COMPUTED_REASONS: Mapping[tuple[str, str], Callable[[], str]] = {
    (EAGLE3.script, "num_speculative_tokens"): why_default_k,
}
"""By script and key: reasons that hold figures of the model, which `facts` does not know."""


def text_of(lines: Iterable[str]) -> str:
    """Lines as a file."""
    return "\n".join(lines) + "\n"
