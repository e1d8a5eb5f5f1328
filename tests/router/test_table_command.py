"""`breakeven.table_command`: tables as text and as JSON, and an exit code that scripts can go by."""

import json

import pytest

from breakeven.config_sources import ConfigError
from breakeven.table_command import show_schema, show_tables
from breakeven_policies.measured import schema, short_hash
from tests.policies.tables import document, table, written


def shown(*paths, as_json=False):
    lines = []
    return show_tables(paths, as_json=as_json, say=lines.append), lines


def put(path, content):
    path.write_bytes(content)
    return path


def test_a_broken_table_is_named_and_the_others_are_shown(tmp_path):
    broken, sound = put(tmp_path / "a.json", b"[]"), put(tmp_path / "b.json", written())
    code, lines = shown(broken, sound)
    assert code == 1
    assert lines[:2] == [f"{broken}: expected object, got array", f"{sound}"]


def test_a_folder_without_tables_is_a_mistake(tmp_path):
    with pytest.raises(ConfigError, match="no table"):
        shown(tmp_path)


def test_a_table_is_shown_with_its_hash_provenance_and_figures(tmp_path):
    path = put(tmp_path / "b.json", written(setups__1__speculative_tokens_per_batch_size=[[1, 8, 3], [9, 64, 0]]))
    code, lines = shown(path)
    digest = table(setups__1__speculative_tokens_per_batch_size=[[1, 8, 3], [9, 64, 0]]).digest()
    assert code == 0
    assert lines == [
        f"{path}",
        f"llama-on-a100: measured, hash {digest[:12]}",
        f"  sha256       {digest}",
        "  model        meta-llama/Llama-3.3-70B-Instruct",
        "  engine       vllm 0.33.0",
        "  gpu          4x A100 80 GB, TP4",
        "  data set     500 prompts",
        "  measured on  2026-11-01",
        "  expires on   2027-05-01",
        "  repeats      3",
        "  commit       0123abc",
        "  setup plain: plain, prefill ms per prompt token 0.25, running at most 128",
        "    workload  T  running  step ms           ms per token  first token ms  tokens per step  by position",
        "    *         -  1        20 [19, 21] n=30  -             -               -                -",
        "    *         -  9        28 n=10           -             -               -                -",
        "  setup k3: speculative, method eagle3, k 3, draft head head, drafting greedy, k by batch 1-8: 3, 9-64: 0",
        "    workload  T  running  step ms  ms per token  first token ms  tokens per step     by position",
        "    code      0  8        30       -             -               2.9 [2.8, 3] n=100  0.900 0.600 0.400",
        "",
    ]


def test_as_json_it_is_one_line_each_with_the_hash(tmp_path):
    code, (line,) = shown(put(tmp_path / "b.json", written()), as_json=True)
    found = json.loads(line)
    assert (code, found["hash"], found["sha256"]) == (0, short_hash(table()), table().digest())
    assert found["table"]["setups"] == document()["setups"]


def test_without_files_those_that_ship_are_shown():
    code, lines = shown()
    assert code == 0
    assert any(line.startswith("user-prior-eagle3-k5: prior, unverified") for line in lines)


def test_the_schema_is_printed():
    lines = []
    assert show_schema(lines.append) == 0
    assert json.loads(lines[0]) == json.loads(json.dumps(schema()))
