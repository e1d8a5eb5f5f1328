"""Who may import what, beyond what import-linter holds: the list of pure modules is complete, each I/O has one door.

The contracts themselves are in pyproject.toml and run with `make contracts`.
"""

import tomllib
from functools import cache

import pytest

from tests.house.tree import imports, module_name, read, sources

PURE_CONTRACT = "pure modules do no I/O, know no clock and draw no chance"

DOORS = {
    "time": {"breakeven.clock"},
    "httpx": {"breakeven.engine_client", "breakeven.engine_transport"},
    "prometheus_client": {"breakeven.metrics"},
    "fastapi": {"breakeven.admin"},
    "uvicorn": {"breakeven.admin"},
    "uvloop": {"breakeven.wiring"},
    "opentelemetry": {"breakeven.otlp"},
    "threading": {"breakeven.recorder"},
}
"""What the router uses at one place only, and that place."""


def contract():
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (found,) = [each for each in contracts if each["name"] == PURE_CONTRACT]
    return found


@cache
def direct():
    """Module to what it imports, ours by full name and the rest by the name of the package."""
    ours = {module_name(path): path for path in sources()}
    roots = {name.split(".")[0] for name in ours}
    return {
        module: {name for name in imports(path) if name in ours}
        | {name.split(".")[0] for name in imports(path) if name.split(".")[0] not in roots}
        for module, path in ours.items()
    }


def reaches(module, forbidden, seen=frozenset()):
    """Whether the module imports any of these, itself or through another module of ours."""
    targets = direct()[module]
    return bool(targets & forbidden) or any(
        reaches(target, forbidden, seen | {module}) for target in targets if target in direct() and target not in seen
    )


def pure_modules():
    """The modules that reach nothing of what the contract forbids; neither first pages of packages nor commands."""
    forbidden = set(contract()["forbidden_modules"])
    inner = {module_name(path) for path in sources() if not path.name.startswith("__")}
    return {module for module in inner if not reaches(module, forbidden)}


def test_every_module_that_is_pure_is_declared_so():
    declared = contract()["source_modules"]
    undeclared = {
        module
        for module in pure_modules()
        if not any(module == name or module.startswith(f"{name}.") for name in declared)
    }
    assert sorted(undeclared) == []


def test_half_of_the_modules_are_pure():
    assert len(pure_modules()) / len(direct()) >= 0.5


@pytest.mark.parametrize(("library", "doors"), DOORS.items())
def test_each_kind_of_io_has_one_door_in_the_router(library, doors):
    users = {module for module, names in direct().items() if library in names and module.startswith("breakeven.")}
    assert users == doors


def test_a_forbidden_import_behind_another_module_is_found(monkeypatch):
    graph = {"a": {"b"}, "b": {"a", "socket"}, "c": {"json"}}
    monkeypatch.setattr("tests.house.test_imports.direct", lambda: graph)
    assert [reaches(module, {"socket"}) for module in "abc"] == [True, True, False]
