"""The command lines of `deploy/vllm`, as vLLM 0.33.0 would receive them.

A stand-in called `vllm` on PATH writes down its arguments; they are judged against the flags recorded from vLLM's
source (`record_vllm_flags.py`), since an engine with GPUs is not at hand.
"""

import contextlib
import io
import json
import os
import re
import subprocess

import pytest

from tests.house.record_vllm_flags import record
from tests.house.tree import ROOT, read

SCRIPTS = ("baseline.sh", "speculative.sh")
RECORDED = json.loads(read("tests/house/vllm_flags.json"))


@pytest.fixture
def command(tmp_path):
    """Runs a script with the stand-in and answers what it would have started."""
    stand_in = tmp_path / "vllm"
    stand_in.write_text(
        '#!/usr/bin/env bash\nprintf "%s\\0" "$CUDA_VISIBLE_DEVICES" "$@" > "$ARGUMENTS"\n', encoding="utf-8"
    )
    stand_in.chmod(0o755)

    def run(script, *arguments, **variables):
        environment = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "ARGUMENTS": str(tmp_path / "arguments"),
            **variables,
        }
        subprocess.run([ROOT / "deploy/vllm" / script, *arguments], env=environment, check=True, capture_output=True)
        gpus, serve, model, *rest = (tmp_path / "arguments").read_text(encoding="utf-8").split("\0")[:-1]
        assert serve == "serve"
        return gpus, model, rest

    return run


def flags_of(arguments):
    """Flag to value, None for a flag without one."""
    pairs = {}
    for argument, following in zip(arguments, [*arguments[1:], "--"], strict=True):
        if argument.startswith("-"):
            pairs[argument] = None if following.startswith("-") else following
    return pairs


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_flag_exists_in_the_current_vllm(command, script):
    _, _, arguments = command(script)
    assert RECORDED["vllm"] == "0.33.0"
    assert sorted(set(flags_of(arguments)) - set(RECORDED["flags"])) == []


@pytest.mark.parametrize("script", SCRIPTS)
def test_fp8_weights_are_quantised_from_the_plain_repository(command, script):
    _, model, arguments = command(script, WEIGHTS="fp8")
    assert model == "meta-llama/Llama-3.3-70B-Instruct"
    assert flags_of(arguments)["--quantization"] == "fp8"


def test_weights_of_another_kind_are_refused_before_anything_starts(command):
    with pytest.raises(subprocess.CalledProcessError) as failure:
        command("baseline.sh", WEIGHTS="int4")
    assert failure.value.returncode == 2
    assert b"int8 or fp8, got 'int4'" in failure.value.stderr


def test_the_pools_differ_in_speculation_port_and_gpus_only(command):
    plain_gpus, plain_model, plain = command("baseline.sh")
    speculative_gpus, speculative_model, speculative = command("speculative.sh")
    assert plain_model == speculative_model
    assert (plain_gpus, speculative_gpus) == ("0,1", "2,3")
    differing = set(flags_of(plain).items()) ^ set(flags_of(speculative).items())
    assert {flag for flag, _ in differing} == {"--port", "--speculative-config", "--per-request-spec-decode-metrics"}


def test_both_pools_name_their_token_budget_and_their_slots(command):
    for script in SCRIPTS:
        flags = flags_of(command(script)[2])
        assert flags["--max-num-batched-tokens"] == "2048"
        assert flags["--max-num-seqs"] == "128"


def test_the_plain_pool_asks_for_no_acceptance_metrics_since_that_is_an_error_there(command):
    assert "--per-request-spec-decode-metrics" not in flags_of(command("baseline.sh")[2])


def test_the_speculative_configuration_has_only_keys_and_words_that_vllm_knows(command):
    config = json.loads(flags_of(command("speculative.sh")[2])["--speculative-config"])
    assert sorted(set(config) - set(RECORDED["speculative_config"])) == []
    assert config["draft_sample_method"] in RECORDED["draft_sample_method"]
    assert config["rejection_sample_method"] in RECORDED["rejection_sample_method"]


def test_drafts_are_verified_without_changing_what_the_model_answers(command):
    config = json.loads(flags_of(command("speculative.sh")[2])["--speculative-config"])
    assert config["rejection_sample_method"] == "standard"


def test_three_tokens_are_drafted_unless_the_environment_says_five(command):
    def drafted(**variables):
        flags = flags_of(command("speculative.sh", **variables)[2])
        return json.loads(flags["--speculative-config"])["num_speculative_tokens"]

    assert drafted() == 3
    assert drafted(SPEC_TOKENS="5") == 5


def test_further_flags_of_the_caller_come_last_and_win(command):
    assert command("speculative.sh", "--max-num-seqs", "64")[2][-2:] == ["--max-num-seqs", "64"]


def test_the_memory_table_is_what_its_arithmetic_prints():
    text = read("deploy/vllm/README.md")
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # noqa: S102  # our own page, in our own test
    assert printed.getvalue() == shown


def test_the_recorder_reads_literal_flags_fields_and_words(tmp_path):
    written = {
        "_version.py": "__version__ = version = '9.9.9'\n",
        "engine/arg_utils.py": 'group.add_argument("--depth", "-d", **kwargs)\n',
        "entrypoints/common/cli_args.py": "class FrontendArgs:\n    host_name: str\n    enable_it: bool = False\n",
        "config/speculative.py": (
            'DraftSampleMethod = Literal["greedy"]\nRejectionSampleMethod = Literal["standard", "fly"]\n'
            "class SpeculativeConfig:\n    method: str\n"
        ),
    }
    for path, text in written.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    assert record(tmp_path) == {
        "vllm": "9.9.9",
        "flags": ["--depth", "--enable-it", "--host-name", "--no-enable-it", "-d"],
        "speculative_config": ["method"],
        "draft_sample_method": ["greedy"],
        "rejection_sample_method": ["standard", "fly"],
    }
