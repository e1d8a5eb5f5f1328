"""Which measured table is used for which pool: what is known of the engines beside what the tables say.

State without I/O: it is told what engines answer about themselves (`identify`) and compares anew when asked (`match`).
The comparison is that of `table_match`; what is kept here is who said what, and what was last found.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from breakeven_policies.measured import Table, short_hash
from breakeven_policies.measurement import Measurement
from breakeven_policies.snapshot import FleetSnapshot, PoolView
from breakeven_policies.table_match import Applies, Mismatch, PoolIdentity, Unmeasured, best_match

DEBUG, INFO, WARNING = 10, 20, 30

NO_HASH = "none"
"""The label value where no table is used."""


class Identified(Struct, frozen=True):
    """What an engine says of itself: the names of the models it serves, and its version (None: it does not say)."""

    backend: str
    models: frozenset[str]
    version: str | None


class Match(Struct, frozen=True):
    """What holds for one pool now."""

    pool: str
    found: Applies | Unmeasured

    @property
    def measurement(self) -> Measurement | None:
        """What is known of the pool from a table; None: nothing."""
        return self.found.measurement if isinstance(self.found, Applies) else None

    @property
    def hash(self) -> str:
        """That of the table in use, or `NO_HASH`."""
        return self.found.measurement.hash if isinstance(self.found, Applies) else NO_HASH

    @property
    def why(self) -> str:
        """`applies`, or the word for what stands in the way."""
        return "applies" if isinstance(self.found, Applies) else self.found.mismatch.value

    def line(self) -> str:
        """The same for a person."""
        if isinstance(self.found, Applies):
            measurement = self.found.measurement
            return f"{self.pool}: table {measurement.table} ({measurement.hash}), setup {measurement.setup.name}"
        missed = self.found
        nearest = "" if missed.table is None else f"nearest table {missed.table} ({missed.hash}): "
        return f"{self.pool}: unmeasured; {nearest}{missed.detail}"


class TableBook:
    """The tables in force, and which of them is used where."""

    def __init__(self, pools: Iterable[PoolIdentity], tables: Iterable[Table]) -> None:
        self._said: dict[str, Identified] = {}
        self._compared: dict[str, tuple[PoolIdentity, date, Match]] = {}
        self.reconfigure(pools, tables)

    def reconfigure(
        self, pools: Iterable[PoolIdentity], tables: Iterable[Table], strangers: Iterable[str] = ()
    ) -> None:
        """Other pools, as they are configured, and tables from now on.

        What engines said of themselves stays known, but for `strangers`: those that are gone or others now.
        """
        self._pools = {pool.name: pool for pool in pools}
        self.tables = tuple(tables)
        for backend in strangers:
            self._said.pop(backend, None)
        self._compared.clear()

    def identify(self, identified: Identified) -> None:
        """An engine has said what it is."""
        self._said[identified.backend] = identified

    def match(self, fleet: FleetSnapshot, today: date) -> tuple[Match, ...]:
        """What holds for each pool. Nothing is compared where nothing that counts has changed."""
        return tuple(self._match(pool, today) for pool in fleet.pools if pool.name in self._pools)

    def _match(self, pool: PoolView, today: date) -> Match:
        identity = identity_of(self._pools[pool.name], pool, self._said)
        known = self._compared.get(pool.name)
        if known is not None and known[:2] == (identity, today):
            return known[2]
        match = Match(pool.name, best_match(self.tables, identity, today))
        self._compared[pool.name] = identity, today, match
        return match


def identity_of(configured: PoolIdentity, pool: PoolView, said: Mapping[str, Identified]) -> PoolIdentity:
    """What is known of a pool, from its configuration and from its engines."""
    known = [said[backend.name] for backend in pool.backends if backend.name in said]
    drafted = (backend.signals for backend in pool.backends if backend.signals is not None)
    positions = (len(signals.accepted_tokens_per_position) for signals in drafted if signals.drafts)
    return replace(
        configured,
        models=tuple(sorted({identity.models for identity in known}, key=sorted)),
        versions=frozenset(identity.version for identity in known if identity.version is not None),
        positions=frozenset(count for count in positions if count),
    )


def log_level(match: Match, before: Iterable[Match], *, wanted: bool) -> int:
    """How loud a change is: a table that somebody asked for (`wanted`) or that was in use shall be missed aloud.

    The levels are those of `logging`, by number because this module logs nothing. That nothing is known of a pool whose
    engines have not been asked yet is no news.
    """
    if isinstance(match.found, Applies):
        return INFO
    if match.found.mismatch is Mismatch.UNASKED:
        return DEBUG
    was_used = any(other.pool == match.pool and other.measurement is not None for other in before)
    return WARNING if wanted or was_used else INFO


def hash_in_use(matches: Iterable[Match]) -> str:
    """One word for the tables in use, in order of the pools: a hash, several joined by +, or `NO_HASH`."""
    used = dict.fromkeys(match.hash for match in matches if match.measurement is not None)
    return "+".join(used) or NO_HASH


def tables_document(tables: Iterable[Table], matches: Iterable[Match]) -> dict[str, Any]:
    """What GET /policy says of tables: those that are loaded, and for each pool which is used or why none."""
    return {
        "tables": [
            {
                "name": table.name,
                "hash": short_hash(table),
                "sha256": table.digest(),
                "kind": table.kind,
                "model": table.provenance.model,
                "engine_version": table.provenance.engine_version,
                "measured_on": table.provenance.measured_on,
                "expires_on": table.provenance.expires_on,
            }
            for table in tables
        ],
        "pools": [_match_document(match) for match in matches],
    }


def _match_document(match: Match) -> dict[str, Any]:
    if isinstance(match.found, Applies):
        measurement = match.found.measurement
        used = {"table": measurement.table, "hash": measurement.hash, "setup": measurement.setup.name}
        return {"pool": match.pool, "applies": True, **used}
    missed = match.found
    near = {"nearest": missed.table, "hash": missed.hash}
    return {"pool": match.pool, "applies": False, "why": missed.mismatch, "detail": missed.detail, **near}
