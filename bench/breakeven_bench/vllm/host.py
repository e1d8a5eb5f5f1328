"""Where real engines live on this machine, and the command line of one: vLLM's CPU build, SmolLM2-135M, a small head.

Everything belongs to a checkout of the repository and lies in it: the environment (`.venv-vllm`, made by
`install_command`) with the model in it, our shims and the EAGLE-3 head. vLLM is never imported here; it runs as a child
(`launch`), with an environment of its own.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakeven_bench.launch import Command

REPOSITORY = Path(__file__).resolve().parents[3]
"""The checkout. In a wheel there is none, and `missing` says so."""

ENVIRONMENT_VARIABLE = "BREAKEVEN_BENCH_VLLM_ENV"
"""The suite's prefix: the router does not start beside any other BREAKEVEN_ variable that is no setting of its own."""

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

LAST_STEP = "check"
"""Of the installation, which is complete once this one is done."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The virtual environment of vLLM, installed or not, and what lies in it.

    It must not share ours: vLLM pins torch, pydantic and the web stack for itself.
    """

    folder: Path

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Environment":
        """The one that these variables of a process name, else the checkout's own."""
        return cls(Path(variables.get(ENVIRONMENT_VARIABLE) or REPOSITORY / ".venv-vllm"))

    @property
    def python(self) -> Path:
        """The interpreter that has vLLM."""
        return self.folder / "bin" / "python"

    @property
    def model(self) -> Path:
        """The target's folder: configuration, weights, tokenizer."""
        return self.folder / "smollm2"

    @property
    def metadata(self) -> Path:
        """Where vLLM finds metadata under its own name (`install`)."""
        return self.folder / "shims"

    def stamp(self, step: str) -> Path:
        """What the step of that name leaves when it is done (`install`)."""
        return self.folder / "stamps" / step

    @property
    def variables(self) -> dict[str, str]:
        """What vLLM must find in its process environment, whatever stands in ours."""
        return {
            # Plugin and metadata are found by their dist-info. It also keeps the modules of whoever calls out.
            "PYTHONPATH": os.pathsep.join((str(SHIMS), str(self.metadata))),
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "VLLM_CACHE_ROOT": str(self.folder / "cache"),
            # GiB. The default takes half of the machine's memory, for each engine.
            "VLLM_CPU_KVCACHE_SPACE": "1",
            # One thread each, wherever the system puts it: with other work on the machine an OpenMP barrier waits for
            # the core that is taken away, and two threads are slower than one.
            "OMP_NUM_THREADS": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "NO_COLOR": "1",
        }


def missing(environment: Environment) -> str | None:
    """One sentence about what a real engine lacks here and the command that brings it; None where all is there."""
    if not (SHIMS.is_dir() and HEAD.is_dir()):
        return f"real engines run from a checkout of the repository, and {REPOSITORY} is none: clone it"
    if not environment.stamp(LAST_STEP).is_file():
        return f"vLLM is not installed in {environment.folder}, or not completely: run make install-vllm"
    return None


def engine_command(
    environment: Environment,
    name: str,
    port: int,
    *,
    speculative: Mapping[str, object] | None = None,
    arguments: Sequence[str] = (),
) -> Command:
    """The command line of one engine on loopback; `speculative` is its `--speculative-config`, None a plain engine.

    `arguments` come last and win over those given here. `port` must be free and not 0: vLLM shares a taken port
    (SO_REUSEPORT) instead of failing, and then answers only some of the requests (see `launch.free_port`).
    """
    argv = [str(environment.python), "-m", "vllm.entrypoints.openai.api_server"]
    argv += ["--model", str(environment.model), "--served-model-name", SERVED_MODEL]
    argv += ["--host", HOST, "--port", str(port), "--enforce-eager"]
    argv += ["--max-model-len", str(MODEL_LEN_MAX), "--max-num-seqs", str(SEQUENCES_MAX)]
    argv += ["--max-num-batched-tokens", str(TOKENS_PER_STEP_MAX), "--enable-per-request-metrics"]
    if speculative is not None:
        argv += ["--speculative-config", json.dumps(dict(speculative))]
        # A plain engine does not start with this flag.
        argv += ["--per-request-spec-decode-metrics", "summary"]
    # Guarded: vLLM ignores SIGTERM while it loads.
    return Command(name, [*argv, *arguments], READY, READY_TIMEOUT_S, environment.variables, guarded=True)
