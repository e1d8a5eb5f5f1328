"""`breakeven.check`: what is wrong is a problem, what will surprise is a warning, and a sound fleet gives neither."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from breakeven.certificate_dates import Certificate
from breakeven.check import (
    EngineReport,
    Finding,
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
from breakeven.config import Settings
from breakeven.config_sources import build_settings
from breakeven_policies.measured import short_hash
from breakeven_policies.snapshot import EngineSignals, PoolKind
from tests.policies.tables import DOCUMENT, table

pytestmark = pytest.mark.usefixtures("clean_environment")

PLAIN_SIGNALS = EngineSignals(running=1.0, waiting=0.0)
SPEC_SIGNALS = EngineSignals(running=1.0, waiting=0.0, drafts=100.0, draft_tokens=300.0, accepted_tokens=150.0)


def settings(**values: Any) -> Settings:
    return build_settings(Settings, {"baseline": "http://a:1", "speculative": "http://b:2", **values})


def plain(**changes: Any) -> EngineReport:
    values = {"lengths": (("m", 4096),), "signals": PLAIN_SIGNALS, **changes}
    return EngineReport("plain-0", "baseline", PoolKind.PLAIN, "ready", "0.33.0", **values)


def spec(**changes: Any) -> EngineReport:
    values = {"lengths": (("m", 4096),), "signals": SPEC_SIGNALS, "pool": "speculative", **changes}
    return EngineReport("spec-0", kind=PoolKind.SPECULATIVE, health="ready", version="0.33.0", **values)


def problem(text: str) -> Finding:
    return Finding(Severity.PROBLEM, text)


def warning(text: str) -> Finding:
    return Finding(Severity.WARNING, text)


def test_an_engine_that_did_not_answer_is_a_problem() -> None:
    down = EngineReport("spec-0", "spec", PoolKind.SPECULATIVE, "down", trouble=("GET /health: connection refused",))
    assert judge_engines([plain(), down]) == [problem("spec-0: GET /health: connection refused")]


def test_a_speculative_engine_without_speculation_is_a_problem() -> None:
    assert judge_engines([spec(signals=PLAIN_SIGNALS)]) == [
        problem("spec-0: exports no vllm:spec_decode counters; is speculation switched on there?")
    ]


def described(**told: Any) -> Settings:
    pool = {"name": "eagle", "kind": "speculative", "backends": ["http://b:2"], "speculative_config": told}
    return build_settings(Settings, {"baseline": "http://a:1", "pools": [pool]})


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"rejection_sample_method": "fly"}, "fly accepts tokens that the model itself would not have sampled"),
        ({"rejection_sample_method": "synthetic"}, "synthetic accepts at random, for measurements only"),
        ({"acceptance_method": "typical_acceptance_sampler"}, "typical_acceptance_sampler accepts tokens that"),
    ],
)
def test_an_acceptance_that_changes_answers_is_a_problem(told: dict[str, str], words: str) -> None:
    (found,) = [finding for finding in judge_settings(described(**told)) if finding.severity is Severity.PROBLEM]
    assert found.text.startswith(f"eagle: speculative_config: {words}")
    assert found.text.endswith("requests must be answered alike by all pools") or "garbage" in found.text


def test_answers_of_one_kind_of_pool_cannot_be_compared() -> None:
    told = warning("equivalence_interval_s: it takes a plain and a speculative pool to compare answers")
    assert told in judge_settings(settings(speculative="", equivalence_interval_s=60))
    assert told not in judge_settings(settings(equivalence_interval_s=60))
    assert told not in judge_settings(settings(speculative=""))


def test_an_acceptance_that_nobody_knows_and_a_key_that_vllm_has_not_are_warnings() -> None:
    found = judge_settings(described(rejection_sample_method="nova", draft_sample_metod="greedy"))
    assert [finding for finding in found if "speculative_config" in finding.text] == [
        warning("eagle: speculative_config: it is not known whether 'nova' leaves answers as they are"),
        warning(
            "eagle: speculative_config: vLLM 0.33.0 has no key 'draft_sample_metod'; did you mean draft_sample_method?"
        ),
    ]


def test_an_acceptance_that_leaves_answers_as_they_are_is_none() -> None:
    found = judge_settings(described(rejection_sample_method="block", method="eagle3"))
    assert not [finding for finding in found if "speculative_config" in finding.text]


def test_only_tables_that_have_expired_are_warned_of() -> None:
    undated = table(kind="prior, unverified", provenance__measured_on=..., provenance__expires_on=...)
    assert judge_tables([table(), undated], date(2026, 12, 1)) == []
    assert judge_tables([table()], date(2027, 5, 1)) == [
        warning("table llama-on-a100: expired on 2027-05-01: it is not used any more")
    ]
    assert tables_table([undated])[0].endswith("prior, unverified, meta-llama/Llama-3.3-70B-Instruct on vllm 0.33.0")


def test_what_engines_answered_says_which_table_is_used_for_each_pool() -> None:
    names = frozenset({DOCUMENT["provenance"]["model"]})
    found = match_lines(settings(), [table()], [plain(names=names), down_spec()], date(2026, 12, 1))
    silent = (
        f"nearest table llama-on-a100 ({short_hash(table())}): "
        "the engines of the pool have not said yet what they serve"
    )
    assert found == [f"baseline: unmeasured; {silent}", f"speculative: unmeasured; {silent}"]
    known = EngineReport("baseline-0", "baseline", PoolKind.PLAIN, "ready", "0.33.0", names=names)
    (first, _) = match_lines(settings(), [table()], [known], date(2026, 12, 1))
    assert first == f"baseline: table llama-on-a100 ({short_hash(table())}), setup plain"


def down_spec() -> EngineReport:
    return EngineReport("speculative-0", "speculative", PoolKind.SPECULATIVE, "down")


def test_a_plain_engine_that_speculates_is_a_problem() -> None:
    assert judge_engines([plain(signals=SPEC_SIGNALS)]) == [
        problem("plain-0: exports vllm:spec_decode counters although its pool is plain")
    ]


def test_metrics_without_a_load_are_a_problem() -> None:
    assert judge_engines([plain(signals=EngineSignals(kv_usage=0.5))]) == [
        problem("plain-0: its metrics show neither running nor waiting requests")
    ]


def test_a_model_that_only_some_engines_list_is_a_problem() -> None:
    assert judge_engines([plain(), spec(lengths=(("m", 4096), ("n", None)))]) == [
        problem("model 'n' is not listed by plain-0")
    ]


def test_engines_that_list_no_models_were_told_apart_from_those_that_did_not_answer() -> None:
    assert judge_engines([plain(), spec(lengths=None)]) == []
    assert judge_engines([plain(), spec(lengths=())]) == [problem("model 'm' is not listed by spec-0")]


def test_different_lengths_are_a_warning() -> None:
    assert judge_engines([plain(), spec(lengths=(("m", 2048),)), plain(lengths=(("m", None),))]) == [
        warning("model 'm' has different max_model_len: 2048, 4096; the smallest is announced")
    ]


def test_a_sound_fleet_gives_no_finding() -> None:
    assert judge_engines([plain(), spec()]) == []
    assert judge_settings(settings()) == []


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"baseline": ""}, "there is no plain pool: requests with min_p or logit_bias will be refused with 400"),
        ({"speculative": ""}, "all pools are of one kind: the threshold policy has nothing to choose between"),
        (
            {"speculative": "http://a:1"},
            "speculative-0 and baseline-0 are one engine: it will be measured and filled as two",
        ),
        ({"admin_host": "0.0.0.0"}, "the admin port is open on 0.0.0.0 without an admin_key"),
        (
            {"models": {"m": {"defaults": {"min_p": 0.05}}}},
            "m: min_p 0.05 by default: requests that set none go to plain pools only",
        ),
        (
            {"defaults": {"min_p": 0.1}},
            "every other model: min_p 0.1 by default: requests that set none go to plain pools only",
        ),
    ],
)  # fmt: skip
def test_what_will_surprise_later_is_a_warning(values: dict[str, Any], text: str) -> None:
    assert warning(text) in judge_settings(settings(**values))


def test_a_pool_that_a_flag_adds_to_those_of_the_file_is_told() -> None:
    pool = {"name": "eagle", "kind": "speculative", "backends": ["http://c:3"]}
    configured = build_settings(Settings, {"pools": [pool], "baseline": "http://a:1"})
    assert judge_settings(configured) == [
        warning("baseline: adds a pool of that name beside eagle; it replaces none of them")
    ]


def test_what_matters_to_speculation_only_is_not_told_where_there_is_none() -> None:
    found = judge_settings(settings(speculative="", policy="least_loaded", defaults={"min_p": 0.1}))
    assert found == []


def test_an_admin_key_makes_an_open_admin_port_acceptable() -> None:
    assert judge_settings(settings(admin_host="0.0.0.0", admin_key="sesame")) == []


def test_the_configuration_is_shown_pool_by_pool() -> None:
    pools = [
        {"name": "plain", "kind": "plain", "backends": ["http://a:1"]},
        {
            "name": "eagle",
            "kind": "speculative",
            "method": "eagle3",
            "speculative_tokens": 3,
            "backends": ["http://b:2"],
        },
    ]
    assert settings_table(build_settings(Settings, {"pools": pools, "threshold": 0.8})) == [
        "policy threshold, threshold 0.8",
        "OpenAI API on 0.0.0.0 port 8080",
        "admin on 127.0.0.1 port 8081",
        "pool plain: plain",
        "  plain-0                  http://a:1",
        "pool eagle: speculative, method eagle3, 3 tokens ahead",
        "  eagle-0                  http://b:2",
        "every model: no defaults configured",
    ]


def test_policies_beside_the_one_that_decides_are_listed() -> None:
    further = {
        "shadow": "least_loaded,pinned:baseline",
        "policy_header": "x-policy",
        "policy_choices": "threshold:0.5,least_loaded",
        "aliases": "cool=m",
        "alias_policies": "cool=threshold:0.5",
    }
    assert settings_table(settings(**further))[1:4] == [
        "shadow policies least_loaded, pinned:baseline",
        "clients may name in x-policy: threshold:0.5, least_loaded",
        "requests for 'cool' are decided by threshold:0.5",
    ]


def test_aliases_and_defaults_are_shown() -> None:
    models = {"m": {"defaults": {"temperature": 0.6, "top_k": 20}}, "n": {}}
    shown = settings_table(settings(aliases="fast=m", models=models, defaults={"min_p": 0.1}))
    assert shown[-4:] == [
        "alias 'fast' is 'm'",
        "model 'm': by default temperature 0.6, top_k 20",
        "model 'n': no defaults configured",
        "every other model: by default min_p 0.1",
    ]


KNOWN_DEFAULTS: dict[str, Any] = {"defaults": {"temperature": 0.6}}


def drafting(k: int, draft_tokens: float | None, method: str = "eagle3", drafts: float = 100.0) -> list[Finding]:
    pool = {"name": "spec", "kind": "speculative", "method": method, "speculative_tokens": k, "backends": "http://b:2"}
    signals = EngineSignals(running=1.0, drafts=drafts, draft_tokens=draft_tokens)
    configured = build_settings(Settings, {"pools": [pool], **KNOWN_DEFAULTS})
    return judge_names(configured, [spec(signals=signals, pool="spec"), spec(signals=None, pool="spec")])


def test_drafts_of_another_length_than_configured_are_a_problem() -> None:
    said = [problem("spec-0: drafts 3 tokens a step, but its pool says speculative_tokens: 5")]
    assert drafting(5, 300.0) == said
    assert drafting(2, 300.0) == [problem("spec-0: drafts 3 tokens a step, but its pool says speculative_tokens: 2")]
    assert drafting(2, 300.0, "ngram") != []


@pytest.mark.parametrize(
    ("k", "draft_tokens", "method", "drafts"),
    [
        (3, 298.0, "eagle3", 100.0),
        (5, 300.0, "ngram", 100.0),
        (5, 300.0, "unknown", 100.0),
        (0, 300.0, "eagle3", 100.0),
        (5, None, "eagle3", 100.0),
        (5, 0.0, "eagle3", 0.0),
    ],
    ids=["cut short at the end", "finds few matches", "method unknown", "none configured", "not counted", "no drafts"],
)
def test_drafts_that_contradict_nothing_are_not_mentioned(
    k: int, draft_tokens: float | None, method: str, drafts: float
) -> None:
    assert drafting(k, draft_tokens, method, drafts) == []


def test_names_that_no_engine_lists_are_told() -> None:
    configured = settings(aliases="fast=gone,slow=m", models={"typo": {}, "m": {"defaults": {"temperature": 0.6}}})
    assert judge_names(configured, [plain(), spec()]) == [
        problem("alias 'fast': no engine lists its model 'gone'"),
        warning("models.typo: no engine lists this model: its defaults never apply"),
    ]


def test_a_served_model_without_a_default_temperature_is_told() -> None:
    found = judge_names(settings(defaults={"top_p": 0.9}), [plain(lengths=(("n", None), ("m", None)))])
    assert found == [
        warning(
            "no default temperature is configured for 'm', 'n': 1.0 is assumed; vLLM takes it from"
            " generation_config.json"
        )
    ]


def test_where_no_engine_listed_its_models_nothing_is_said_of_names() -> None:
    assert judge_names(settings(aliases="fast=gone"), [plain(lengths=None)]) == []


def test_engines_are_shown_in_columns_with_a_dash_for_what_is_unknown() -> None:
    down = EngineReport("spec-1", "spec", PoolKind.SPECULATIVE, "down", trouble=("refused",))
    assert engines_table([spec(), down]) == [
        "engine  health  version  running  waiting  acceptance  models",
        "spec-0  ready   0.33.0   1        0        2.50        m",
        "spec-1  down    -        -        -        -           -",
    ]


@pytest.mark.parametrize(("workers", "limit", "told"), [(4, 2, True), (4, 0, False), (1, 2, False)])
def test_a_limit_that_several_workers_keep_is_said_to_be_kept_by_each(workers: int, limit: int, told: bool) -> None:
    settings = Settings(baseline=["http://a:1"], speculative=["http://b:1"], workers=workers, max_in_flight=limit)
    found = [finding.text for finding in judge_settings(settings) if "workers" in finding.text]
    assert ["4 workers decide at the same time, so an engine may get 3 more" in text for text in found] == [True] * told


@pytest.mark.parametrize(
    ("left_days", "found"),
    [
        (-0.001, [Finding(Severity.PROBLEM, "p: tls.ca: expired on 2027-01-01 00:00 UTC: handshakes with it fail")]),
        (0.1, [warning("p: tls.ca: expires on 2027-01-01 00:00 UTC, in 0 days")]),
        (13.9, [warning("p: tls.ca: expires on 2027-01-01 00:00 UTC, in 13 days")]),
        (14, []),
    ],
)
def test_a_certificate_that_has_expired_is_a_problem_and_one_that_soon_will_a_warning(
    left_days: float, found: list[Finding]
) -> None:
    end_s = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    certificates = [Certificate("p", "tls.ca", end_s), Certificate(None, "tls_cert", end_s + 1e9)]
    assert judge_certificates(certificates, end_s - left_days * 86400) == found
