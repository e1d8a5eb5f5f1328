"""The command line: what it says of itself, and what it does when a subcommand or one of its packages is missing."""

import subprocess
import sys
from importlib.metadata import version
from types import ModuleType

import pytest

from breakeven_bench import __main__ as command
from breakeven_bench.__main__ import SUBCOMMANDS, Subcommand, main


@pytest.fixture
def said(monkeypatch):
    """A subcommand `say` that returns the number it is given."""
    module = ModuleType("said")

    def add_parser(subparsers):
        subparsers.add_parser("say").add_argument("number", type=int)

    module.add_parser = add_parser
    module.run = lambda args: args.number
    monkeypatch.setitem(sys.modules, "said", module)
    monkeypatch.setitem(SUBCOMMANDS, "say", Subcommand("said", "return a number"))


def needing(monkeypatch, name):
    def fail(module):
        message = f"No module named {name!r}"
        raise ModuleNotFoundError(message, name=name)

    monkeypatch.setattr(command, "import_module", fail)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        (["--dance"], "the following arguments are required: COMMAND"),
        (["say"], "the following arguments are required: number"),
        (["say", "much"], "invalid int value: 'much'"),
        (["say", "1", "--loud"], "unrecognized arguments: --loud"),
    ],
)
def test_what_cannot_be_understood_is_told_in_one_line_with_status_2(said, capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    output = capsys.readouterr()
    assert (caught.value.code, output.out) == (2, "")
    assert message in output.err
    assert output.err.count("\n") == 1
    assert "--help" in output.err


def test_a_missing_package_is_named_with_the_command_that_installs_it(monkeypatch, capsys):
    needing(monkeypatch, "aiohttp.web")
    assert main(["engine"]) == 2
    assert capsys.readouterr().err == (
        "breakeven-bench engine: error: it needs the package 'aiohttp.web': pip install 'breakeven[bench]'\n"
    )


def test_a_missing_module_of_our_own_is_a_fault_and_not_hidden(monkeypatch):
    needing(monkeypatch, "breakeven_bench.engine_command")
    with pytest.raises(ModuleNotFoundError):
        main(["engine"])


def test_the_status_of_a_subcommand_is_that_of_the_program(said):
    assert main(["say", "7"]) == 7


def test_the_arguments_are_those_of_the_process_unless_given(said, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["breakeven-bench", "say", "5"])
    assert main() == 5


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"breakeven-bench {version('breakeven')}\n"


def test_help_lists_every_subcommand(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    for name, subcommand in SUBCOMMANDS.items():
        assert name in shown
        assert subcommand.summary[:40] in shown


@pytest.mark.slow
def test_help_imports_no_subcommand():
    code = (
        "import sys\n"
        "from breakeven_bench.__main__ import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "print([name for name in sys.modules if name.startswith('breakeven_bench.')], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "['breakeven_bench.__main__']\n"
