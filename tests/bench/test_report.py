"""The report as JSON and as a table: nothing is hidden, nothing is shown without what is behind it."""

import io
from dataclasses import replace

import orjson
import pytest
from rich.console import Console

from breakeven_bench.report import (
    REPORT_VERSION,
    RateReport,
    failures,
    number,
    pool_shares,
    quantile_text,
    table,
    to_json,
)
from breakeven_bench.stats import Estimate
from tests.bench.reports import report
from tests.bench.runs import run


def shown(made=None):
    """The table as a pipe would get it."""
    out = io.StringIO()
    Console(file=out, width=118).print(table(made or report()))
    return out.getvalue()


def row(title, place=0):
    """The cells of an arm, at the lower or the higher rate."""
    return [line for line in shown().splitlines() if title in line][place]


def test_a_figure_that_is_not_known_is_a_dash_and_never_zero():
    assert number(None) == "-"
    assert number(0.0) == "0.00"


def test_a_quantile_without_enough_observations_says_so():
    assert quantile_text(None) == "n < 59"
    assert quantile_text(Estimate(3.25, 3.0, None, 60)) == "3.2"


def test_an_arm_without_headers_has_no_shares_of_pools():
    direct = run("threshold", 2.0)
    assert pool_shares(replace(direct, summary=replace(direct.summary, pool_shares={}))) == "-"


def test_the_mean_of_an_arm_that_did_not_settle_carries_an_arrow():
    assert "10.7" in row("threshold", 1)
    assert "↑" in row("threshold", 1)
    assert "↑" not in row("threshold", 0)


def test_the_table_says_unstable_and_invalid_where_it_is():
    assert "unstable: 10 to 20 in flight" in row("threshold", 1)
    assert "INVALID: 9.0% of engine steps late" in row("two plain", 1)


def test_the_table_shows_mean_shares_target_and_difference():
    cells = row("threshold", 0)
    for expected in ("1", "2.68", "12.5", "97%", "8%:92%", "slower by 10% [10, 10]"):
        assert expected in cells


def test_the_best_equal_hardware_arm_is_marked_as_the_reference():
    assert "reference" in row("two EAGLE-3", 0)


def test_the_table_says_in_what_its_times_are():
    assert "seconds of the engine" in shown()


def test_the_json_holds_every_arm_with_its_verdict_and_no_bulk():
    document = orjson.loads(to_json(report()))
    assert document["report_version"] == REPORT_VERSION
    assert [at["rate_per_s"] for at in document["rates"]] == [1.0, 5.0]
    arm = document["rates"][0]["arms"][0]
    assert arm["arm"]["name"] == "threshold"
    assert arm["arm"]["is_equal_hardware"] is False
    assert arm["verdict"]["word"] == "slower by"
    assert arm["verdict"]["difference"]["n"] == 60
    assert arm["summary"]["settled"] is True
    assert "latencies_s" not in arm["summary"]


def test_the_json_keeps_doubts_setup_and_conclusions():
    document = orjson.loads(to_json(report()))
    assert document["rates"][1]["arms"][1]["doubts"] == ["9.0% of engine steps late"]
    assert document["rates"][1]["arms"][1]["steps"] == {"steps": 1000, "late": 90, "late_share": 0.09}
    assert document["rates"][0]["arms"][0]["steps"] is None
    assert document["setup"]["target"] == {"ttft_s": 2.0, "tpot_ms": 50.0}
    assert tuple(document["conclusions"]) == report().conclusions


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ({}, []),
        ({"unfinished": 4}, []),
        (
            {"http_5xx": 2, "connect": 1, "unfinished": 4},
            ["threshold (T > 1.0) at 1/s: 1 x connect", "threshold (T > 1.0) at 1/s: 2 x http_5xx"],
        ),
    ],
)
def test_failures_are_told_by_arm_rate_and_class_and_what_was_given_up_is_none(errors, expected):
    failed = run("threshold", 2.0)
    failed = replace(failed, summary=replace(failed.summary, errors=errors))
    assert failures([RateReport(1.0, (failed,), {})]) == expected
