"""`breakeven check`: shows the configuration, asks the engines if wanted, and prints what is wrong."""

import asyncio
from collections.abc import Callable
from datetime import date

from breakeven.certificates import certificates_of
from breakeven.check import (
    EngineReport,
    Severity,
    engines_table,
    judge_certificates,
    judge_engines,
    judge_names,
    judge_settings,
    judge_tables,
    match_lines,
    settings_table,
    tables_table,
)
from breakeven.clock import utc_now
from breakeven.config import BackendAddress, Settings
from breakeven.engine_client import EngineClient, EngineError
from breakeven.fleet import ProbeFailed
from breakeven.key_file import keys_in_force
from breakeven.model_cards import names_of
from breakeven.table_files import tables_in_force
from breakeven.tls import client_context, engine_context, require_engine_files
from breakeven.writable import judge_outputs
from breakeven_policies.snapshot import PoolKind


def check(settings: Settings, *, probe: bool, say: Callable[[str], object], today: date | None = None) -> int:
    """Print table and findings; 1 where there is a problem, else 0. `today`: None, the clock's."""
    today = today or utc_now().date()
    findings = judge_settings(settings) + judge_outputs(settings)
    keys_in_force(settings)
    client_context(settings)
    require_engine_files(settings)
    findings += judge_certificates(certificates_of(settings), utc_now().timestamp())
    tables = tables_in_force(settings)
    findings += judge_tables(tables if settings.tables else (), today)
    for line in settings_table(settings) + tables_table(tables):
        say(line)
    if probe:
        reports = asyncio.run(ask_engines(settings))
        findings += judge_engines(reports) + judge_names(settings, reports)
        say("")
        for line in [*engines_table(reports), "", *match_lines(settings, tables, reports, today)]:
            say(line)
    say("")
    for finding in findings:
        say(f"{finding.severity}: {finding.text}")
    problems = sum(finding.severity is Severity.PROBLEM for finding in findings)
    say(f"{problems} problems, {len(findings) - problems} warnings{'' if probe else '; --probe asks the engines too'}")
    return 1 if problems else 0


async def ask_engines(settings: Settings) -> list[EngineReport]:
    """Every engine's answers, in configuration order; all are asked at the same time."""
    kinds = {pool.name: pool.kind for pool in settings.pools}
    questions = (ask(address, kinds[address.pool], settings.probe_timeout_s) for address in settings.addresses())
    return list(await asyncio.gather(*questions))


async def ask(address: BackendAddress, kind: PoolKind, timeout_s: float) -> EngineReport:
    """One engine's answers; one that is not well is asked nothing further."""
    tls = engine_context(address.trust) if address.tls else None
    async with EngineClient(address, timeout_s, tls) as engine:
        health = await engine.health()
        if isinstance(health, ProbeFailed):
            state = "loading" if health.loading else "down"
            return EngineReport(address.name, address.pool, kind, state, trouble=(health.error,))
        trouble = [] if health.warning is None else [health.warning]
        signals = lengths = None
        try:
            signals = await engine.signals()
        except EngineError as error:
            trouble.append(str(error))
        names: frozenset[str] = frozenset()
        try:
            cards = await engine.cards()
            lengths, names = tuple((card["id"], card.get("max_model_len")) for card in cards), names_of(cards)
        except EngineError as error:
            trouble.append(str(error))
        version = await engine.version()
        return EngineReport(address.name, address.pool, kind, "ready", version, lengths, signals, tuple(trouble), names)
