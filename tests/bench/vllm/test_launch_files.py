"""What is rendered: the text of the launch files, taken apart. What bash makes of it is `test_vllm_commands`."""

import json
import re

import pytest

from breakeven_bench.vllm.facts import BASELINE, DYNAMIC, EAGLE3, METHODS, SHARED_FLAGS, Flag, Key
from breakeven_bench.vllm.launch_files import (
    COMMENT_COLUMNS,
    COMPUTED_REASONS,
    MARK,
    alternatives,
    comment,
    default,
    flag_lines,
    fleet_file,
    launch_files,
    member,
    method_file,
    plain_account,
    pools_file,
    refusal,
    schedule,
    why_default_k,
)
from breakeven_bench.vllm.machines import FLEETS, PAIR_8B, SPLIT_70B

SPECULATIVE = [method for method in METHODS if method.speculates]


def test_there_is_a_file_for_each_method_and_each_fleet_and_one_for_what_they_share():
    assert sorted(launch_files()) == [
        "baseline.sh",
        "draft-model.sh",
        "dynamic.sh",
        "fleets/llama-70b-2x2.sh",
        "fleets/llama-70b-4x4.sh",
        "fleets/llama-8b-1x1.sh",
        "ngram.sh",
        "pools.sh",
        "speculative.sh",
        "suffix.sh",
    ]


@pytest.mark.parametrize(("name", "text"), launch_files().items())
def test_every_file_says_who_wrote_it_and_ends_in_one_line_feed(name, text):
    assert MARK in text.splitlines()[:2]
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize(("name", "text"), launch_files().items())
def test_exactly_what_starts_an_engine_is_a_program(name, text):
    assert text.startswith("#!/usr/bin/env bash\n") is ("exec vllm serve" in text)


@pytest.mark.parametrize(("name", "text"), launch_files().items())
def test_no_comment_is_wider_than_the_rest_of_the_house(name, text):
    assert [line for line in text.splitlines() if line.lstrip().startswith("#") and len(line) > 120] == []


def test_a_refusal_names_every_word_that_is_allowed_and_the_one_that_was_given():
    assert refusal("FLEET", ["a", "b"]) == """*) echo "FLEET must be a or b, got '$FLEET'" >&2; exit 2 ;;"""


@pytest.mark.parametrize(("words", "text"), [(["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")])
def test_alternatives_are_listed_as_a_person_would(words, text):
    assert alternatives(words) == text


def test_a_comment_is_wrapped_below_its_own_mark():
    lines = comment("word " * 60, "  ")
    assert len(lines) == 3
    assert all(line.startswith("  # word") and len(line) <= COMMENT_COLUMNS for line in lines)


def test_no_text_is_no_comment():
    assert comment("") == []


def test_a_default_gives_way_to_the_environment():
    assert default("PORT", 8000) == 'PORT="${PORT:-8000}"'


@pytest.mark.parametrize(
    ("flag", "lines"),
    [
        (Flag("--bare"), ["  --bare"]),
        (Flag("--fixed", "a,b"), ['  --fixed "a,b"']),
        (Flag("--own", "7", "OWN"), ['  --own "${OWN:-7}"']),
        (Flag("--fleets", variable="FLEETS"), ['  --fleets "$FLEETS"']),
        (Flag("--why", why="Because."), ["", "  # Because.", "  --why"]),
    ],
)
def test_a_flag_takes_its_value_from_where_it_is_kept(flag, lines):
    assert flag_lines(flag) == lines


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (Key("method", "eagle3"), '"method": "eagle3"'),
        (Key("depth", 4), '"depth": 4'),
        (Key("tokens", 3, "TOKENS"), '"tokens": %d'),
        (Key("model", variable="HEAD"), '"model": "%s"'),
        (Key("table", variable="TABLE", is_json=True), '"table": %s'),
    ],
)
def test_a_member_of_the_configuration_is_quoted_by_its_kind(key, text):
    assert member(key) == text


def test_the_file_of_what_is_shared_has_every_shared_flag_once():
    shown = re.findall(r"(?m)^  (--[a-z-]+)", pools_file())
    assert shown == [flag.name for flag in SHARED_FLAGS]


@pytest.mark.parametrize("fleet", FLEETS, ids=lambda fleet: fleet.name)
def test_a_fleets_file_names_its_models_its_gpus_and_every_kind_of_weights(fleet):
    text = fleet_file(fleet)
    assert f'HEAD="${{HEAD:-{fleet.head.repository}}}"' in text
    assert f'SPECULATIVE_GPUS="${{SPECULATIVE_GPUS:-{fleet.speculative_gpus}}}"' in text
    assert re.findall(r"(?m)^  (\w+)\)$", text) == [weights.name for weights in fleet.weights]
    assert text.count("MODEL=") - text.count("DRAFT_MODEL=") == len(fleet.weights)


@pytest.mark.parametrize("fleet", FLEETS, ids=lambda fleet: fleet.name)
def test_a_fleets_file_shows_the_memory_of_every_method(fleet):
    text = fleet_file(fleet)
    rows = re.findall(r"(?m)^#   ([a-z-]+(?:, [a-z-]+)*) +\d+\.\d GB", text)
    assert sorted(", ".join(rows).split(", ")) == sorted(method.script for method in METHODS)


def test_the_account_of_a_split_engine_shows_each_number_that_goes_into_it():
    assert plain_account(SPLIT_70B) == [
        "A100 80GB: 85.0 GB x 0.90                       76.5 GB",
        "- activations, CUDA graphs, NCCL                 4.0 GB  assumed",
        "- (68.5e9 x 1 B + 2.1e9 x 2 B) / 2 GPUs         36.3 GB  weights, 72.7 GB in all",
        "= for keys and values                           36.2 GB",
        "/ (80 layers x 8 heads x 128 x 2 x 2 B / 2 GPUs) = 163,840 B per token",
        "= 220,710 tokens of context for all requests of the plain pool together",
    ]


def test_an_engine_on_one_gpu_divides_by_nothing():
    assert not [line for line in plain_account(PAIR_8B) if "GPUs" in line]


def test_the_account_in_a_fleets_file_adds_up_as_it_is_printed():
    numbers = [
        float(each) for line in plain_account(SPLIT_70B)[:4] for each in re.findall(r"(\d+\.\d) GB(?: |$)", line)
    ]
    whole, allowed, runtime, weights, weights_in_all, left = numbers
    assert allowed == pytest.approx(whole * 0.9, abs=0.1)
    assert left == pytest.approx(allowed - runtime - weights, abs=0.15)
    assert weights == pytest.approx(weights_in_all / 2, abs=0.1)


def test_a_schedule_is_one_word_of_json():
    text = schedule(SPLIT_70B.weights[0])
    assert " " not in text
    assert json.loads(text)[0][0] == 1


def test_the_plain_script_says_why_it_asks_for_no_acceptance():
    assert "No --per-request-spec-decode-metrics here" in method_file(BASELINE)
    assert "--speculative-config" not in method_file(BASELINE)


@pytest.mark.parametrize("method", SPECULATIVE, ids=lambda method: method.script)
def test_a_speculative_script_gives_a_reason_for_every_default_that_has_one(method):
    text = " ".join(method_file(method).replace("\n# ", " ").split())
    assert [key.name for key in method.keys if key.why and key.why not in text] == []


def test_every_computed_reason_belongs_to_a_key_that_has_no_other():
    silent = {(method.script, key.name) for method in METHODS for key in method.keys if not key.why}
    assert set(COMPUTED_REASONS) - silent == set()


def test_the_default_k_has_its_reason_in_figures_of_the_model():
    assert why_default_k() == (
        "3 is the better length for a pool that carries load. By the model of the step time on a100-tp2-int8, with the "
        "published and unverified acceptance, k=5 gives one greedy request 3.1x and k=3 2.6x, but at T=0.7 k=5 stops "
        "paying beyond 60 running requests and k=3 beyond 89. SPEC_TOKENS=5 is the length of the published table."
    )
    assert why_default_k() in " ".join(method_file(EAGLE3).replace("\n# ", " ").split())
    assert why_default_k() not in " ".join(method_file(DYNAMIC).replace("\n# ", " ").split())


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.script)
def test_a_script_says_where_it_was_read_and_since_which_version(method):
    text = " ".join(method_file(method).replace("\n# ", " ").split())
    assert method.source in text
    assert method.note in text
    assert (f"Since vLLM {method.since}." in text) is bool(method.since)
