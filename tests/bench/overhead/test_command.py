"""`breakeven-bench overhead`: measures or reads, and says what was found whoever is cheaper."""

import asyncio
import resource

import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.launch import LaunchError
from breakeven_bench.overhead import command
from breakeven_bench.overhead.command import raise_descriptors
from breakeven_bench.overhead.loads import DOCUMENTS, LOADS, PACED
from breakeven_bench.overhead.result import decode, encode
from tests.bench.overhead.results import RESULT


@pytest.fixture
def measured(monkeypatch):
    """The command with `outcome` in place of a measurement; returns what it was asked for."""

    def prepared(outcome):
        asked = []

        async def measure(*how):
            asked.append(how)
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr(command, "_measure", measure)
        monkeypatch.setattr(command, "raise_descriptors", lambda: None)
        return asked

    return prepared


def test_a_result_is_written_and_shown(measured, tmp_path, capsys):
    asked = measured(RESULT)
    out = tmp_path / "deep" / "overhead.json"
    assert main(["overhead", "--rounds", "5", "--loads", "paced,documents", "--out", str(out)]) == 0
    assert decode(out.read_bytes()) == RESULT
    ((_, loads, rounds, words),) = asked
    assert (loads, rounds) == ((DOCUMENTS, PACED), 5)
    assert words == "breakeven-bench overhead --rounds 5 --loads documents,paced"
    said = capsys.readouterr().out
    assert "| vllm-router | 200.0 |" in said
    assert "0.78 of vllm-router's" in said


def test_everything_is_measured_where_nothing_is_said_and_who_is_missing_is_told(
    measured, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("PATH", "")
    asked = measured(RESULT)
    assert main(["overhead", "--out", str(tmp_path / "o.json")]) == 0
    ((peers, loads, rounds, words),) = asked
    assert [peer.name for peer in peers] == ["direct", "bare relay", "breakeven"]
    assert (loads, rounds, words) == (LOADS, 3, "breakeven-bench overhead")
    said = capsys.readouterr().out
    assert "haproxy is not installed" in said
    assert "vllm-router is not installed" in said


def test_a_result_is_read_again_without_measuring(measured, tmp_path, capsys):
    asked = measured(AssertionError("measured"))
    saved = tmp_path / "saved.json"
    saved.write_bytes(encode(RESULT))
    assert main(["overhead", "--from", str(saved), "--reference", "direct"]) == 0
    assert asked == []
    assert "of direct's" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--loads", "documents,odd"], "there is no load 'odd'; there are: documents, streams, paced"),
        (["--peer", "mine"], "expected NAME=COMMAND"),
        (["--rounds", "0"], "at least 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_one_line(arguments, said, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["overhead", *arguments])
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("failure", [LaunchError("haproxy ended"), OSError("disk full")])
def test_a_failure_is_one_line_and_status_1(measured, tmp_path, capsys, failure):
    measured(failure)
    assert main(["overhead", "--out", str(tmp_path / "o.json")]) == 1
    assert capsys.readouterr().err == f"breakeven-bench overhead: failed: {failure}\n"


def test_a_file_that_is_no_result_is_an_error(tmp_path, capsys):
    for source in (tmp_path / "x.json", tmp_path / "nothing.json"):
        (tmp_path / "x.json").write_text("[]")
        assert main(["overhead", "--from", str(source)]) == 1
        assert capsys.readouterr().err.startswith(f"breakeven-bench overhead: failed: cannot read {source}: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--out", "."], "is a folder"),
        (["--peer", "a=x {port} {engine}", "--peer", "a=y {port} {engine}"], "two peers have one name: a, a"),
    ],
)
def test_what_would_fail_at_the_end_fails_at_the_beginning(measured, tmp_path, capsys, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    asked = measured(RESULT)
    assert main(["overhead", *arguments]) == 1
    assert said in capsys.readouterr().err
    assert asked == []


def test_all_peers_and_the_reference_are_part_of_the_command_that_is_written_down(measured, tmp_path):
    asked = measured(RESULT)
    peers = ["--peer", "a=x {port} {engine}", "--peer", "b=y {port} {engine}", "--reference", "b"]
    assert main(["overhead", *peers, "--out", str(tmp_path / "o.json")]) == 0
    assert asked[0][3] == "breakeven-bench overhead --peer a=... --peer b=... --reference b"


def test_a_version_is_one_line_without_addresses():
    assert command._said(["printf", "proxy 2.6 - https://proxy.example/\\nbuilt today\\n"]) == "proxy 2.6"


@pytest.mark.parametrize("words", [["/nowhere/at/all"], ["sleep", "5"], ["false"], ["true"]])
def test_a_program_that_does_not_say_its_version_has_an_unknown_one(monkeypatch, words):
    monkeypatch.setattr(command, "VERSION_S", 0.05)
    assert command._said(words) == "unknown"


def test_a_reference_that_took_no_part_is_told(tmp_path, capsys):
    (tmp_path / "x.json").write_bytes(encode(RESULT))
    assert main(["overhead", "--from", str(tmp_path / "x.json"), "--reference", "zzz"]) == 0
    assert "no peer named 'zzz' took part" in capsys.readouterr().out


def test_an_interruption_is_told_and_has_its_own_status(measured, tmp_path, capsys):
    measured(asyncio.CancelledError())
    assert main(["overhead", "--out", str(tmp_path / "o.json")]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_more_files_may_be_open_as_far_as_the_system_allows():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_descriptors(300)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, before[1])
        raise_descriptors(280)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (300, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_help_teaches(capsys):
    with pytest.raises(SystemExit):
        main(["overhead", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for expected in ("three rounds, two minutes", "leave the machine alone", "--peer", "(results/overhead.json)"):
        assert expected in said
