"""The result of a study as it is kept: one row for each arm, world and rate, one for each capacity."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from breakeven_bench.fleet_model.outcome import Outcome

SCHEMA_VERSION = 1

DIGITS = 4


class Row(Struct, frozen=True, array_like=True):
    """One cell; `load` is "mixed" or "trace". `mean_s` and `growth` as in `outcome.Outcome`, None where unknown."""

    pair: str
    world: str
    load: str
    rate: float
    arm: str
    mean_s: float | None
    within: float
    growth: float
    stable: bool


class Capacity(Struct, frozen=True, array_like=True):
    """The highest rate that an arm carries, requests per second; 0 where it carries none of those tried."""

    pair: str
    world: str
    arm: str
    rate: float


class Provenance(Struct, frozen=True):
    """Where the figures come from: the command repeats them, whatever the machine."""

    command: str
    version: str
    date: str
    requests: int
    warm_up: int
    seed: int
    trace: str | None = None


class Study(Struct, frozen=True):
    """Everything that the tables are made of. `titles` names every arm and every pair for people."""

    schema: int
    provenance: tuple[Provenance, ...]
    titles: dict[str, str]
    rows: tuple[Row, ...]
    capacities: tuple[Capacity, ...] = ()

    def of(self, pair: str, world: str, load: str) -> dict[float, dict[str, Row]]:
        """Rates to arms to rows, in the order in which they are kept."""
        found: dict[float, dict[str, Row]] = {}
        for row in self.rows:
            if (row.pair, row.world, row.load) == (pair, world, load):
                found.setdefault(row.rate, {})[row.arm] = row
        return found

    def capacity_of(self, pair: str, world: str) -> dict[str, float]:
        """Arms to the highest rates that they carry."""
        return {each.arm: each.rate for each in self.capacities if (each.pair, each.world) == (pair, world)}

    def places(self) -> list[tuple[str, str, str]]:
        """Pairs, worlds and loads that there are rows of, in order."""
        return list(dict.fromkeys((row.pair, row.world, row.load) for row in self.rows))


def together(studies: Iterable[Study]) -> Study:
    """Several studies as one; ValueError where two have figures of one place."""
    rows: list[Row] = []
    carried: list[Capacity] = []
    provenance: list[Provenance] = []
    titles: dict[str, str] = {}
    for study in studies:
        common = {(row.pair, row.world, row.load) for row in rows} & set(study.places())
        if common:
            message = f"two results have figures of {', '.join(min(common))}"
            raise ValueError(message)
        rows += study.rows
        carried += study.capacities
        provenance += study.provenance
        titles |= study.titles
    return Study(SCHEMA_VERSION, tuple(provenance), titles, tuple(rows), tuple(carried))


def row_of(place: tuple[str, str, str], rate: float, arm: str, outcome: Outcome) -> Row:
    """One outcome at (pair, world, load), in as many digits as it is worth."""
    mean_s = None if outcome.mean_s is None else round(outcome.mean_s, DIGITS)
    return Row(*place, rate, arm, mean_s, round(outcome.within, DIGITS), round(outcome.growth, DIGITS), outcome.stable)


def encode(study: Study) -> bytes:
    """JSON, one row a line, so that another run can be compared with it."""
    plain = msgspec.to_builtins(study)
    lists = {name: _lines(plain.pop(name)) for name in ("rows", "capacities")}
    head = msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()
    tail = "".join(f',\n  "{name}": [\n{lines}\n  ]' for name, lines in lists.items())
    return f"{head.removesuffix('}').rstrip()}{tail}\n}}\n".encode()


def decode(data: bytes) -> Study:
    """ValueError says in one line what is wrong."""
    try:
        study = msgspec.json.decode(data, type=Study)
    except msgspec.MsgspecError as error:
        message = f"not a result of breakeven-bench simulate: {error}"
        raise ValueError(message) from error
    if study.schema != SCHEMA_VERSION:
        message = f"written by another version: schema {study.schema}, this one reads {SCHEMA_VERSION}"
        raise ValueError(message)
    return study


def _lines(rows: Iterable[object]) -> str:
    return ",\n".join(f"    {msgspec.json.encode(row).decode()}" for row in rows)
