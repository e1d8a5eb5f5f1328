"""Commands that the pages tell a person to type exist as typed: make targets, subcommands, flags, files."""

import re
import shlex
import subprocess
import sys
from functools import cache

import pytest

from tests.house.tree import ROOT, files, read

PAGES = sorted(str(path) for path in files() if path.suffix == ".md")
SCRIPTS = {"breakeven": "breakeven", "breakeven-bench": "breakeven_bench"}


def commands(page):
    """The lines of console blocks that begin with a prompt, continuation lines joined."""
    for block in re.findall(r"```(?:console|sh|bash)\n(.*?)```", read(page), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                words = shlex.split(line[2:], comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    words.pop(0)
                yield words


@cache
def make_targets():
    return set(re.findall(r"(?m)^([a-z-]+):", read("Makefile")))


@cache
def usage(package, *subcommand):
    done = subprocess.run(
        [sys.executable, "-m", package, *subcommand, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_page_names_exists(page):
    named = set(re.findall(r"`make ([a-z-]+)", read(page)))
    named |= {words[1] for words in commands(page) if words[0] == "make" and len(words) > 1 and "=" not in words[1]}
    assert sorted(named - make_targets()) == []


def test_the_two_commands_of_a_newcomer_are_in_the_readme():
    typed = [" ".join(words) for words in commands("README.md")]
    assert {"make demo", "make test"} <= set(typed)


@pytest.mark.parametrize("page", PAGES)
def test_every_script_that_a_page_runs_is_there_and_executable(page):
    for words in commands(page):
        if "/" in words[0] and not words[0].startswith(".venv"):
            assert (ROOT / words[0]).stat().st_mode & 0o111, words[0]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_flag_of_our_commands_that_a_page_names_exists(page):
    for words in commands(page):
        program, *arguments = words
        package = SCRIPTS.get(program.rsplit("/", 1)[-1])
        if package is None:
            continue
        subcommand = [word for word in arguments[:1] if not word.startswith("-")]
        known = usage(package, *subcommand)
        flags = [word.split("=")[0] for word in arguments if word.startswith("--")]
        assert [flag for flag in flags if not re.search(rf"{flag}(?![\w-])", known)] == [], " ".join(words)
