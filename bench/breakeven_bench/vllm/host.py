"""Where real engines live on this machine, and the command line of one: vLLM's CPU build, SmolLM2-135M, a small head.

Everything belongs to a checkout of the repository and lies in it: the environment (`.venv-vllm`, made by
`install_command`) with the model in it, our shims and the EAGLE-3 head. vLLM is never imported here; it runs as a child
(`launch`), with an environment of its own.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from breakeven_bench.launch import Command

REPOSITORY = Path(__file__).resolve().parents[3]
"""The checkout. In a wheel there is none, and `missing` says so."""

ENVIRONMENT_VARIABLE = "BREAKEVEN_BENCH_VLLM_ENV"
"""The suite's prefix: the router does not start beside any other BREAKEVEN_ variable that is no setting of its own."""

VLLM_ENVIRONMENT = Path(os.environ.get(ENVIRONMENT_VARIABLE) or REPOSITORY / ".venv-vllm")
"""The virtual environment of vLLM, which must not share ours: it pins torch, pydantic and the web stack for itself."""

SHIMS = REPOSITORY / "bench" / "vllm_shims"

HEAD = REPOSITORY / "bench" / "models" / "smollm2-eagle3"

SERVED_MODEL = "smollm2"
"""The name under which both engines serve; the router sees one model in two pools."""

HOST = "127.0.0.1"

READY = re.compile(r"Starting vLLM server on (http://[\w.\[\]:]+)[\s\S]*?Application startup complete\.")
"""The first group is the address. The socket accepts connections a moment after this line."""

READY_TIMEOUT_S = 300.0
"""25 s on two idle cores; 100 s were seen where two engines and a test suite shared them."""

MODEL_LEN_MAX = 2048
SEQUENCES_MAX = 32
TOKENS_PER_STEP_MAX = 2048
"""Short and narrow: the key-value cache has room for 46,000 tokens, 22 such sequences at their longest. The budget of a
step is the same on both engines, or prefill starvation would pass for an effect of speculation.
"""

EAGLE3: Mapping[str, object] = {"method": "eagle3", "model": str(HEAD), "num_speculative_tokens": 3}
"""Three: five draft tokens are no faster with this head, and cost more where few are accepted."""

STAMP = Path("stamps", "check")
"""What the last step of the installation leaves in the environment."""


def missing(environment: Path = VLLM_ENVIRONMENT) -> str | None:
    """One sentence about what a real engine lacks here and the command that brings it; None where all is there."""
    if not (SHIMS.is_dir() and HEAD.is_dir()):
        return f"real engines run from a checkout of the repository, and {REPOSITORY} is none: clone it"
    if not (environment / STAMP).is_file():
        return f"vLLM is not installed in {environment}, or not completely: run make install-vllm"
    return None


def model(environment: Path = VLLM_ENVIRONMENT) -> Path:
    """The target's folder: configuration, weights, tokenizer."""
    return environment / "smollm2"


def python(environment: Path = VLLM_ENVIRONMENT) -> Path:
    """The interpreter that has vLLM."""
    return environment / "bin" / "python"


def metadata_folder(environment: Path = VLLM_ENVIRONMENT) -> Path:
    """Where vLLM finds metadata under its own name (`install`)."""
    return environment / "shims"


def environment_variables(environment: Path = VLLM_ENVIRONMENT) -> dict[str, str]:
    """What vLLM must find in its process environment, whatever stands in ours."""
    return {
        # Plugin and metadata are found by their dist-info. It also keeps the modules of whoever calls out.
        "PYTHONPATH": os.pathsep.join((str(SHIMS), str(metadata_folder(environment)))),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CACHE_ROOT": str(environment / "cache"),
        # GiB. The default takes half of the machine's memory, for each engine.
        "VLLM_CPU_KVCACHE_SPACE": "1",
        # One thread each, wherever the system puts it: with other work on the machine an OpenMP barrier waits for the
        # core that is taken away, and two threads are slower than one.
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "NO_COLOR": "1",
    }


def engine_command(
    name: str,
    port: int,
    *,
    speculative: Mapping[str, object] | None = None,
    arguments: Sequence[str] = (),
    environment: Path = VLLM_ENVIRONMENT,
) -> Command:
    """The command line of one engine on loopback; `speculative` is its `--speculative-config`, None a plain engine.

    `arguments` come last and win over those given here. `port` must be free and not 0: vLLM shares a taken port
    (SO_REUSEPORT) instead of failing, and then answers only some of the requests (see `launch.free_port`).
    """
    argv = [str(python(environment)), "-m", "vllm.entrypoints.openai.api_server"]
    argv += ["--model", str(model(environment)), "--served-model-name", SERVED_MODEL]
    argv += ["--host", HOST, "--port", str(port), "--enforce-eager"]
    argv += ["--max-model-len", str(MODEL_LEN_MAX), "--max-num-seqs", str(SEQUENCES_MAX)]
    argv += ["--max-num-batched-tokens", str(TOKENS_PER_STEP_MAX), "--enable-per-request-metrics"]
    if speculative is not None:
        argv += ["--speculative-config", json.dumps(dict(speculative))]
        # A plain engine does not start with this flag.
        argv += ["--per-request-spec-decode-metrics", "summary"]
    variables = environment_variables(environment)
    # Guarded: vLLM ignores SIGTERM while it loads.
    return Command(name, [*argv, *arguments], READY, READY_TIMEOUT_S, variables, guarded=True)
