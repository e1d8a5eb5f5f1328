"""Rules that hold for every file of the tree."""

import ast
import re
import subprocess
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.house.tree import ROOT, SOURCE_ROOTS, files, files_of, read, sources, syntax, text_files

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
"""What one can still hold in the head; both from the numbers the house holds itself to."""

WITHOUT_OWN_TEST = {
    "__init__.py": "says what a package holds and which way things travel; there is nothing to run",
}
"""File names, each with the reason."""

OVER_MANY_SOURCES = {
    "tests/bench/fleet_model/test_breakeven_on_fleets.py": "what a policy must hold there is about all parts together",
    "tests/bench/fleet_model/test_figures_of_the_design.py": "an independent simulation knows no parts",
    "tests/bench/fleet_model/test_results.py": "results that are kept, on a page of the policies",
    "tests/policies/test_laws.py": "the laws hold over every policy that is found",
}
"""Tests of a package that belong to no single file of it, each with the reason."""

PUBLIC_HOSTS = {
    "www.apache.org": "the licence's own address",
    "json-schema.org": "says which version of JSON Schema a schema is written in",
    "keepachangelog.com": "the form of the changelog",
}
"""Outside addresses that may stand in the tree, each with the reason. No index of packages is among them."""

PLACEHOLDER_HOSTS = re.compile(r"(.*\.)?(example\.(com|org|net)|example|test|invalid|internal)")
"""Names reserved for examples and tests (RFC 2606), or for networks of one's own."""

LOCKS = ("requirements.lock", "requirements-dev.lock")


def own_test(source: Path) -> Path:
    """`router/breakeven/engines/vllm.py` is tested by `tests/router/engines/test_vllm.py`."""
    folder, _package, *inner = source.parts
    return Path("tests", folder, *inner[:-1], f"test_{source.stem.strip('_')}.py")


def test_every_source_file_has_its_same_named_test():
    expected = {own_test(source) for source in sources() if source.name not in WITHOUT_OWN_TEST}
    assert sorted(map(str, expected - set(files()))) == []


def test_every_test_of_a_package_names_a_source_file():
    mirrored = {own_test(source) for source in sources()}
    tests = {path for path in files() if path.parts[0] == "tests" and path.name.startswith("test_")}
    tests = {path for path in tests if path.parts[1] in SOURCE_ROOTS}
    assert sorted({str(path) for path in tests - mirrored} - set(OVER_MANY_SOURCES)) == []


def test_no_source_file_is_too_long_to_review():
    lengths = {str(path): len(read(path).splitlines()) for path in sources()}
    assert {path: lines for path, lines in lengths.items() if lines > FILE_LINES_MAX} == {}


@pytest.mark.slow
def test_no_function_scrolls():
    lengths = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in files()
        if path.suffix == ".py"
        for node in ast.walk(syntax(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {function: lines for function, lines in lengths.items() if lines > FUNCTION_LINES_MAX} == {}


def test_no_file_names_a_folder_of_one_machine():
    homes = re.compile(r"(?<![\w.-])/(home|root|Users|work)/[\w.-]+")
    found = [
        f"{path}: {line.strip()}"
        for path, text in text_files()
        for line in text.splitlines()
        if homes.search(line) or str(ROOT) in line
    ]
    assert found == []


def is_outside(host):
    """A name that the public DNS could know, or an address that the internet routes."""
    if re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", host):
        return not PLACEHOLDER_HOSTS.fullmatch(host)
    return bool(re.fullmatch(r"\d+(\.\d+){3}", host)) and ip_address(host).is_global


def test_every_address_outside_has_a_reason_to_be_here_and_every_reason_an_address():
    hosts = re.compile(r"\b(?:https?|wss?)://(?:[^\s/@\"'`]*@)?([A-Za-z0-9._-]*\w)")
    found = {
        (host, str(path)) for path, text in text_files() for host in hosts.findall(text) if is_outside(host.lower())
    }
    assert sorted(each for each in found if each[0] not in PUBLIC_HOSTS) == []
    assert {host for host, _ in found} == set(PUBLIC_HOSTS)


@pytest.mark.parametrize(
    ("host", "outside"),
    [
        ("packages.of-somebody.io", True),
        ("8.8.8.8", True),
        ("chat.example.org", False),
        ("gpu-1", False),
        ("10.0.0.1", False),
    ],
)
def test_an_address_outside_is_told_from_a_placeholder(host, outside):
    assert is_outside(host) is outside


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_is_pinned_and_carries_a_hash(lock):
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n?", "", read(lock)).strip())
    assert len(entries) > 10
    assert [entry for entry in entries if not re.match(r"[\w.\[\]-]+==\S+", entry)] == []
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_says_where_packages_come_from(lock):
    addresses = re.compile(r"://|--index|--extra-index|--find-links|-f ")
    assert [line for line in read(lock).splitlines() if addresses.search(line)] == []


def test_the_router_installs_the_same_versions_that_the_tests_ran_with():
    pins = [dict(re.findall(r"(?m)^([\w.-]+)(?:\[\S*\])?==(\S+)", read(lock))) for lock in LOCKS]
    runtime, development = pins
    assert {name: version for name, version in runtime.items() if development.get(name) != version} == {}


def test_no_comment_promises_work_for_later():
    marks = re.compile(r"#\s*(TODO|FIXME|XXX)\b")
    assert [f"{path}: {line}" for path, text in text_files() for line in text.splitlines() if marks.search(line)] == []


@pytest.mark.parametrize("tracked", [True, False], ids=["git", "archive"])
def test_what_a_user_saves_in_a_clone_is_no_file_of_ours_and_an_archive_is_ours_as_a_whole(tmp_path, tracked):
    for name in ("ours.py", "deleted.py", "results of mine.json", ".venv/theirs.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    if tracked:
        for command in ("init -q", "add ours.py deleted.py"):
            subprocess.run(["git", "-C", tmp_path, *command.split()], check=True)
    (tmp_path / "deleted.py").unlink()
    assert files_of(tmp_path) == tuple(map(Path, ("ours.py",) if tracked else ("ours.py", "results of mine.json")))
