"""`breakeven.check_command`: live engines are asked, and the exit code tells scripts what people read."""

import json
import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from breakeven.check_command import ask, ask_engines, check
from breakeven.config import BackendAddress, Settings
from breakeven.config_sources import ConfigError, build_settings
from breakeven_policies.measured import short_hash
from breakeven_policies.snapshot import PoolKind
from tests.policies.tables import table, written
from tests.router.certificates import Authority
from tests.router.scripted_engine import free_port, says, scripted_engine

pytestmark = pytest.mark.usefixtures("clean_environment")

MODELS = says(200, json.dumps({"data": [{"id": "m", "max_model_len": 4096}]}).encode())
LOAD = b"vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"
PLAIN = {
    "health": says(200),
    "metrics": says(200, LOAD),
    "v1_models": MODELS,
    "version": says(200, b'{"version":"0.33"}'),
}
SPEC = {**PLAIN, "metrics": says(200, LOAD + b"vllm:spec_decode_num_drafts_total 0\n")}


def settings(**values: Any) -> Settings:
    return build_settings(Settings, values)


async def test_engines_that_are_down_or_loading_are_reported_and_asked_nothing_further() -> None:
    async with scripted_engine(health=says(503)) as loading:
        found = settings(
            baseline=f"http://127.0.0.1:{await free_port()}", speculative=f"http://127.0.0.1:{loading.port}"
        )
        reports = await ask_engines(found)
        assert [(report.name, report.health) for report in reports] == [
            ("baseline-0", "down"),
            ("speculative-0", "loading"),
        ]
        assert reports[0].trouble == ("GET /health: connection refused",)
        assert len(loading.heads) == 1


async def test_every_question_that_failed_is_told() -> None:
    async with scripted_engine(health=says(404)) as engine:
        address = BackendAddress("x", "p", "127.0.0.1", engine.port, tls=False)
        report = await ask(address, PoolKind.PLAIN, 5.0)
    assert report.health == "ready"
    assert [trouble.split(" answered")[0] for trouble in report.trouble] == [
        "GET /health",
        "GET /metrics",
        "GET /v1/models",
    ]
    assert (report.version, report.lengths, report.signals) == (None, None, None)


async def test_engines_that_are_well_are_reported_with_all_they_know() -> None:
    async with scripted_engine(**PLAIN) as plain, scripted_engine(**SPEC) as spec:
        found = settings(baseline=f"http://127.0.0.1:{plain.port}", speculative=f"http://127.0.0.1:{spec.port}")
        reports = await ask_engines(found)
    assert [report.trouble for report in reports] == [(), ()]
    assert [report.models for report in reports] == [("m",), ("m",)]
    assert reports[0].version == "0.33"
    assert reports[0].signals is not None
    assert reports[0].signals.drafts is None
    assert reports[1].signals is not None
    assert reports[1].signals.drafts == 0


def test_without_probing_only_the_configuration_is_judged() -> None:
    said: list[str] = []
    assert check(settings(baseline="http://a:1", speculative="http://b:2"), probe=False, say=said.append) == 0
    assert said[0] == "policy threshold, threshold 1"
    assert said[-1] == "0 problems, 0 warnings; --probe asks the engines too"


def test_a_file_by_which_engines_are_met_is_a_mistake_also_where_nobody_asks_them(tmp_path: Path) -> None:
    pool = {"name": "p", "kind": "plain", "backends": ["https://a:1"], "tls": {"ca": str(tmp_path / "missing")}}
    with pytest.raises(ConfigError, match=r"tls\.ca: .*missing: cannot read it"):
        check(settings(pools=[pool]), probe=False, say=lambda _: None)


def test_a_certificate_that_has_expired_is_a_problem(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "authority").pair(expired=True)
    found = settings(baseline="http://a:1", speculative="http://b:2", tls_cert=str(pair.cert), tls_key=str(pair.key))
    said: list[str] = []
    assert check(found, probe=False, say=said.append) == 1
    assert [
        line for line in said if re.fullmatch(r"problem: tls_cert: expired on .* UTC: handshakes with it fail", line)
    ]


def test_tables_are_listed_and_one_that_cannot_be_used_is_a_mistake(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(written())
    said: list[str] = []
    found = settings(baseline="http://a:1", speculative="http://b:2", tables=str(path))
    assert check(found, probe=False, say=said.append, today=date(2027, 5, 1)) == 0
    about = "meta-llama/Llama-3.3-70B-Instruct on vllm 0.33.0, measured on 2026-11-01, until 2027-05-01"
    assert f"table llama-on-a100 ({short_hash(table())}): measured, {about}" in said
    assert "warning: table llama-on-a100: expired on 2027-05-01: it is not used any more" in said
    path.write_bytes(b"[]")
    with pytest.raises(ConfigError, match=r"tables: .*t\.json: expected object, got array"):
        check(found, probe=False, say=said.append)


def test_a_log_that_cannot_be_written_fails_as_it_would_keep_the_router_from_starting(tmp_path: Path) -> None:
    said: list[str] = []
    pair = settings(baseline="http://a:1", speculative="http://b:2", access_log=str(tmp_path))
    assert check(pair, probe=False, say=said.append) == 1
    assert f"problem: access_log: cannot write {tmp_path}: is a directory" in said


def test_a_warning_does_not_fail_and_a_problem_does() -> None:
    said: list[str] = []
    lone = settings(baseline="http://127.0.0.1:1", probe_timeout_s=1)
    assert check(lone, probe=False, say=said.append) == 0
    assert said[-1].startswith("0 problems, 1 warnings")
    assert check(lone, probe=True, say=said.append) == 1
    assert "problem: baseline-0: GET /health: connection refused" in said
    assert said[-1] == "1 problems, 1 warnings"
