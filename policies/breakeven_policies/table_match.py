"""Whether a measured table speaks of a given pool, and if not, why: a comparison of what it says with what is known.

What is known of a pool comes from its engines (the models they list, GET /version, how many draft positions their
metrics show) and, where engines do not tell, from the configuration (method, draft head, drafting mode). Unknown is not
equal: a table of one draft head is not used for a pool of which nobody has said which head it has, since the choice of
the head alone moves the speed-up from 1.1 to 1.9 (SpecForge's published runs of Llama 3.3 70B, H200). No engine tells
its GPU: a table names it for people, and a policy has to correct step times by what it sees.
"""

from collections.abc import Iterable, Iterator
from datetime import date
from enum import StrEnum

from msgspec import Struct

from breakeven_policies.measured import Drafting, Setup, Table, TableKind, short_hash
from breakeven_policies.measurement import Measurement, measurement_of
from breakeven_policies.snapshot import PoolKind


class Mismatch(StrEnum):
    """Why a table is not used for a pool; the nearest miss is the last of these in this order."""

    NO_TABLE = "no_table"
    """None is loaded."""
    PRIOR = "prior"
    """It was never measured here: shown, never used."""
    UNASKED = "unasked"
    """Its engines have not said yet what they are."""
    MODEL = "model"
    KIND = "kind"
    METHOD = "method"
    SPECULATIVE_TOKENS = "speculative_tokens"
    DRAFT_MODEL = "draft_model"
    DRAFTING = "drafting"
    ENGINE_VERSION = "engine_version"
    EXPIRED = "expired"
    """All else fits."""


NEARNESS = {mismatch: rank for rank, mismatch in enumerate(Mismatch)}


class PoolIdentity(Struct, frozen=True):
    """What is known of one pool. Empty sets and None: unknown.

    `models` holds for each engine the names of what it serves, both the ones that clients use and those it was loaded
    under; `versions` are what the engines answer. Who was never reached is in neither. `positions` are the numbers of
    draft positions that their metrics show.
    """

    name: str
    kind: PoolKind
    method: str = "none"
    speculative_tokens: int = 0
    draft_model: str | None = None
    drafting: Drafting | None = None
    follows_batch: bool = False
    models: tuple[frozenset[str], ...] = ()
    versions: frozenset[str] = frozenset()
    positions: frozenset[int] = frozenset()


class Applies(Struct, frozen=True):
    """The table that is used for the pool, as far as it is about it."""

    measurement: Measurement


class Unmeasured(Struct, frozen=True):
    """No table is used for the pool: `mismatch` of the table that came nearest (its name and hash, None: no table)."""

    mismatch: Mismatch
    detail: str
    table: str | None = None
    hash: str | None = None


def applies(table: Table, facts: PoolIdentity, today: date) -> Applies | Unmeasured:
    """Whether the table is used for the pool; where not, what stands in the way of its nearest setup."""
    whole = next(_of_the_table(table, facts), None)
    if whole is not None:
        return Unmeasured(*whole, table.name, short_hash(table))
    missed: list[tuple[Mismatch, str]] = []
    for setup in table.setups:
        found = next(_of_the_setup(table, setup, facts, today), None)
        if found is None:
            return Applies(measurement_of(table, setup))
        missed.append(found)
    nearest = max(missed, key=lambda miss: NEARNESS[miss[0]])
    return Unmeasured(*nearest, table.name, short_hash(table))


def best_match(tables: Iterable[Table], facts: PoolIdentity, today: date) -> Applies | Unmeasured:
    """The table that is used for the pool: of several that apply the one that was measured last."""
    nearest = Unmeasured(Mismatch.NO_TABLE, "no table is loaded")
    for table in sorted(tables, key=_recency, reverse=True):
        found = applies(table, facts, today)
        if isinstance(found, Applies):
            return found
        if NEARNESS[found.mismatch] > NEARNESS[nearest.mismatch]:
            nearest = found
    return nearest


def _recency(table: Table) -> tuple[date, str]:
    return table.provenance.measured_on or date.min, table.name


def _of_the_table(table: Table, facts: PoolIdentity) -> Iterator[tuple[Mismatch, str]]:
    """What stands in the way of all its setups."""
    if table.kind is not TableKind.MEASURED:
        yield Mismatch.PRIOR, "it is a prior that nobody here has verified"
    model = table.provenance.model
    if not facts.models:
        yield Mismatch.UNASKED, "the engines of the pool have not said yet what they serve"
    for names in facts.models:
        if model not in names:
            # The name of a folder on the engine's host is nobody's business.
            shown = _listed(name for name in names if not name.startswith("/"))
            yield Mismatch.MODEL, f"it is about {model}, the pool serves {shown}"


def _of_the_setup(table: Table, setup: Setup, facts: PoolIdentity, today: date) -> Iterator[tuple[Mismatch, str]]:
    if setup.kind is not facts.kind:
        yield Mismatch.KIND, f"it knows no {facts.kind} pool"
    if setup.kind is PoolKind.SPECULATIVE:
        yield from _of_the_drafter(setup, facts)
    measured = table.provenance.engine_version
    if "+" in measured:  # a build of its own, for a CPU for example
        yield from _differs(Mismatch.ENGINE_VERSION, "runs", measured, facts.versions)
    else:
        released = frozenset(version.partition("+")[0] for version in facts.versions)
        yield from _differs(Mismatch.ENGINE_VERSION, "runs", measured, released)
    expires_on = table.provenance.expires_on
    if expires_on is not None and today >= expires_on:
        yield Mismatch.EXPIRED, f"it expired on {expires_on}"


def _of_the_drafter(setup: Setup, facts: PoolIdentity) -> Iterator[tuple[Mismatch, str]]:
    if setup.method != facts.method:
        yield Mismatch.METHOD, f"it is about method {setup.method}, the pool has {facts.method}"
    tokens = facts.positions or ({facts.speculative_tokens} if facts.speculative_tokens else frozenset())
    if facts.speculative_tokens and facts.speculative_tokens not in tokens:
        shown = _listed(map(str, tokens))
        yield Mismatch.SPECULATIVE_TOKENS, f"the pool says k = {facts.speculative_tokens}, its engines draft {shown}"
    yield from _differs(
        Mismatch.SPECULATIVE_TOKENS, "drafts", str(setup.speculative_tokens), frozenset(map(str, tokens)), "k = "
    )
    if bool(setup.speculative_tokens_per_batch_size) is not facts.follows_batch:
        yield Mismatch.SPECULATIVE_TOKENS, "k follows the batch in one of them only"
    for mismatch, what, wanted, found in (
        (Mismatch.DRAFT_MODEL, "draft head", setup.draft_model, facts.draft_model),
        (Mismatch.DRAFTING, "drafting", setup.drafting, facts.drafting),
    ):
        if wanted != found:
            known = "the configuration does not say the pool's" if found is None else f"the pool has {found}"
            yield mismatch, f"it is about {what} {wanted or 'none'}, {known}"


def _differs(
    mismatch: Mismatch, verb: str, wanted: str, found: frozenset[str], unit: str = ""
) -> Iterator[tuple[Mismatch, str]]:
    """Where not every engine is known to be as the table's."""
    if not found:
        yield mismatch, f"it is about {unit}{wanted}, what the pool {verb} is not known"
    elif found != {wanted}:
        yield mismatch, f"it is about {unit}{wanted}, the pool {verb} {unit}{_listed(found)}"


def _listed(words: Iterable[str]) -> str:
    return " and ".join(sorted(words))
