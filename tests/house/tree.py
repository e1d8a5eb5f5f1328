"""The files of this checkout and the names they define, read without importing anything."""

import ast
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SOURCE_ROOTS = {"router": "breakeven", "policies": "breakeven_policies", "bench": "breakeven_bench"}
"""Folder and the package in it."""

GENERATED = ("__pycache__", "dist", "results", ".git", ".hypothesis", ".coverage")
"""Left by tools, ignored by git; with every folder named `.venv*` and `.*_cache`."""

BINARY = (".png", ".gz", ".zst", ".woff2", ".ico", ".safetensors", ".bin")


def is_generated(name: str) -> bool:
    return name in GENERATED or name.startswith(".venv") or (name.startswith(".") and name.endswith("_cache"))


@cache
def files() -> tuple[Path, ...]:
    """Every file that git tracks, relative to the root, sorted: what else lies in the checkout is its user's."""
    return files_of(ROOT)


def files_of(root: Path) -> tuple[Path, ...]:
    """The same of any folder. Without git, as where the source came as an archive, what tools leave is left out."""
    git = shutil.which("git")
    if git is not None and (root / ".git").exists():  # a file in a worktree
        listed = subprocess.run([git, "-C", str(root), "ls-files", "-z"], check=False, capture_output=True)
        if listed.returncode == 0:
            names = [Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]
            return tuple(sorted(name for name in names if (root / name).is_file()))  # a deleted one is listed still
    found: list[Path] = []
    for folder, folders, inside in os.walk(root):
        folders[:] = [name for name in folders if not is_generated(name)]
        found += [Path(folder, name).relative_to(root) for name in inside if not is_generated(name)]
    return tuple(sorted(found))


def text_files() -> Iterator[tuple[Path, str]]:
    for path in files():
        if path.suffix not in BINARY:
            yield path, read(path)


@cache
def read(path: Path | str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def sources() -> list[Path]:
    """The Python files of the three packages."""
    return [path for path in files() if path.parts[0] in SOURCE_ROOTS and path.suffix == ".py"]


def module_name(path: Path) -> str:
    """`router/breakeven/engines/vllm.py` is `breakeven.engines.vllm`."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def syntax(path: Path) -> ast.Module:
    return ast.parse(read(path), filename=str(path))


def imports(path: Path) -> set[str]:
    """The absolute names that a file imports, modules and what is taken from them: `a.b` and `a.b.c`."""
    found: set[str] = set()
    for node in ast.walk(syntax(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found
