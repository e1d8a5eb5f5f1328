"""Has vLLM itself judge command lines: its argument parser, and all that it checks before an engine starts.

    <python of vLLM> tests/house/judge_vllm_arguments.py < command-lines.json

Reads a list of argument lists (what follows `vllm serve`) and writes a list of verdicts: an object with the values that
vLLM ends up with, or with `error`, its own words. Runs in vLLM's environment, so it imports nothing of ours.
"""

import argparse
import contextlib
import json
import sys

from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser

try:
    from vllm.entrypoints.common.cli_args import make_arg_parser, validate_parsed_serve_args  # 0.33.0
except ModuleNotFoundError:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args  # 0.32.0


def judge(parser: argparse.ArgumentParser, arguments: list[str]) -> dict[str, object]:
    try:
        parsed = parser.parse_args(arguments)
        validate_parsed_serve_args(parsed)
        parsed.model = parsed.model_tag  # as `vllm serve` does
        config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config()
    except SystemExit:
        return {"error": "the argument parser refused it, see above"}
    except (ImportError, ValueError, TypeError, NotImplementedError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    speculative = config.speculative_config
    return {
        "budget": config.scheduler_config.max_num_batched_tokens,
        "method": speculative and speculative.method,
        "draft_tokens": speculative and speculative.num_speculative_tokens,
        "schedule": speculative and speculative.num_speculative_tokens_per_batch_size,
    }


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):  # vLLM logs to the standard output
        serve = make_arg_parser(FlexibleArgumentParser())
        verdicts = [judge(serve, each) for each in json.load(sys.stdin)]
    json.dump(verdicts, sys.stdout)
