"""`breakeven-bench demo`: its report is true to what ran, its status to whether it ran, and nothing stays behind."""

import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from breakeven_bench import demo
from breakeven_bench.__main__ import main
from breakeven_bench.record_file import load_records
from tests.bench.commands import alive, kill_an_engine, started, until_gone, until_it_says

# One arm, one rate, 40 requests in a quarter of a second: everything that the demo does, as small as it gets.
SMALL = ["--arms", "two-speculative", "--rates", "40", "--seconds", "1", "--time-scale", "4", "--stream-interval", "50"]


@contextmanager
def loaded(out):
    """A demo that will run for minutes, once its load has begun, and its children."""
    argv = ["demo", "--arms", "two-plain", "--rates", "1", "--seconds", "600", "--out", str(out)]
    with started(argv) as process:
        _, children = until_it_says(process, "requests/s")
        yield process, children


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--arms", "oracle"], "unknown arm 'oracle'"),
        (["--rates", "1,zero"], "--rates"),
        (["--rates", "-1"], "positive"),
        (["--k", "0"], "at least 1"),
        (["--profile", "abacus"], "invalid choice: 'abacus'"),
        (["--time-scale", "0"], "positive"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused_in_one_line(arguments, expected, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["demo", *arguments])
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_help_teaches_how_to_read_the_table(capsys):
    with pytest.raises(SystemExit):
        main(["demo", "--help"])
    said = capsys.readouterr().out
    for expected in ("examples:", "how to read the table:", "no difference", "unstable", "INVALID", "--keep-logs"):
        assert expected in said
    flat = " ".join(said.split())
    for default in ("(36)", "(1.5)", "at least (8)", "(a100-tp2-fp8)"):
        assert default in flat


def test_a_place_where_no_report_can_go_is_a_clear_error_before_anything_starts(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", *SMALL, "--out", str(tmp_path / "file" / "report")]) == 1
    assert "breakeven-bench demo: failed: " in capsys.readouterr().err


@pytest.mark.slow
def test_an_engine_that_cannot_start_ends_the_demo_with_its_own_words(tmp_path, capsys):
    assert main(["demo", *SMALL, "--k", "17", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "two-speculative-eagle3-0 ended with status 2" in said
    assert "--k must be between 1 and 16, got 17" in said


@pytest.mark.slow
def test_an_engine_that_dies_under_load_ends_the_demo_and_the_others_with_it(tmp_path):
    with loaded(tmp_path) as (process, children):
        kill_an_engine(children)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "ended with signal SIGKILL while it was in use" in said
    assert alive(children) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path, number):
    with loaded(tmp_path) as (process, children):
        assert len(children) == 3
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "breakeven-bench demo: interrupted; everything is stopped\n"
    assert alive(children) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_demo_that_is_killed_outright_leaves_no_process_behind(tmp_path):
    with loaded(tmp_path) as (process, children):
        process.kill()
        process.communicate(timeout=30)
    assert until_gone(children)


@pytest.mark.slow
def test_requests_that_fail_end_the_demo_in_an_error_after_its_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "run_rate", _with_failures(demo.run_rate))
    assert main(["demo", *SMALL, "--out", str(tmp_path)]) == 1
    assert "requests failed where none should: two EAGLE-3 at 40/s: 1 x http_5xx" in capsys.readouterr().err
    assert (tmp_path / "report.json").exists()


def _with_failures(run_rate):
    async def failing(*arguments):
        result = await run_rate(*arguments)
        for run in result.runs.runs:
            run.summary.errors.update({"http_5xx": 1})
        return result

    return failing


@pytest.mark.slow
def test_a_small_demo_ends_well_and_keeps_all_that_it_measured(tmp_path, capsys):
    assert main(["demo", *SMALL, "--keep-logs", "--out", str(tmp_path)]) == 0
    records = load_records(tmp_path / "records" / "40-per-s-two-speculative.jsonl")
    assert [record.index for record in records] == list(range(40))
    assert {record.pool for record in records} == {"speculative"}
    assert {record.backend for record in records} == {"speculative-0", "speculative-1"}
    assert all(record.error is None for record in records)
    document = orjson.loads((tmp_path / "report.json").read_bytes())
    assert [arm["arm"]["name"] for at in document["rates"] for arm in at["arms"]] == ["two-speculative"]
    assert document["setup"]["time_scale"] == 4.0
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {
        "two-speculative-eagle3-0.log",
        "two-speculative-eagle3-1.log",
        "two-speculative-router.log",
    }
    said = capsys.readouterr().out
    assert "hardware: a100-tp2-fp8 (2 of 4x A100" in said
    assert "1 s of the engine, 0.25 s here (4 times faster)" in said
    assert "All this is for a100-tp2-fp8 only" in " ".join(said.split())
    assert "two EAGLE-3" in said
    assert "against best equal hardware" in said
    assert str(tmp_path) in said


@pytest.mark.slow
def test_without_a_word_about_logs_and_place_none_are_kept_and_the_report_goes_to_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", *SMALL]) == 0
    (folder,) = Path("results").iterdir()
    assert folder.name.startswith("demo-")
    assert {path.name for path in folder.iterdir()} == {"records", "report.html", "report.json"}
