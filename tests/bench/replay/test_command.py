"""`breakeven-bench replay`: what a person types, and what a gate gets."""

import gzip
import json
from pathlib import Path

import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.replay import command
from tests.bench.replay.journals import entry, written
from tests.house.tree import ROOT
from tests.policies.fleets import request

TABLE = ROOT / "policies/breakeven_policies/tables/user-prior-eagle3-k5.json"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A folder with a journal that was turned over and packed once; the last line is half."""
    lines = written([entry(request(number / 100)) for number in range(150)])
    (tmp_path / "journal.jsonl.1.gz").write_bytes(gzip.compress(b"".join(lines[:100])))
    (tmp_path / "journal.jsonl").write_bytes(b"".join(lines[100:]) + lines[0][:50])
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: no journal there"),
        ([".", "--policy", "fastest"], "unknown policy 'fastest'"),
        ([".", "--policy", "pinned"], "pinned needs the name of a pool"),
        ([".", "--table", "no.json"], "no.json: No such file"),
        ([".", "--table", "journal.jsonl"], "journal.jsonl: "),
        ([".", "--json", "no/where.json"], "no/where.json: No such file"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(
    journal: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(journal)
    assert main(["replay", *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"breakeven-bench replay: error: {message}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("expected", ["2", "-0.1", "nan", "all"])
def test_an_expectation_is_a_share(expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["replay", ".", "--expect-agreement", expected])
    assert "--expect-agreement" in capsys.readouterr().err


def test_a_packed_file_that_is_cut_off_is_an_error(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = journal / "journal.jsonl.1.gz"
    packed.write_bytes(packed.read_bytes()[:-20])
    assert main(["replay", str(journal)]) == 2
    assert "Compressed file ended" in capsys.readouterr().err


def test_who_breaks_it_off_gets_no_traceback(
    journal: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_work", interrupted)
    assert main(["replay", str(journal)]) == 130
    assert capsys.readouterr().err == "breakeven-bench replay: interrupted\n"


def test_a_gate_that_has_seen_nothing_does_not_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b"{}\n")
    assert main(["replay", str(tmp_path), "--expect-agreement", "0"]) == 1
    assert "no line could be read" in capsys.readouterr().err


def test_less_agreement_than_expected_fails_and_says_by_whom(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = ["--policy", "threshold", "--policy", "threshold:0.9"]
    assert main(["replay", str(journal), *policies, "--expect-agreement", "0.99"]) == 1
    assert capsys.readouterr().err == (
        "breakeven-bench replay: failed: threshold:0.9 agrees with 93.33% of the lines, 99.00% are expected\n"
    )
    assert main(["replay", str(journal), *policies, "--expect-agreement", "0.93"]) == 0


def test_without_a_policy_each_line_is_decided_by_the_one_that_wrote_it(
    journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(journal), "--expect-agreement", "1"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("# 150 decisions, decided again\n")
    assert "1 lines could not be read; the first: line 151: not a line of a journal" in page
    assert "| as written | 100.0 % |" in page


def test_the_document_is_written_where_it_is_wanted_and_a_table_can_be_given(journal: Path, tmp_path: Path) -> None:
    out = tmp_path / "replay.json"
    arguments = ["--policy", "breakeven", "--table", str(TABLE), "--json", str(out), "--pools"]
    assert main(["replay", str(journal), *arguments, "--expect-agreement", "0"]) == 0
    document = json.loads(out.read_bytes())
    assert (document["lines"], document["policies"][0]["policy"]) == (150, "breakeven")
