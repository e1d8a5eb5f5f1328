"""Every name that ARCHITECTURE.md and the packages' first pages put in backticks exists, spelt that way.

Strict where a text claims that something is in the code: `module.name`, `CamelCase`, `function(...)`, a path. Plain
words in backticks (settings, values, labels) are left alone: they cannot be told from prose.
"""

import ast
import builtins
import importlib
import re
from functools import cache

import pytest

from tests.house.tree import SOURCE_ROOTS, files, imports, module_name, read, sources, syntax

PAGES = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    *(f"{folder}/{package}/__init__.py" for folder, package in SOURCE_ROOTS.items()),
]

FOREIGN = {
    "policies/breakeven_policies/mine.py": "an example of a file to be written",
    "OpenAI": "the protocol's owner",
    "PromQL": "a language",
    "vLLM": "the engine",
    "generation_config.json": "a file of a model's repository",
    "metrics.speculative_decoding": "a field of vLLM's answers",
    "usage.completion_tokens": "a field of the protocol",
}
"""Names that look like ours and are nobody's in this tree, each with what it is."""

FILE_NAME = re.compile(
    r"[\w.*/-]+\.(py|md|toml|lock|ya?ml|json|sh)|(router|policies|bench|tests|deploy|\.ci)/[\w.*/-]*"
)
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
CAMEL_CASE = re.compile(r"[A-Z][a-z0-9]+[A-Z]\w*")
CAPITALISED = re.compile(r"[A-Z][a-z0-9]+")
CALL = re.compile(r"([A-Za-z_][\w.]*)\(")


def members(node):
    """The names that a class or module body defines, nested classes' members included as `Class.member`."""
    for statement in node.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name
        if isinstance(statement, ast.ClassDef):
            yield from (f"{statement.name}.{member}" for member in members(statement))
        elif isinstance(statement, ast.Assign):
            yield from (
                name.id for target in statement.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            yield from (
                target.attr
                for node in ast.walk(statement)
                for target in getattr(node, "targets", [getattr(node, "target", None)])
                if isinstance(target, ast.Attribute)
            )


@cache
def defined():
    """Every way to write a name of ours: `name`, `Class.member`, `module.name`, `package.module.name`."""
    names = set()
    for path in sources():
        module = module_name(path)
        short = module.rsplit(".", 1)[-1]
        names |= {module, short, module.split(".", 1)[-1]}
        for member in members(syntax(path)):
            names |= {member, member.rsplit(".", 1)[-1], f"{short}.{member}", f"{module}.{member}"}
    return names


@cache
def imported():
    """Outside modules that our sources import, and what they take from them: `asyncio`, `BaseModel`."""
    names = {name for path in sources() for name in imports(path)}
    foreign = {name for name in names if name.split(".")[0] not in SOURCE_ROOTS.values()}
    return {name.split(".")[0] for name in foreign}, {name.rsplit(".", 1)[-1] for name in foreign}


def is_importable(dotted):
    module, *attributes = dotted.split(".")
    modules, taken = imported()
    if module not in modules:
        return dotted in taken
    value = importlib.import_module(module)
    for attribute in attributes:
        if not hasattr(value, attribute):
            return False
        value = getattr(value, attribute)
    return True


def is_file(name):
    pattern = name.rstrip("/")
    return any(path.match(pattern) or any(parent.match(pattern) for parent in path.parents) for path in files())


def is_known(name):
    return name in defined() or name in FOREIGN or hasattr(builtins, name) or is_importable(name)


def claims(token):
    """The names in one backticked text that it claims to be in the code; a path is answered as the path."""
    if any(shape.fullmatch(token) for shape in (FILE_NAME, DOTTED, CAPITALISED)):
        return [token]
    called = [match.group(1) for match in CALL.finditer(token)]
    return called + [word for word in re.findall(r"\b\w+\b", token) if CAMEL_CASE.fullmatch(word)]


def unknown(text):
    tokens = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [name for token in tokens for name in claims(token) if not (is_known(name) or is_file(name))]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_name_in_backticks_exists(page):
    assert unknown(read(page)) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("the `fleet.aply` of `Flet`", ["fleet.aply", "Flet"]),
        ("a `FleetSnapshit` is taken", ["FleetSnapshit"]),
        ("`decyde(request, fleet) -> Decision`", ["decyde"]),
        ("see `router/breakeven/flet.py`", ["router/breakeven/flet.py"]),
        ("`asyncio.Protokol`", ["asyncio.Protokol"]),
    ],
)
def test_a_name_that_no_longer_exists_is_found(text, names):
    assert unknown(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "`policy.route`, `breakeven_policies.policy.route`, `FleetSnapshot`, `PoolKind.PLAIN`, `BackendView.load`",
        "`decide(request, fleet)`, `ValueError`, `dataclasses.dataclass`",
        "`router/breakeven/`, `pyproject.toml`, `tests/house/tree.py`, `policies/*/threshold.py`",
        "`threshold`, `x-breakeven-pool`, `--baseline URL`, `None`",
    ],
)
def test_names_that_exist_and_plain_words_pass(text):
    assert unknown(text) == []
