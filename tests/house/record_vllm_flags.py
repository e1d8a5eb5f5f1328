"""Reads which flags `vllm serve` takes out of vLLM's source, without importing it (that needs torch and a GPU build).

    python tests/house/record_vllm_flags.py path/to/vllm > tests/house/vllm_flags.json

where the path is the package as unpacked from the wheel. Three places define a flag in 0.33.0: calls of `add_argument`
with literal names (`engine/arg_utils.py`, `entrypoints/common/cli_args.py`), and the fields of the front end's two
classes, which become `--field-name`; a boolean one also gets `--no-field-name`. The keys of `--speculative-config` are
the fields of one class, and the words that three of them take are `Literal` types of the same file.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FRONTEND_CLASSES = ("BaseFrontendArgs", "FrontendArgs")


def literal_flags(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for argument in node.args:
                if isinstance(argument, ast.Constant) and str(argument.value).startswith("-"):
                    yield str(argument.value)


def fields(tree: ast.AST, class_name: str) -> Iterator[tuple[str, str]]:
    """Name and annotation of every annotated field of the class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    yield statement.target.id, ast.unparse(statement.annotation)


def frontend_flags(tree: ast.AST) -> Iterator[str]:
    for class_name in FRONTEND_CLASSES:
        for name, annotation in fields(tree, class_name):
            flag = name.replace("_", "-")
            yield f"--{flag}"
            if annotation == "bool":
                yield f"--no-{flag}"


def words(tree: ast.AST, alias: str) -> list[str]:
    """The strings of `Alias = Literal["a", OtherAlias, "b"]`, those of the other aliases included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [alias]:
            members = node.value.slice if isinstance(node.value, ast.Subscript) else node.value
            listed = members.elts if isinstance(members, ast.Tuple) else [members]
            return [word for member in listed for word in _spelt_out(tree, member)]
    raise LookupError(alias)


def _spelt_out(tree: ast.AST, member: ast.expr) -> list[str]:
    return words(tree, member.id) if isinstance(member, ast.Name) else [str(ast.literal_eval(member))]


def record(package: Path) -> dict[str, object]:
    def parse(path: str) -> ast.AST:
        return ast.parse((package / path).read_text(encoding="utf-8"))

    arguments, frontend = parse("engine/arg_utils.py"), parse("entrypoints/common/cli_args.py")
    flags = {*literal_flags(arguments), *literal_flags(frontend), *frontend_flags(frontend)}
    speculative = parse("config/speculative.py")
    version = re.search(r"__version__ = .*?'([^']+)'", (package / "_version.py").read_text(encoding="utf-8"))
    return {
        "vllm": version[1] if version else None,
        "flags": sorted(flags),
        "speculative_config": sorted(name for name, _ in fields(speculative, "SpeculativeConfig")),
        "speculative_method": words(speculative, "SpeculativeMethod"),
        "draft_sample_method": words(speculative, "DraftSampleMethod"),
        "rejection_sample_method": words(speculative, "RejectionSampleMethod"),
    }


if __name__ == "__main__":
    json.dump(record(Path(sys.argv[1])), sys.stdout, indent=1)
    sys.stdout.write("\n")
