"""The command lines of `deploy/vllm`, as vLLM 0.33.0 would receive them.

A stand-in called `vllm` on PATH writes down its arguments; they are judged against the flags recorded from vLLM's
source (`record_vllm_flags.py`), since an engine with GPUs is not at hand, and by vLLM's own code where its CPU build is
installed (`judge_vllm_arguments.py`).
"""

import ast
import json
import os
import subprocess
from itertools import product

import pytest

from breakeven_bench.vllm.facts import METHODS
from breakeven_bench.vllm.launch_files_command import differences
from breakeven_bench.vllm.machines import FLEETS
from tests.house.record_vllm_flags import record, words
from tests.house.tree import ROOT, read

FOLDER = ROOT / "deploy" / "vllm"
SCRIPTS = [f"{method.script}.sh" for method in METHODS]
SPECULATIVE = SCRIPTS[1:]
FLEET_NAMES = [fleet.name for fleet in FLEETS]
EVERY = list(product(SCRIPTS, FLEET_NAMES))
EVERY_SPECULATIVE = list(product(SPECULATIVE, FLEET_NAMES))
RECORDED = json.loads(read("tests/house/vllm_flags.json"))

JUDGEMENT_TIMEOUT_S = 300
"""Importing vLLM takes half a minute on an idle core, each configuration a second more."""


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
        subprocess.run([FOLDER / script, *arguments], env=environment, check=True, capture_output=True)
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


def config_of(arguments):
    return json.loads(flags_of(arguments)["--speculative-config"])


def test_the_files_on_disk_are_those_that_are_rendered():
    assert sorted(differences(FOLDER)) == [], "run breakeven-bench launch-files --write"


def test_no_launch_file_is_left_over_from_before():
    rendered = {*SCRIPTS, "pools.sh", *(f"fleets/{name}.sh" for name in FLEET_NAMES), "README.md"}
    assert {str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*") if path.is_file()} == rendered


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WEIGHTS": "int4"}, b"WEIGHTS must be int8 or fp8, got 'int4'"),
        ({"FLEET": "llama-8b-1x1", "WEIGHTS": "int8"}, b"WEIGHTS must be bf16, got 'int8'"),
        ({"FLEET": "mine"}, b"FLEET must be llama-70b-2x2, llama-70b-4x4 or llama-8b-1x1, got 'mine'"),
    ],
)
def test_an_unknown_word_is_refused_before_anything_starts(command, variables, message):
    with pytest.raises(subprocess.CalledProcessError) as failure:
        command("baseline.sh", **variables)
    assert failure.value.returncode == 2
    assert message in failure.value.stderr


def test_a_k_that_is_no_number_is_refused_before_anything_starts(command):
    with pytest.raises(subprocess.CalledProcessError):
        command("speculative.sh", SPEC_TOKENS="many")


@pytest.mark.parametrize(("script", "fleet"), EVERY)
def test_every_flag_exists_in_the_current_vllm(command, script, fleet):
    _, _, arguments = command(script, FLEET=fleet)
    assert sorted(set(flags_of(arguments)) - set(RECORDED["flags"])) == []


@pytest.mark.parametrize(("script", "fleet"), EVERY_SPECULATIVE)
def test_the_pools_differ_in_speculation_port_and_gpus_only(command, script, fleet):
    _, plain_model, plain = command("baseline.sh", FLEET=fleet)
    _, speculative_model, speculative = command(script, FLEET=fleet)
    assert plain_model == speculative_model
    differing = set(flags_of(plain).items()) ^ set(flags_of(speculative).items())
    assert {flag for flag, _ in differing} == {"--port", "--speculative-config", "--per-request-spec-decode-metrics"}


@pytest.mark.parametrize(("script", "fleet"), EVERY)
def test_both_pools_name_their_token_budget_their_slots_and_their_metrics(command, script, fleet):
    flags = flags_of(command(script, FLEET=fleet)[2])
    assert flags["--max-num-batched-tokens"] == "2048"
    assert flags["--max-num-seqs"] == "128"
    assert "--enable-per-request-metrics" in flags
    assert flags.get("--per-request-spec-decode-metrics") == (None if script == "baseline.sh" else "summary")


@pytest.mark.parametrize(("script", "fleet"), EVERY_SPECULATIVE)
def test_the_speculative_configuration_has_only_keys_and_words_that_vllm_knows(command, script, fleet):
    config = config_of(command(script, FLEET=fleet)[2])
    assert sorted(set(config) - set(RECORDED["speculative_config"])) == []
    assert config["method"] in RECORDED["speculative_method"]
    assert config.get("draft_sample_method", "greedy") in RECORDED["draft_sample_method"]
    assert config["rejection_sample_method"] == "standard"


@pytest.mark.parametrize(
    ("script", "drafting"),
    [
        ("speculative.sh", {"method": "eagle3", "model": "RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3"}),
        ("draft-model.sh", {"method": "draft_model", "model": "meta-llama/Llama-3.2-1B-Instruct"}),
        ("ngram.sh", {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 5}),
        ("suffix.sh", {"method": "suffix", "num_speculative_tokens": 8}),
        ("dynamic.sh", {"method": "eagle3", "num_speculative_tokens": 3}),
    ],
)
def test_each_script_drafts_by_its_own_method(command, script, drafting):
    config = config_of(command(script)[2])
    assert {key: config[key] for key in drafting} == drafting


@pytest.mark.parametrize(
    ("fleet", "plain_gpus", "speculative_gpus", "split"),
    [
        ("llama-70b-2x2", "0,1", "2,3", "2"),
        ("llama-70b-4x4", "0,1,2,3", "0,1,2,3", "4"),
        ("llama-8b-1x1", "0", "1", "1"),
    ],
)
def test_each_engine_gets_its_gpus_and_is_split_over_them(command, fleet, plain_gpus, speculative_gpus, split):
    for script, gpus in (("baseline.sh", plain_gpus), ("speculative.sh", speculative_gpus)):
        seen, _, arguments = command(script, FLEET=fleet)
        assert seen == gpus
        assert flags_of(arguments)["--tensor-parallel-size"] == split


def test_gpus_given_from_outside_win_as_in_a_container(command):
    assert command("speculative.sh", CUDA_VISIBLE_DEVICES="0,1")[0] == "0,1"


@pytest.mark.parametrize("script", SCRIPTS)
def test_fp8_weights_are_quantised_from_the_plain_repository(command, script):
    _, model, arguments = command(script, WEIGHTS="fp8")
    assert model == "meta-llama/Llama-3.3-70B-Instruct"
    assert flags_of(arguments)["--quantization"] == "fp8"


def test_the_schedule_of_dynamic_speculation_is_that_of_the_weights(command):
    key = "num_speculative_tokens_per_batch_size"
    int8, fp8 = (config_of(command("dynamic.sh", WEIGHTS=weights)[2])[key] for weights in ("int8", "fp8"))
    assert int8[0][1] > fp8[0][1]
    assert config_of(command("dynamic.sh", SCHEDULE="[[1,9,2]]")[2])[key] == [[1, 9, 2]]


def test_three_tokens_are_drafted_unless_the_environment_says_five(command):
    def drafted(**variables):
        return config_of(command("speculative.sh", **variables)[2])["num_speculative_tokens"]

    assert drafted() == 3
    assert drafted(SPEC_TOKENS="5") == 5


@pytest.mark.parametrize("script", SCRIPTS)
def test_further_flags_of_the_caller_come_last_and_win(command, script):
    assert command(script, "--max-num-seqs", "64")[2][-2:] == ["--max-num-seqs", "64"]


SHAPE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 49152,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "torch_dtype": "bfloat16",
}
"""A Llama small enough to be nowhere: vLLM reads no weights before an engine starts."""

STAND_INS = {
    "MODEL": SHAPE,
    "HEAD": SHAPE | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 32000},
    "DRAFT_MODEL": SHAPE | {"num_hidden_layers": 2},
}
"""Variable of the scripts to the `config.json` of what it names."""


@pytest.fixture
def stand_ins(tmp_path):
    """The variables, each with a folder that vLLM takes for a model. One GPU: vLLM looks for as many as it is told."""
    variables = {"TENSOR_PARALLEL_SIZE": "1"}
    for variable, config in STAND_INS.items():
        folder = tmp_path / variable.lower()
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        variables[variable] = str(folder)
    return variables


def judged(environment, command_lines):
    """The verdicts of vLLM, in the same order."""
    done = subprocess.run(
        [environment.python, "tests/house/judge_vllm_arguments.py"],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment.variables, "VLLM_LOGGING_LEVEL": "ERROR"},
        input=json.dumps(command_lines),
        capture_output=True,
        text=True,
        timeout=JUDGEMENT_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.timeout(JUDGEMENT_TIMEOUT_S + 30)
def test_vllm_itself_accepts_every_command_line(command, stand_ins, real_vllm):
    runs = [command(script, FLEET=fleet, **stand_ins) for script, fleet in EVERY]
    wrong = ["nowhere", "--speculative-method", "eagle3"]
    *verdicts, refused = judged(real_vllm, [*([model, *arguments] for _, model, arguments in runs), wrong])
    assert "error" in refused
    for (script, fleet), verdict in zip(EVERY, verdicts, strict=True):
        if script == "suffix.sh":
            # A package that is not there is the last that can be missing; everything before it was accepted.
            assert "arctic-inference" in verdict["error"], fleet
            continue
        config = {} if script == "baseline.sh" else config_of(command(script, FLEET=fleet, **stand_ins)[2])
        assert verdict == {
            "budget": 2048,
            "method": config.get("method"),
            "draft_tokens": config.get("num_speculative_tokens"),
            "schedule": config.get("num_speculative_tokens_per_batch_size"),
        }, (script, fleet)


def test_an_alias_of_words_is_spelt_out_in_its_place():
    tree = ast.parse('Inner = Literal["b", "c"]\nOuter = Literal["a", Inner, "d"]\nOne = Literal["e"]\n')
    assert words(tree, "Outer") == ["a", "b", "c", "d"]
    assert words(tree, "One") == ["e"]
    with pytest.raises(LookupError, match="Missing"):
        words(tree, "Missing")


def test_the_recorder_reads_literal_flags_fields_and_words(tmp_path):
    written = {
        "_version.py": "__version__ = version = '9.9.9'\n",
        "engine/arg_utils.py": 'group.add_argument("--depth", "-d", **kwargs)\n',
        "entrypoints/common/cli_args.py": "class FrontendArgs:\n    host_name: str\n    enable_it: bool = False\n",
        "config/speculative.py": (
            'Heads = Literal["eagle3"]\nSpeculativeMethod = Literal["ngram", Heads]\n'
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
        "speculative_method": ["ngram", "eagle3"],
        "draft_sample_method": ["greedy"],
        "rejection_sample_method": ["standard", "fly"],
    }
