"""`breakeven-bench simulate`: small studies from the command line, failures in one line."""

import os
import signal
from multiprocessing import active_children

import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.fleet_model import command
from breakeven_bench.fleet_model.page import BEGIN, END
from breakeven_bench.fleet_model.result import decode, encode
from tests.bench.fleet_model.studies import WON

TINY = ["simulate", "--requests", "4", "--warm-up", "4", "--rates", "1", "--jobs", "1"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["simulate", "--pair", "nothing"], "there is no pair 'nothing'; there are: plain-k5,"),
        (["simulate", "--world", "nothing"], "there is no world 'nothing'"),
        (["simulate", "--requests", "0"], "at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_there_is(argv, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["simulate", "--arms", "nothing"], "no arm of that name; there are: all-plain"),
        (["simulate", "--trace", "/nowhere/trace.csv"], "No such file"),
        (["simulate", "--from", "/nowhere/result.json"], "No such file"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(argv, message, capsys):
    assert main(argv) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_result_is_shown_and_renews_a_page(tmp_path, capsys):
    kept, written = tmp_path / "r.json", tmp_path / "page.md"
    kept.write_bytes(encode(WON))
    written.write_text(f"{BEGIN}\nold\n{END}\n")
    assert main(["simulate", "--from", str(kept), "--page", str(written)]) == 0
    assert capsys.readouterr().out.strip() in written.read_text()


def test_an_interruption_is_no_traceback(monkeypatch, capsys):
    def interrupted(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_simulated", interrupted)
    assert main(["simulate"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.slow
def test_who_is_terminated_leaves_no_process_behind(monkeypatch, capsys):
    def terminated(futures):
        assert active_children()
        os.kill(os.getpid(), signal.SIGTERM)
        signal.sigtimedwait([], 10.0)  # the handler interrupts it

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(command, "_wait", terminated)
    assert main(["simulate", "--requests", "2000", "--rates", "1", "--jobs", "1", "--arms", "threshold"]) == 130
    assert active_children() == []
    assert "interrupted" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_a_study_is_simulated_in_other_processes_kept_and_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "SAY_EVERY_S", 0.0)
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.0,10,5\n2023-11-16 18:15:47.0,10,5\n"
    )
    out = tmp_path / "deep" / "r.json"
    arms = ["--arms", "threshold,equal-k3", "--capacity", "--scenarios", "--trace", str(trace), "--out", str(out)]
    assert main([*TINY, "--pair", "plain-k5,plain-k3", *arms]) == 0
    said = capsys.readouterr()
    study = decode(out.read_bytes())
    assert study.places() == [(pair, "falls", load) for pair in ("plain-k5", "plain-k3") for load in ("mixed", "trace")]
    first, second = (study.of(pair, "falls", "mixed")[1.0]["equal-k3"] for pair in ("plain-k5", "plain-k3"))
    assert first.mean_s == second.mean_s
    assert set(study.capacity_of("plain-k5", "falls")) == {"threshold", "equal-k3"}
    assert "simulate --pair plain-k5,plain-k3 --world falls --rates 1 --arms threshold,equal-k3" in said.out
    assert "--trace trace.csv" in said.out
    assert "breakeven-cold" in study.of("plain-k5", "falls", "mixed")[1.0]
    assert "simulated, about" in said.err


def test_a_failure_in_another_process_ends_all(monkeypatch, capsys):
    monkeypatch.setattr(command, "_work", lambda *_: (_ for _ in ()).throw(ValueError("broken")))
    assert main(TINY) == 1
    assert "failed: broken" in capsys.readouterr().err


def test_everything_is_simulated_where_all_is_said():
    assert [pair.name for pair in command._pairs("all")][-1] == "four-pools"
    assert command._worlds("all") == ("falls", "flat", "domain", "drifts", "long")
    (place, rate, cell), *_ = command._places(_Args(), {"plain-k5": command.arms_of(command.PAIRS["plain-k5"])})
    assert (place, rate, cell.trace) == (("plain-k5", "falls", "mixed"), 0.5, False)


class _Args:
    pair = (command.PAIRS["plain-k5"],)
    world = ("falls",)
    rates = None
    trace = None
    scenarios = False
