"""`breakeven-bench install-vllm`: does what is left to do, keeps what was done, and says what is missing."""

import shutil
import sys
from collections import namedtuple

import pytest

from breakeven_bench.__main__ import main
from breakeven_bench.vllm import host, install_command
from breakeven_bench.vllm.host import ENVIRONMENT_VARIABLE, Environment
from breakeven_bench.vllm.install import DISK_NEEDED_BYTES, INDEX_VARIABLE, Step
from breakeven_bench.vllm.install_command import carry_out, install, is_done, own_or_found, version_of

Usage = namedtuple("Usage", "total used free")

FINE = "import sys; sys.exit(0)"


def python(code):
    return (sys.executable, "-c", code)


def step(*commands, recipe="one", **more):
    return Step("packages", "packages: a while", recipe, commands, **more)


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """The one that the command looks for; there is nothing in it."""
    folder = tmp_path / "env"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, str(folder))
    return Environment(folder)


@pytest.fixture
def plan(environment, monkeypatch):
    """What is to be done in `environment` in place of the real steps, on a machine that has everything."""

    def replaced(*todo):
        monkeypatch.setattr(install_command, "steps", lambda *_: todo)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, DISK_NEEDED_BYTES))
        monkeypatch.setattr(install_command, "version_of", lambda _: (3, 11, 7))

    return replaced


def test_a_command_that_fails_gives_its_status_and_the_hint_and_leaves_no_stamp(environment, capfd):
    failing = step(python("import sys; sys.exit('no such package')"), hint="say where it is")
    assert carry_out(failing, environment) == "packages: a while: status 1, its own words are above\nsay where it is"
    assert "no such package" in capfd.readouterr().err
    assert not is_done(failing, environment)


def test_a_program_that_is_not_there_is_named(environment):
    assert "./no-such-program cannot be run" in carry_out(step(("./no-such-program",)), environment)


def test_after_a_failure_nothing_further_is_done(environment, tmp_path):
    mark = tmp_path / "second ran"
    failing = step(python("raise SystemExit(3)"), python(f"open({str(mark)!r}, 'w')"))
    assert "status 3" in carry_out(failing, environment)
    assert not mark.exists()


def test_a_step_is_done_until_its_recipe_changes(environment):
    assert carry_out(step(python(FINE)), environment) is None
    assert is_done(step(), environment)
    assert not is_done(step(recipe="another"), environment)


def test_commands_see_the_variables_of_their_step_beside_ours_and_no_input(environment, capfd):
    ask = "import os, sys; print(os.environ['SUITE'], 'PATH' in os.environ, repr(sys.stdin.read()))"
    assert carry_out(step(python(ask), variables={"SUITE": "yes"}), environment) is None
    assert capfd.readouterr().out == "yes True ''\n"


def test_files_are_written_before_anything_runs(environment, tmp_path):
    path = tmp_path / "deep" / "file"
    reading = step(python(f"assert open({str(path)!r}).read() == 'text'"), files={path: "text"})
    assert carry_out(reading, environment) is None


def test_an_installation_that_failed_goes_on_where_it_stopped(environment, plan, capsys):
    first, second = Step("a", "first", "1", (python(FINE),)), Step("b", "second", "1", (python("raise SystemExit(1)"),))
    plan(first, second)
    assert "second: status 1" in install(environment, sys.executable, None)
    assert capsys.readouterr().out == "[1/2] first\n[2/2] second\n"
    plan(first, Step("b", "second", "1", (python(FINE),)))
    assert install(environment, sys.executable, None) is None
    assert capsys.readouterr().out == "[2/2] second\n"
    assert install(environment, sys.executable, None) is None
    assert capsys.readouterr().out == ""


def test_what_cannot_work_is_said_before_anything_is_done(environment, plan, monkeypatch, capsys):
    plan(step(python(FINE)))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 0))
    assert "GiB of disk, and 0.0 are free" in install(environment, sys.executable, None)
    assert capsys.readouterr().out == ""


def test_a_machine_without_the_right_python_is_told_so(environment, plan, monkeypatch):
    plan(step(python(FINE)))
    monkeypatch.setattr(install_command, "own_or_found", lambda: None)
    assert "none is found here: name one with --python" in install(environment, None, None)


def test_with_everything_in_place_nothing_is_asked_of_the_machine(environment, plan, monkeypatch):
    done = step(python(FINE))
    plan(done)
    carry_out(done, environment)
    monkeypatch.setattr(install_command, "own_or_found", lambda: None)
    assert install(environment, None, None) is None


def test_outside_of_a_checkout_there_is_nothing_to_install_from(environment, monkeypatch, tmp_path):
    monkeypatch.setattr(install_command, "LOCK", tmp_path / "packages.lock")
    monkeypatch.setattr(host, "SHIMS", tmp_path / "vllm_shims")
    assert "run from a checkout of the repository" in install(environment, None, None)


def test_the_command_says_where_everything_is(environment, plan, capsys):
    plan(step(python(FINE)))
    assert main(["install-vllm"]) == 0
    assert capsys.readouterr().out.endswith(f"vLLM is in place in {environment.folder}: try make real-pair\n")


def test_the_command_fails_in_its_own_name(plan, capsys):
    plan(step(python("raise SystemExit(1)")))
    assert main(["install-vllm"]) == 1
    assert capsys.readouterr().err.startswith("breakeven-bench install-vllm: packages: a while: status 1")


def test_an_interrupt_says_that_a_second_call_goes_on(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(install_command, "install", interrupted)
    assert main(["install-vllm"]) == 130
    assert "interrupted; a second call goes on from here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "argv", "expected"),
    [
        ("https://mirror.example/cpu", [], "https://mirror.example/cpu"),
        ("https://mirror.example/cpu", ["--torch-index-url", "https://other.example"], "https://other.example"),
        ("", [], None),
    ],
)
def test_the_index_of_torch_comes_from_the_flag_or_the_variable(monkeypatch, variable, argv, expected):
    asked = []
    monkeypatch.setenv(INDEX_VARIABLE, variable)
    monkeypatch.setattr(install_command, "install", lambda *given: asked.append(given[2]))
    assert main(["install-vllm", *argv]) == 0
    assert asked == [expected]


def test_an_interpreter_is_asked_for_its_version():
    assert version_of(sys.executable) == sys.version_info[:3]


@pytest.mark.parametrize("program", ["./no-such-program", "false"])
def test_what_is_no_interpreter_has_no_version(program):
    assert version_of(program) is None


def test_an_interpreter_of_another_version_is_not_taken_where_the_right_one_is_on_the_path(monkeypatch, tmp_path):
    right = tmp_path / "python3.11"
    right.write_text("#!/bin/sh\n")
    right.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 12, 0))
    assert own_or_found() == str(right)
    monkeypatch.setattr(sys, "version_info", (3, 11, 0))
    assert own_or_found() == sys.executable
