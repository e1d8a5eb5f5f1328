"""Reads measured tables from the files and folders that the settings name, or those that ship with the policies."""

from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path

from breakeven.config import Settings
from breakeven.config_sources import ConfigError
from breakeven_policies.measured import Table, TableError, parse_table

TABLE_BYTES_MAX = 8 * 2**20
"""The largest table that is allowed (`measured.CELLS_MAX`) fills 5 MB; whatever is larger was named by mistake."""

SCHEMA_SUFFIX = ".schema.json"
"""Says how tables are written, and is none."""


def tables_in_force(settings: Settings) -> tuple[Table, ...]:
    """Every table of the settings; ConfigError where one cannot be used."""
    if not settings.tables:
        return shipped_tables()
    return unlike(read_tables(settings.tables))


def shipped_tables() -> tuple[Table, ...]:
    """Those inside the package of policies."""
    return tuple(read_table(path) for path in shipped_paths())


def shipped_paths() -> tuple[Path, ...]:
    """Their files."""
    return table_paths([Path(str(files("breakeven_policies").joinpath("tables")))])


def read_tables(paths: Iterable[Path]) -> Iterator[tuple[Path, Table]]:
    """The tables of these files and of the files `*.json` in these folders, in order of name."""
    for path in table_paths(paths):
        yield path, read_table(path)


def read_table(path: Path) -> Table:
    """One table; ConfigError says what is wrong with it, in one line."""
    try:
        with path.open("rb") as file:
            data = file.read(TABLE_BYTES_MAX + 1)
        if len(data) > TABLE_BYTES_MAX:
            raise ConfigError(f"tables: {path}: larger than {TABLE_BYTES_MAX} bytes; is this a table?")
        return parse_table(data)
    except OSError as error:
        raise ConfigError(f"tables: {path}: cannot read it: {error.strerror or error}") from None
    except TableError as error:
        raise ConfigError(f"tables: {path}: {error}") from None


def table_paths(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files themselves; ConfigError for a folder without tables, since it was named for having some."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(entry for entry in path.iterdir() if is_table(entry.name))
        if not inside:
            raise ConfigError(f"tables: {path}: no table (*.json) is in this folder")
        found += inside
    return tuple(found)


def watched_tables(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The files whose change is one of the tables: the folders too, for what comes and goes."""
    watched: list[Path] = []
    for path in paths:
        watched.append(path)
        try:
            watched += [] if not path.is_dir() else table_paths([path])
        except (ConfigError, OSError):
            continue  # it is empty or gone for a moment: its change is noticed by the folder itself
    return tuple(watched)


def is_table(name: str) -> bool:
    """Whether a file of this name in a folder is meant to be one."""
    return name.endswith(".json") and not name.endswith(SCHEMA_SUFFIX) and not name.startswith(".")


def unlike(tables: Iterable[tuple[Path, Table]]) -> tuple[Table, ...]:
    """The tables; ConfigError where two have one name, by which logs and pages tell them apart."""
    named: dict[str, Path] = {}
    found: list[Table] = []
    for path, table in tables:
        if table.name in named:
            raise ConfigError(f"tables: {path}: {table.name!r} is the name of {named[table.name]} too")
        named[table.name] = path
        found.append(table)
    return tuple(found)
