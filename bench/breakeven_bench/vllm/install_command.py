"""`breakeven-bench install-vllm`: the environment in which real engines run on this machine, without a GPU."""

import argparse
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from breakeven_bench.launch import exit_words
from breakeven_bench.vllm.host import ENVIRONMENT_VARIABLE, Environment, missing
from breakeven_bench.vllm.install import INDEX_VARIABLE, LOCK, PYTHON_VERSION, Step, obstacle, steps

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

ANSWER_TIMEOUT_S = 30.0
"""For an interpreter to say its version: a second even on a busy machine, and what does not by then is none."""

_NAME = "breakeven-bench install-vllm"

_EPILOG = f"""\
Everything lies in one folder, .venv-vllm in the checkout, or where {ENVIRONMENT_VARIABLE} says; without the
folder all is gone. An interrupted installation goes on where it stopped; with everything in place the command says so.

The CPU build of torch is not on the public index. Where pip on this machine is configured with an index that has it,
nothing needs to be said; elsewhere name one:
  make install-vllm {INDEX_VARIABLE}=ADDRESS
"""


def add_parser(subparsers: "argparse._SubParsersAction[Any]") -> None:
    """The parser of `install-vllm`."""
    parser = subparsers.add_parser(
        "install-vllm",
        description="Install vLLM's CPU build, a small model and what both need, apart from everything else.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--python", metavar="PATH", help="an interpreter of Python 3.11 (python3.11 on the PATH)")
    parser.add_argument(
        "--torch-index-url",
        metavar="ADDRESS",
        default=os.environ.get(INDEX_VARIABLE) or None,
        help=f"an index with torch's CPU build, asked beside pip's own (environment: {INDEX_VARIABLE})",
    )


def run(args: argparse.Namespace) -> int:
    """Install what is missing; 0 when everything is in place."""
    environment = Environment.of(os.environ)
    try:
        problem = install(environment, args.python, args.torch_index_url)
    except KeyboardInterrupt:
        print(f"{_NAME}: interrupted; a second call goes on from here", file=sys.stderr)
        return EXIT_INTERRUPTED
    if problem:
        print(f"{_NAME}: {problem}", file=sys.stderr)
        return EXIT_FAILED
    print(f"vLLM is in place in {environment.folder}: try make real-pair")
    return 0


def install(environment: Environment, interpreter: str | None, torch_index_url: str | None) -> str | None:
    """Carry out what is left to do; returns what went wrong, None where nothing did."""
    if not LOCK.is_file():
        return missing(environment)
    interpreter = interpreter or own_or_found()
    every = steps(environment, interpreter or "", LOCK.read_text(encoding="utf-8"), torch_index_url)
    left = [step for step in every if not is_done(step, environment)]
    if left:
        found = None if interpreter is None else version_of(interpreter)
        free_bytes = shutil.disk_usage(_existing(environment.folder)).free
        if problem := obstacle(platform.system(), platform.machine(), found, free_bytes):
            return problem
    for step in left:
        print(f"[{every.index(step) + 1}/{len(every)}] {step.title}", flush=True)
        if problem := carry_out(step, environment):
            return problem
    return None


def is_done(step: Step, environment: Environment) -> bool:
    """Whether its stamp holds its recipe."""
    stamp = environment.stamp(step.name)
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == step.recipe


def carry_out(step: Step, environment: Environment) -> str | None:
    """Do a step and leave its stamp; returns what went wrong. What the commands say goes where ours goes."""
    for path, text in step.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for command in step.commands:
        try:
            ended = subprocess.run(  # noqa: S603  # our own command lines, no shell
                command, stdin=subprocess.DEVNULL, env=os.environ | dict(step.variables), check=False
            )
        except OSError as error:
            return f"{command[0]} cannot be run: {error}\n{step.hint}"
        if ended.returncode:
            return f"{step.title}: {exit_words(ended.returncode)}, its own words are above\n{step.hint}"
    stamp = environment.stamp(step.name)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(step.recipe, encoding="utf-8")
    return None


def own_or_found() -> str | None:
    """The interpreter that runs this where it is of the right version, else one on the PATH, else None."""
    if sys.version_info[:2] == PYTHON_VERSION:
        return sys.executable
    return shutil.which(f"python{'.'.join(map(str, PYTHON_VERSION))}")


def version_of(interpreter: str) -> tuple[int, ...] | None:
    """Major, minor and micro version of an interpreter; None where it cannot be run."""
    ask = "import sys; print(*sys.version_info[:3])"
    try:
        said = subprocess.run(  # noqa: S603  # the interpreter that the user named
            [interpreter, "-c", ask], capture_output=True, text=True, check=True, timeout=ANSWER_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(map(int, said.stdout.split()))


def _existing(path: Path) -> Path:
    """The folder itself or the nearest one above it that exists."""
    return next(folder for folder in (path, *path.parents) if folder.exists())
