"""`breakeven-bench real-pair`: it says how to try it, and however it ends nothing stays; on simulated engines."""

import re
import signal
import sys
from pathlib import Path

import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.vllm.host import ENVIRONMENT_VARIABLE
from breakeven_bench.vllm.pair import Pair
from breakeven_bench.vllm.pair_command import introduction
from tests.bench.commands import alive, kill_an_engine, started, until_gone, until_it_says
from tests.bench.vllm.stand_in import LOADS_AND_DIES, SERVES, environment

FREE_PORTS = ["--port", "0", "--admin-port", "0", "--baseline-port", "0", "--eagle3-port", "0"]


def pair(tmp_path, *more, code=SERVES):
    """The command, whose engines run this code."""
    argv = ["real-pair", *FREE_PORTS, "--logs", str(tmp_path / "logs"), *more]
    return started(argv, {ENVIRONMENT_VARIABLE: str(environment(tmp_path / "env", code).folder)})


def serving(process):
    """What it said until it served, and its children."""
    return until_it_says(process, "Ctrl-C stops everything")


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["--port", "70000"], "between 0 and 65535"), (["--seconds", "0"], "positive")]
)
def test_a_command_line_that_makes_no_sense_is_refused_in_one_line(arguments, expected, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["real-pair", *arguments])
    assert caught.value.code == 2
    assert expected in capsys.readouterr().err


def test_without_vllm_the_command_that_brings_it_is_said(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(tmp_path))
    assert main(["real-pair"]) == 1
    assert capsys.readouterr().err == (
        f"breakeven-bench real-pair: vLLM is not installed in {tmp_path}, or not completely: run make install-vllm\n"
    )


def test_help_says_what_it_costs_and_how_a_script_uses_it(capsys):
    with pytest.raises(SystemExit):
        main(["real-pair", "--help"])
    said = capsys.readouterr().out
    for expected in ("GB of memory", "--seconds 60", "(8080; 0: any free one)", "(8102; 0: any free one)"):
        assert expected in " ".join(said.split())


def test_the_pools_are_called_what_the_header_calls_them():
    said = introduction(Pair("http://plain", "http://eagle3", "http://router", "http://admin"), Path("logs"))
    (line,) = [line for line in said if "x-breakeven-pool" in line]
    assert "Up to temperature 1.0 pool speculative (eagle3) serves, above it pool baseline;" in line


@pytest.mark.slow
def test_an_engine_that_does_not_start_ends_it_with_its_own_words(tmp_path):
    with pair(tmp_path, code=LOADS_AND_DIES) as process:
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert re.search(r"(?s)^breakeven-bench real-pair: failed: (baseline|eagle3) ended .*no memory left", said)


@pytest.mark.slow
def test_an_engine_that_dies_ends_it_and_the_others_with_it(tmp_path):
    with pair(tmp_path) as process:
        _, children = serving(process)
        kill_an_engine(children)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "ended with signal SIGKILL while it was in use" in said
    assert alive(children) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_stops_everything(tmp_path, number):
    with pair(tmp_path) as process:
        _, children = serving(process)
        assert len(children) == 5  # two engines with a guard each, and the router
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said == "breakeven-bench real-pair: interrupted; everything is stopped\n"
    assert alive(children) == []


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_pair_whose_parent_is_killed_outright_ends_too(tmp_path):
    with pair(tmp_path) as process:
        _, children = serving(process)
        process.kill()
        process.communicate(timeout=30)
    assert until_gone(children)


@pytest.mark.slow
def test_it_says_where_everything_is_and_ends_by_itself_after_its_time(tmp_path):
    with pair(tmp_path, "--seconds", "0.5") as process:
        said, children = serving(process)
        rest, complaints = process.communicate(timeout=30)
    assert (process.returncode, complaints) == (0, "")
    assert rest == "0.5 s are over; stopping\n"
    assert alive(children) == []
    (router,) = re.findall(r"(?m)^router   (http://127\.0\.0\.1:\d+)   \(admin http://127\.0\.0\.1:\d+\)$", said)
    assert [f"curl -i {router}/v1/chat/completions" in line for line in said.splitlines()].count(True) == 2
    assert {path.name for path in (tmp_path / "logs").iterdir()} == {"baseline.log", "eagle3.log", "router.log"}
