"""Where real engines live and how one is started: the command line says everything that vLLM must not guess."""

import json
import os
from pathlib import Path

import pytest

from breakeven_bench.vllm import host
from breakeven_bench.vllm.host import Environment
from tests.bench.vllm.stand_in import environment

SOMEWHERE = Environment(Path("somewhere"))


def flags(command):
    return dict(zip(command.argv, command.argv[1:], strict=False))


def test_an_environment_that_is_not_there_is_named_with_the_command_that_brings_it(tmp_path):
    assert host.missing(Environment(tmp_path / "nowhere")) == (
        f"vLLM is not installed in {tmp_path / 'nowhere'}, or not completely: run make install-vllm"
    )


def test_an_installation_that_was_interrupted_is_not_taken_for_one(tmp_path):
    interrupted = environment(tmp_path / "env")
    assert host.missing(interrupted) is None
    interrupted.stamp(host.LAST_STEP).unlink()
    assert "not completely" in host.missing(interrupted)


@pytest.mark.parametrize("part", ["SHIMS", "HEAD"])
def test_a_wheel_without_its_checkout_says_that_it_needs_one(tmp_path, monkeypatch, part):
    monkeypatch.setattr(host, part, tmp_path / "nowhere")
    assert "run from a checkout of the repository" in host.missing(environment(tmp_path / "env"))


def test_the_environment_lies_where_the_variable_says():
    assert Environment.of({"BREAKEVEN_BENCH_VLLM_ENV": "somewhere"}) == SOMEWHERE


@pytest.mark.parametrize("variables", [{}, {"BREAKEVEN_BENCH_VLLM_ENV": ""}])
def test_without_the_variable_the_environment_lies_in_the_checkout(variables):
    assert Environment.of(variables) == Environment(host.REPOSITORY / ".venv-vllm")


def test_a_step_keeps_its_stamp_under_its_own_name():
    assert SOMEWHERE.stamp("torch") == Path("somewhere", "stamps", "torch")


def test_what_lies_in_the_repository_lies_there():
    assert (host.REPOSITORY / "pyproject.toml").is_file()
    assert (host.SHIMS / "breakeven_vllm_cpu.py").is_file()
    assert json.loads((host.HEAD / "config.json").read_text())["architectures"] == ["LlamaForCausalLMEagle3"]


def test_the_head_is_small_enough_for_a_repository():
    assert (host.HEAD / "model.safetensors").stat().st_size < 25_000_000


def test_a_plain_engine_drafts_nothing_and_gets_no_flag_it_would_refuse():
    command = host.engine_command(SOMEWHERE, "baseline", 8101)
    assert command.argv[:3] == ["somewhere/bin/python", "-m", "vllm.entrypoints.openai.api_server"]
    given = flags(command)
    assert (given["--host"], given["--port"]) == ("127.0.0.1", "8101")
    assert (given["--model"], given["--served-model-name"]) == ("somewhere/smollm2", "smollm2")
    assert "--speculative-config" not in given
    assert "--per-request-spec-decode-metrics" not in given


def test_a_speculative_engine_differs_from_a_plain_one_in_its_speculation_only():
    plain, speculative = (
        host.engine_command(SOMEWHERE, "engine", 8101, speculative=config) for config in (None, host.EAGLE3)
    )
    assert speculative.argv[: len(plain.argv)] == plain.argv
    config, told = speculative.argv[len(plain.argv) :][1::2]
    assert json.loads(config) == {"method": "eagle3", "model": str(host.HEAD), "num_speculative_tokens": 3}
    assert told == "summary"
    assert speculative.environment == plain.environment


def test_further_arguments_come_last_so_that_they_win():
    command = host.engine_command(SOMEWHERE, "engine", 8101, speculative=host.EAGLE3, arguments=["--max-num-seqs", "4"])
    assert command.argv[-2:] == ["--max-num-seqs", "4"]


def test_an_engine_stays_within_its_thread_and_its_memory_and_offline():
    variables = host.engine_command(SOMEWHERE, "engine", 8101).environment
    for name in ("OMP_NUM_THREADS", "VLLM_CPU_KVCACHE_SPACE", "HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS"):
        assert (name, variables[name]) == (name, "1")
    assert variables["PYTHONPATH"].split(os.pathsep) == [str(host.SHIMS), "somewhere/shims"]


def test_an_engine_is_guarded_since_it_does_not_end_with_its_parent_while_it_loads():
    assert host.engine_command(SOMEWHERE, "engine", 8101).guarded


def test_the_ready_line_gives_the_address():
    log = (
        "(APIServer pid=7) INFO 11-30 [entry.py:140] Starting vLLM server on http://127.0.0.1:8101\n"
        "(APIServer pid=7) INFO:     Waiting for application startup.\n"
        "(APIServer pid=7) INFO:     Application startup complete.\n"
    )
    assert host.READY.search(log).group(1) == "http://127.0.0.1:8101"
    assert host.READY.search(log.rsplit("Application", 1)[0]) is None
