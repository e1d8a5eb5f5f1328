"""What is wrong with a configuration, and with the engines it names: pure judgement of what was read.

A problem is something that will fail requests or mislead routing; a warning is something that surprises people later.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum

from breakeven.certificate_dates import Certificate
from breakeven.config import PoolConfig, Settings
from breakeven.config_sources import did_you_mean
from breakeven.config_values import parse_address
from breakeven.model_config import DefaultsConfig
from breakeven.speculative_config import KNOWN_KEYS, LOSSLESS, LOSSY
from breakeven.table_book import Identified, TableBook
from breakeven.text_table import aligned
from breakeven_policies.measured import Table, short_hash
from breakeven_policies.request import MIN_P_EPSILON
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, PoolKind, PoolView

SHORT_DRAFTS = frozenset(("ngram", "suffix", "unknown"))
"""Methods that draft as many tokens as they find a match for, and one of which we cannot tell."""

DRAFT_TOLERANCE = 0.5
"""Tokens. Drafts are cut short near the end of the context, which takes little off a mean over thousands of steps."""

DAY_S = 86_400.0

EXPIRES_SOON_S = 14 * DAY_S
"""Whoever renews by machine does so a month before (ACME clients; cert-manager a third of the life); this late it has
failed, and a person has two weeks.
"""


class Severity(StrEnum):
    """A problem makes `breakeven check` exit with 1."""

    PROBLEM = "problem"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one thing."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What one engine answered. `trouble` says which questions failed, one sentence each; None: it did not say."""

    name: str
    pool: str
    kind: PoolKind
    health: str
    version: str | None = None
    lengths: tuple[tuple[str, int | None], ...] | None = None
    signals: EngineSignals | None = None
    trouble: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    """What its models are called, those under which they were loaded included."""

    @property
    def models(self) -> tuple[str, ...]:
        """The ids of the models it lists."""
        return tuple(model for model, _ in self.lengths or ())


def _problem(text: str) -> Finding:
    return Finding(Severity.PROBLEM, text)


def _warning(text: str) -> Finding:
    return Finding(Severity.WARNING, text)


IN_FLIGHT_OF_SEVERAL = (
    "max_in_flight: {workers} workers decide at the same time, so an engine may get {more} more for a moment; "
    "queue_max counts for each worker"
)


def judge_settings(settings: Settings) -> list[Finding]:
    """What can be told without asking an engine."""
    kinds = {pool.kind for pool in settings.pools}
    findings = list(_twice(settings.pools))
    if PoolKind.PLAIN not in kinds:
        findings.append(_warning("there is no plain pool: requests with min_p or logit_bias will be refused with 400"))
    if settings.policy.partition(":")[0] == "threshold" and len(kinds) < len(PoolKind):
        findings.append(_warning("all pools are of one kind: the threshold policy has nothing to choose between"))
    if PoolKind.SPECULATIVE in kinds:
        findings += _min_p_defaults(settings)
    for pool in settings.pools:
        findings += _speculation(pool)
    for name in settings.added_pools:
        others = ", ".join(pool.name for pool in settings.pools if pool.name != name)
        findings.append(_warning(f"{name}: adds a pool of that name beside {others}; it replaces none of them"))
    if settings.admin_host not in {"127.0.0.1", "::1", "localhost"} and settings.admin_key is None:
        findings.append(_warning(f"the admin port is open on {settings.admin_host} without an admin_key"))
    if settings.equivalence_interval_s and len(kinds) < len(PoolKind):
        findings.append(_warning("equivalence_interval_s: it takes a plain and a speculative pool to compare answers"))
    if settings.workers > 1 and any(spec.in_flight_max for spec in settings.pool_specs()):
        findings.append(_warning(IN_FLIGHT_OF_SEVERAL.format(workers=settings.workers, more=settings.workers - 1)))
    return findings


def _speculation(pool: PoolConfig) -> Iterable[Finding]:
    """Whether speculation there leaves answers as they are, and whether its description is understood."""
    told = pool.speculative_config
    if told is None:
        return
    lossy = LOSSY.get(told.rejection)
    if lossy is not None:
        yield _problem(
            f"{pool.name}: speculative_config: {told.rejection} {lossy}; requests must be answered alike by all pools"
        )
    elif told.rejection not in LOSSLESS:
        yield _warning(
            f"{pool.name}: speculative_config: it is not known whether {told.rejection!a} leaves answers as they are"
        )
    for key in told.unknown_keys:
        yield _warning(
            f"{pool.name}: speculative_config: vLLM 0.33.0 has no key {key!a}{did_you_mean(key, sorted(KNOWN_KEYS))}"
        )


def judge_tables(tables: Iterable[Table], today: date) -> list[Finding]:
    """What is wrong with the measured tables that somebody named."""
    return [
        _warning(f"table {table.name}: expired on {table.provenance.expires_on}: it is not used any more")
        for table in tables
        if table.provenance.expires_on is not None and table.provenance.expires_on <= today
    ]


def tables_table(tables: Iterable[Table]) -> list[str]:
    """The measured tables in force, one a line."""
    lines = []
    for table in tables:
        source = table.provenance
        dates = "" if source.measured_on is None else f", measured on {source.measured_on}"
        dates += "" if source.expires_on is None else f", until {source.expires_on}"
        about = f"{source.model} on {source.engine} {source.engine_version}"
        lines.append(f"table {table.name} ({short_hash(table)}): {table.kind}, {about}{dates}")
    return lines


def match_lines(settings: Settings, tables: Iterable[Table], reports: Iterable[EngineReport], today: date) -> list[str]:
    """Which table is used for each pool, or why none, by what the engines have answered."""
    by_name = {report.name: report for report in reports}
    book = TableBook(settings.identities(), tables)
    pools = []
    for pool in settings.pools:
        views = []
        for name in (backend.name for backend in pool.backends if backend.name in by_name):
            report = by_name[name]
            if report.names:
                book.identify(Identified(name, report.names, report.version))
            views.append(BackendView(name, signals=report.signals))
        pools.append(PoolView(pool.name, pool.kind, tuple(views)))
    return [match.line() for match in book.match(FleetSnapshot(0.0, tuple(pools)), today)]


def judge_certificates(certificates: Iterable[Certificate], now_s: float) -> list[Finding]:
    """Which of them have expired at this Unix time, and which soon will have."""
    findings = []
    for each in certificates:
        name = each.setting if each.pool is None else f"{each.pool}: {each.setting}"
        left_s = each.expires_s - now_s
        day = datetime.fromtimestamp(each.expires_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
        if left_s <= 0:
            findings.append(_problem(f"{name}: expired on {day}: handshakes with it fail"))
        elif left_s < EXPIRES_SOON_S:
            findings.append(_warning(f"{name}: expires on {day}, in {left_s // DAY_S:.0f} days"))
    return findings


def _twice(pools: Iterable[PoolConfig]) -> Iterable[Finding]:
    seen: dict[tuple[str, int, bool], str] = {}
    for pool in pools:
        for backend in pool.backends:
            other = seen.setdefault(parse_address(backend.url), backend.name)
            if other != backend.name:
                yield _warning(f"{backend.name} and {other} are one engine: it will be measured and filled as two")


def _min_p_defaults(settings: Settings) -> Iterable[Finding]:
    named: dict[str, DefaultsConfig] = {name: model.defaults for name, model in settings.models.items()}
    for name, defaults in [*named.items(), ("every other model", settings.defaults)]:
        if (defaults.min_p or 0.0) > MIN_P_EPSILON:
            yield _warning(
                f"{name}: min_p {defaults.min_p:g} by default: requests that set none go to plain pools only"
            )


def judge_engines(reports: Iterable[EngineReport]) -> list[Finding]:
    """What the engines' own answers show."""
    reports = list(reports)
    findings = [_problem(f"{report.name}: {trouble}") for report in reports for trouble in report.trouble]
    for report in reports:
        findings += _judge_signals(report)
    findings += _judge_models(reports)
    return findings


def judge_names(settings: Settings, reports: Iterable[EngineReport]) -> list[Finding]:
    """Whether what the configuration says of models and drafts is what the engines say."""
    reports = list(reports)
    findings = [finding for report in reports for finding in _judge_draft_length(settings, report)]
    served = {model for report in reports for model in report.models}
    if not served:
        return findings
    for alias, model in settings.aliases.items():
        if model not in served:
            findings.append(_problem(f"alias {alias!a}: no engine lists its model {model!a}"))
    findings += [
        _warning(f"models.{name}: no engine lists this model: its defaults never apply")
        for name in settings.models
        if name not in served
    ]
    table = settings.model_table()
    assumed = [ascii(model) for model in sorted(served) if table.defaults_of(model).temperature is None]
    if assumed:
        findings.append(
            _warning(
                f"no default temperature is configured for {', '.join(assumed)}: 1.0 is assumed; vLLM takes it from"
                " generation_config.json"
            )
        )
    return findings


def _judge_draft_length(settings: Settings, report: EngineReport) -> Iterable[Finding]:
    """No method drafts more than k tokens a step, and those of `SHORT_DRAFTS` may well draft fewer."""
    pool = next(pool for pool in settings.pools if pool.name == report.pool)
    signals = report.signals
    if signals is None or not signals.drafts or signals.draft_tokens is None or not pool.speculative_tokens:
        return
    drafted, configured = signals.draft_tokens / signals.drafts, pool.speculative_tokens
    too_few = drafted < configured - DRAFT_TOLERANCE and pool.method not in SHORT_DRAFTS
    if too_few or drafted > configured + DRAFT_TOLERANCE:
        yield _problem(
            f"{report.name}: drafts {drafted:.3g} tokens a step, but its pool says speculative_tokens: {configured}"
        )


def _judge_signals(report: EngineReport) -> Iterable[Finding]:
    signals = report.signals
    if signals is None:
        return
    if signals.load is None:
        yield _problem(f"{report.name}: its metrics show neither running nor waiting requests")
    if report.kind is PoolKind.SPECULATIVE and signals.drafts is None:
        yield _problem(f"{report.name}: exports no vllm:spec_decode counters; is speculation switched on there?")
    if report.kind is PoolKind.PLAIN and signals.drafts is not None:
        yield _problem(f"{report.name}: exports vllm:spec_decode counters although its pool is plain")


def _judge_models(reports: list[EngineReport]) -> Iterable[Finding]:
    """Every engine should list the same models with the same length."""
    asked = [report for report in reports if report.lengths is not None]
    for model in dict.fromkeys(model for report in asked for model in report.models):
        missing = [report.name for report in asked if model not in report.models]
        if missing:
            yield _problem(f"model {model!a} is not listed by {', '.join(missing)}")
        lengths = {length for report in asked for name, length in report.lengths or () if name == model}
        if len(lengths - {None}) > 1:
            shown = ", ".join(str(length) for length in sorted(length for length in lengths if length is not None))
            yield _warning(f"model {model!a} has different max_model_len: {shown}; the smallest is announced")


def settings_table(settings: Settings) -> list[str]:
    """Pools and engines as configured."""
    lines = [
        f"policy {settings.build_policy().name}, threshold {settings.threshold:g}",
        *_further_policies(settings),
        f"OpenAI API on {settings.host} port {settings.port}",
        f"admin on {settings.admin_host} port {settings.admin_port}",
    ]
    for pool in settings.pools:
        drafts = f", {pool.speculative_tokens} tokens ahead" if pool.speculative_tokens else ""
        method = "" if pool.kind is PoolKind.PLAIN else f", method {pool.method}{drafts}"
        lines.append(f"pool {pool.name}: {pool.kind}{method}")
        lines += [f"  {backend.name:24} {backend.url}" for backend in pool.backends]
    lines += [f"alias {alias!a} is {model!a}" for alias, model in settings.aliases.items()]
    lines += [f"model {name!a}: {_shown_defaults(model.defaults)}" for name, model in settings.models.items()]
    lines.append(f"{'every other' if settings.models else 'every'} model: {_shown_defaults(settings.defaults)}")
    return lines


def _further_policies(settings: Settings) -> Iterable[str]:
    """Those that are only asked, and those that a request may ask for."""
    if settings.shadow:
        yield f"shadow policies {', '.join(policy.name for policy in settings.build_shadows())}"
    if settings.policy_header:
        yield f"clients may name in {settings.policy_header}: {', '.join(settings.policy_choices)}"
    for alias, policy in settings.alias_policies.items():
        yield f"requests for {alias!a} are decided by {policy}"


def _shown_defaults(defaults: DefaultsConfig) -> str:
    given = ", ".join(f"{name} {value:g}" for name, value in defaults.model_dump(exclude_none=True).items())
    return f"by default {given}" if given else "no defaults configured"


def engines_table(reports: Iterable[EngineReport]) -> list[str]:
    """What each engine answered, aligned."""
    rows = [("engine", "health", "version", "running", "waiting", "acceptance", "models")]
    for report in reports:
        signals = report.signals or EngineSignals()
        rows.append(
            (
                report.name,
                report.health,
                report.version or "-",
                _number(signals.running),
                _number(signals.waiting),
                _lifetime_acceptance(signals),
                ", ".join(report.models) or "-",
            )
        )
    return aligned(rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _lifetime_acceptance(signals: EngineSignals) -> str:
    """Tokens per verify step since the engine started."""
    if not signals.drafts or signals.accepted_tokens is None:
        return "-"
    return f"{1.0 + signals.accepted_tokens / signals.drafts:.2f}"
