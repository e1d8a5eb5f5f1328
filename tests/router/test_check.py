"""`breakeven.check`: what is wrong is a problem, what will surprise is a warning, and a sound fleet gives neither."""

from typing import Any

import pytest

from breakeven.check import (
    EngineReport,
    Finding,
    Severity,
    engines_table,
    judge_engines,
    judge_settings,
    settings_table,
)
from breakeven.config import Settings
from breakeven.config_sources import build_settings
from breakeven_policies.snapshot import EngineSignals, PoolKind

pytestmark = pytest.mark.usefixtures("clean_environment")

PLAIN_SIGNALS = EngineSignals(running=1.0, waiting=0.0)
SPEC_SIGNALS = EngineSignals(running=1.0, waiting=0.0, drafts=100.0, draft_tokens=300.0, accepted_tokens=150.0)


def settings(**values: Any) -> Settings:
    return build_settings(Settings, {"baseline": "http://a:1", "speculative": "http://b:2", **values})


def plain(**changes: Any) -> EngineReport:
    values = {"lengths": (("m", 4096),), "signals": PLAIN_SIGNALS, **changes}
    return EngineReport("plain-0", "plain", PoolKind.PLAIN, "ready", "0.33.0", **values)


def spec(**changes: Any) -> EngineReport:
    values = {"lengths": (("m", 4096),), "signals": SPEC_SIGNALS, **changes}
    return EngineReport("spec-0", "spec", PoolKind.SPECULATIVE, "ready", "0.33.0", **values)


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
        ({"baseline": ""}, "there is no plain pool: requests with min_p or logit_bias will be refused with 503"),
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
        "pool plain: plain",
        "  plain-0                  http://a:1",
        "pool eagle: speculative, method eagle3, 3 tokens ahead",
        "  eagle-0                  http://b:2",
    ]


def test_engines_are_shown_in_columns_with_a_dash_for_what_is_unknown() -> None:
    down = EngineReport("spec-1", "spec", PoolKind.SPECULATIVE, "down", trouble=("refused",))
    assert engines_table([spec(), down]) == [
        "engine  health  version  running  waiting  acceptance  models",
        "spec-0  ready   0.33.0   1        0        2.50        m",
        "spec-1  down    -        -        -        -           -",
    ]
