"""`breakeven-bench engine`: the flags of one simulated engine."""

import argparse
import sys
from typing import Any

from breakeven_bench.arguments import port
from breakeven_bench.engine.faults import DESCRIPTIONS
from breakeven_bench.engine.hardware import PROFILES
from breakeven_bench.engine.options import EngineOptions
from breakeven_bench.engine.request_metrics import SpeculationDetail
from breakeven_bench.engine.serve import serve
from breakeven_bench.engine.speculation import DRAFT_TOKENS_MAX, DraftSampling, Method, Speculation, parse_schedule
from breakeven_policies.request import SamplingDefaults

EXIT_USAGE = 2
DRAFT_TOKENS_DEFAULT = 5
"""The k of the published prior."""

_DESCRIPTION = """\
Run a simulated vLLM engine: real HTTP, continuous batching, modelled step times, no GPU and no model.
An OpenAI client, Prometheus and the router take it for vLLM 0.33.
"""

_EXAMPLES = """\
examples:
  A plain engine and an EAGLE-3 engine, ten times faster than the hardware they model:
    breakeven-bench engine --port 8101 --time-scale 10
    breakeven-bench engine --port 8102 --method eagle3 --k 5 --time-scale 10
  Ask one of them:
    curl -s http://127.0.0.1:8102/v1/chat/completions -H 'content-type: application/json' \\
      -d '{{"model":"llama-70b","messages":[{{"role":"user","content":"hi"}}],"max_tokens":64,"stream":true}}'

hardware profiles (Llama 3.x 70B; modelled, not measured):
{profiles}

what a request may tell the simulator (all optional):
  header x-breakeven-workload, or "workload" in "metadata" or "vllm_xargs":
    short_qa, summarization, code_generation, creative_writing, translation, structured_output
  "output_tokens" in "metadata" or "vllm_xargs": where the answer ends by itself, if max_tokens allows

time: with --time-scale S everything takes 1/S of the modelled time, and every time that the engine reports is wall
  time: multiply what you measure by S. /metrics counts the steps that came too late (breakeven_sim_steps_late_total);
  a run with more than 5 % of them is not valid.

faults while it runs: POST /sim/faults, for example
    curl -s http://127.0.0.1:8102/sim/faults -d '{{"fault":"die_mid_stream","after_events":5,"count":1}}'
  "seconds" ends any fault by itself, "count" limits how many requests it hits; GET /sim/faults shows what is on.
{faults}
"""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """The parser of `engine`."""
    profiles = _listed({profile.name: profile.summary for profile in PROFILES.values()})
    faults = _listed({kind.value: text for kind, text in DESCRIPTIONS.items()})
    parser = subparsers.add_parser(
        "engine",
        description=_DESCRIPTION,
        epilog=_EXAMPLES.format(profiles=profiles, faults=faults),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        help="run a simulated vLLM engine over real HTTP",
    )
    _add_serving(parser)
    _add_speculation(parser)
    _add_defaults(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status."""
    try:
        options = options_from(args)
    except ValueError as error:
        print(f"breakeven-bench engine: error: {error}", file=sys.stderr)
        return EXIT_USAGE

    def announce(port: int) -> None:
        print(f"engine ready on http://{args.host}:{port} ({summary(options)})", flush=True)

    return serve(options, args.host, args.port, announce)


def options_from(args: argparse.Namespace) -> EngineOptions:
    """The options that the flags mean. Raises ValueError with one line about a combination that makes no sense."""
    return EngineOptions(
        models=tuple(args.model or ("llama-70b",)),
        hardware=PROFILES[args.profile],
        speculation=_speculation(args),
        sequences_max=args.max_num_seqs,
        tokens_per_step_max=args.max_num_batched_tokens,
        kv_cache_tokens=args.kv_cache_tokens,
        max_model_len=args.max_model_len,
        defaults=SamplingDefaults(args.default_temperature, args.default_top_p, args.default_top_k, args.default_min_p),
        request_timing=args.enable_per_request_metrics,
        speculation_detail=SpeculationDetail(args.per_request_spec_decode_metrics),
        time_scale=args.time_scale,
        seed=args.seed,
    )


def summary(options: EngineOptions) -> str:
    """One line that tells engines apart."""
    speculation = options.speculation
    drafting = "no speculation"
    if speculation.enabled:
        dynamic = "" if speculation.by_batch is None else " dynamic"
        drafting = f"{speculation.method} k={speculation.draft_tokens}{dynamic}, {speculation.sampling} drafting"
    return f"{options.models[0]}, {options.hardware.name}, {drafting}, time x{options.time_scale:g}"


def _listed(entries: dict[str, str]) -> str:
    """Names and what they mean, in two columns."""
    width = max(map(len, entries))
    return "\n".join(f"    {name:{width}}  {text}" for name, text in entries.items())


def _speculation(args: argparse.Namespace) -> Speculation:
    method = Method(args.method)
    if method is Method.NONE:
        given = [flag for flag, value in (("--k", args.k), ("--dynamic-k", args.dynamic_k)) if value is not None]
        given += ["--draft-sample-method"] if args.draft_sample_method is not None else []
        if given:
            message = f"{', '.join(given)}: a plain engine drafts nothing; add --method, for example --method eagle3"
            raise ValueError(message)
        return Speculation()
    draft_tokens = DRAFT_TOKENS_DEFAULT if args.k is None else args.k
    if not 1 <= draft_tokens <= DRAFT_TOKENS_MAX:
        message = f"--k must be between 1 and {DRAFT_TOKENS_MAX}, got {draft_tokens}"
        raise ValueError(message)
    by_batch = None
    if args.dynamic_k is not None:
        try:
            by_batch = parse_schedule(args.dynamic_k, draft_tokens, args.max_num_seqs)
        except ValueError as error:
            message = f"--dynamic-k: {error}"
            raise ValueError(message) from None
    return Speculation(method, draft_tokens, DraftSampling(args.draft_sample_method or DraftSampling.GREEDY), by_batch)


def _add_serving(parser: argparse.ArgumentParser) -> None:
    default = EngineOptions()
    add = parser.add_argument_group("serving").add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    add("--port", type=port, default=8000, help="port; 0 chooses a free one and prints it (default %(default)s)")
    add("--model", action="append", metavar="NAME", help="served model name, repeat for aliases (default llama-70b)")
    add(
        "--profile",
        choices=PROFILES,
        default=default.hardware.name,
        metavar="NAME",
        help="hardware (default %(default)s)",
    )
    add("--max-num-seqs", type=int, default=default.sequences_max, metavar="N", help="slots (default %(default)s)")
    add(
        "--max-num-batched-tokens",
        type=int,
        default=default.tokens_per_step_max,
        metavar="N",
        help="tokens per step, prefill and verification together (default %(default)s)",
    )
    add("--max-model-len", type=int, default=default.max_model_len, metavar="N", help="(default %(default)s)")
    add("--kv-cache-tokens", type=int, metavar="N", help="room for context (default: that of the profile)")
    add("--time-scale", type=float, default=default.time_scale, metavar="S", help="S times faster (default 1)")
    add("--seed", type=int, default=default.seed, help="equal seeds repeat a run (default %(default)s)")
    add("--enable-per-request-metrics", action="store_true", help="timing in every answer, as vLLM's flag")


def _add_speculation(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("speculation").add_argument
    add("--method", choices=[method.value for method in Method], default="none", help="(default %(default)s)")
    add("--k", type=int, metavar="K", help=f"draft tokens per step (default {DRAFT_TOKENS_DEFAULT})")
    add(
        "--draft-sample-method",
        choices=[sampling.value for sampling in DraftSampling],
        help="how drafts are sampled (default greedy, as in vLLM): acceptance of greedy drafts falls with temperature",
    )
    add("--dynamic-k", metavar="JSON", help="k by batch size, for example '[[1,16,5],[17,32,3],[33,512,0]]'")
    add(
        "--per-request-spec-decode-metrics",
        choices=[detail.value for detail in SpeculationDetail],
        default="none",
        help="acceptance in every answer, as vLLM's flag (default %(default)s)",
    )


def _add_defaults(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the model's default sampling parameters (its generation_config)")
    group.add_argument("--default-temperature", type=float, metavar="T")
    group.add_argument("--default-top-p", type=float, metavar="P")
    group.add_argument("--default-top-k", type=int, metavar="K")
    group.add_argument("--default-min-p", type=float, metavar="P")
