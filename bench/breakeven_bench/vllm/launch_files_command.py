"""`breakeven-bench launch-files`: write the scripts and tables of `deploy/vllm`, or check that they are as rendered."""

import argparse
import sys
from pathlib import Path

from breakeven_bench.vllm.launch_files import launch_files
from breakeven_bench.vllm.launch_tables import with_tables

FOLDER = "deploy/vllm"
"""Below the root of a checkout, where this is run."""

README = "README.md"

EXECUTABLE = 0o755

EXIT_DIFFERENT = 1
EXIT_USAGE = 2


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the parser of `launch-files`."""
    parser = subparsers.add_parser("launch-files", description=__doc__.partition(": ")[2])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument(
        "--check", nargs="?", type=Path, const=Path(FOLDER), metavar="DIR", help=f"compare; 1 if different ({FOLDER})"
    )
    action.add_argument(
        "--write", nargs="?", type=Path, const=Path(FOLDER), metavar="DIR", help=f"write what differs ({FOLDER})"
    )


def run(args: argparse.Namespace) -> int:
    """Compare or write; returns the exit status."""
    try:
        return check(args.check) if args.check else write_all(args.write)
    except (OSError, ValueError) as error:
        print(f"breakeven-bench launch-files: error: {error}", file=sys.stderr)
        return EXIT_USAGE


def check(folder: Path) -> int:
    """Name what differs; returns the exit status. Raises what `differences` raises."""
    different = differences(folder)
    for name in different:
        print(f"{folder / name} is not as rendered: run breakeven-bench launch-files --write {folder}")
    return EXIT_DIFFERENT if different else 0


def write_all(folder: Path) -> int:
    """Write what differs; returns the exit status. Raises what `differences` raises."""
    for name, text in differences(folder).items():
        write(folder / name, text)
        print(f"{folder / name} written")
    return 0


def differences(folder: Path) -> dict[str, str]:
    """Path below the folder to the text that should stand there, of every file that does not hold it.

    A README that is not there is none of ours to write. Raises OSError, or ValueError where the README lacks the place
    of a table.
    """
    wanted = launch_files()
    readme = folder / README
    if readme.exists():
        wanted[README] = with_tables(readme.read_text(encoding="utf-8"))
    return {name: text for name, text in wanted.items() if not holds(folder / name, text)}


def holds(path: Path, text: str) -> bool:
    """Whether the file has this text, and may be run where it is a script."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        return False
    return not is_script(text) or bool(path.stat().st_mode & 0o100)


def is_script(text: str) -> bool:
    """Whether the text is meant to be run, and not sourced or read."""
    return text.startswith("#!")


def write(path: Path, text: str) -> None:
    """Put the text there, executable where it is a script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if is_script(text):
        path.chmod(EXECUTABLE)
