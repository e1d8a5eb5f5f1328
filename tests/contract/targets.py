"""The two things that the contract is held against: the simulated engine, and vLLM itself on a CPU.

A test of behaviour never asks which of them it talks to. What may differ between them (speed, tokenizer, text) it does
not assert; what differs and should not is mended in the simulator. Only where answers are compared with the recorded
ones (`test_recorded`) does it matter: the simulator's differences stand in `known_differences` with their reasons, and
the real engine is allowed none.
"""

import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import psutil

from breakeven_bench.launch import Command, Server
from breakeven_bench.vllm import host
from tests.field.client import Client

MODEL = host.SERVED_MODEL
MODEL_LEN_MAX = host.MODEL_LEN_MAX
SEQUENCES_MAX = host.SEQUENCES_MAX
TOKENS_PER_STEP_MAX = host.TOKENS_PER_STEP_MAX
DRAFT_TOKENS = 3

TIME_SCALE = 10
"""A step of the simulated engine then takes 2 to 3 ms: an answer of 2,000 tokens lasts long enough to be left, and one
of 24 is over in less than a tenth of a second.
"""

CORE = "EngineCore"
"""How vLLM names the process that runs the model."""

_SIMULATOR_READY_TIMEOUT_S = 30.0
"""Half a second on an idle core."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What an engine is started with.

    `temperature` and `min_p`: the model's defaults, as its makers would set them. `calls_tools`: a parser of tool calls
    is there; the simulated engine, which calls none, accepts tools in any case.
    """

    speculative: bool = False
    temperature: float | None = None
    min_p: float | None = None
    calls_tools: bool = False

    @property
    def name(self) -> str:
        """A name for the log file."""
        return "speculative" if self.speculative else "plain"


@dataclass(frozen=True, slots=True)
class Target:
    """One of the two. `patience_s` bounds every single wait of a test: an answer, an end, a counter.

    `kill_core` makes the engine behind the HTTP server die.
    """

    name: str
    patience_s: float
    command: Callable[[Shape, int], Command]
    kill_core: Callable[[Server, int], Awaitable[None]]


def _simulator_command(shape: Shape, port: int) -> Command:
    argv = [sys.executable, "-m", "breakeven_bench", "engine", "--port", str(port), "--model", MODEL]
    argv += ["--max-model-len", str(MODEL_LEN_MAX), "--max-num-seqs", str(SEQUENCES_MAX)]
    argv += ["--max-num-batched-tokens", str(TOKENS_PER_STEP_MAX), "--time-scale", str(TIME_SCALE)]
    argv += ["--enable-per-request-metrics"]
    if shape.speculative:
        argv += ["--method", "eagle3", "--k", str(DRAFT_TOKENS), "--per-request-spec-decode-metrics", "summary"]
    for flag, value in (("--default-temperature", shape.temperature), ("--default-min-p", shape.min_p)):
        argv += [] if value is None else [flag, str(value)]
    ready = re.compile(r"engine ready on (http://[\w.:]+)")
    return Command(f"simulator-{shape.name}", argv, ready, _SIMULATOR_READY_TIMEOUT_S)


async def _kill_simulated_core(_server: Server, port: int) -> None:
    async with await Client.connect(port) as client:
        reply = await client.ask(b'{"fault":"core_dead"}', path="/sim/faults")
        assert reply.status == 200, reply.raw


def _vllm_command(shape: Shape, port: int) -> Command:
    defaults = {"temperature": shape.temperature, "min_p": shape.min_p}
    given = {name: value for name, value in defaults.items() if value is not None}
    arguments = [f"--override-generation-config.{name}={value}" for name, value in given.items()]
    arguments += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"] if shape.calls_tools else []
    speculative = {**host.EAGLE3, "num_speculative_tokens": DRAFT_TOKENS} if shape.speculative else None
    environment = host.Environment.of(os.environ)
    return host.engine_command(environment, f"vllm-{shape.name}", port, speculative=speculative, arguments=arguments)


async def _kill_vllm_core(server: Server, _port: int) -> None:
    """SIGKILL to the process of the engine core, which is the server's child, as the kernel does when memory is out."""
    cores = [child for child in psutil.Process(server.pid).children(recursive=True) if CORE in child.name()]
    assert cores, f"no process named {CORE}"
    for core in cores:
        core.send_signal(signal.SIGKILL)


SIMULATOR = Target("simulator", 10.0, _simulator_command, _kill_simulated_core)
VLLM = Target("vllm", 60.0, _vllm_command, _kill_vllm_core)
"""Sixty seconds: 2,000 tokens at 40 a second with room for another engine on the same two cores."""

TARGETS = {target.name: target for target in (SIMULATOR, VLLM)}
