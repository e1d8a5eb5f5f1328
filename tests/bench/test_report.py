"""The report as JSON and as a table: nothing is hidden, nothing is shown without what is behind it."""

import io
from dataclasses import replace

import orjson
import pytest
from rich.console import Console

from breakeven_bench.engine.hardware import NO_DRAFTER, PROFILES, eagle_drafter, step_s
from breakeven_bench.report import (
    REPORT_VERSION,
    RateReport,
    failures,
    hardware_words,
    lasting,
    number,
    pool_shares,
    quantile_text,
    scope,
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


def test_the_table_says_that_its_intervals_do_not_speak_about_a_rerun():
    assert "as if they were independent" in " ".join(shown().split())


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


CONTEXT = 500
TOKENS_PER_STEP = 2.5
"""What EAGLE-3 with k=5 yields at a middling temperature; any value between 2 and 3 gives the same order."""


def break_even(hardware):
    """The smallest batch whose speculative step costs more than it yields."""
    for batch in range(1, 1000):
        kv = batch * CONTEXT
        plain = step_s(hardware, NO_DRAFTER, batch, kv, 0, batch)
        if step_s(hardware, eagle_drafter(hardware), 6 * batch, kv, 5, batch) > TOKENS_PER_STEP * plain:
            return batch
    raise AssertionError


def test_hardware_whose_corner_is_higher_breaks_even_later_in_the_model():
    found = {name: break_even(hardware) for name, hardware in PROFILES.items()}
    assert found["a100-tp2-fp8"] < found["a100-tp2-int8"] < found["h100-tp4-bf16"]
    assert found["a100-tp2-fp8"] < found["a100-tp4-bf16"] < found["h100-tp4-bf16"]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_conclusions_are_for_one_profile_and_the_others_are_told_apart(profile):
    said = scope(profile)
    assert said.startswith(f"All this is for {profile} only, modelled and not measured")
    assert all(name in said for name in PROFILES)


def test_the_corners_are_those_of_the_model():
    # 312e12 x 0.75 / (2 x 2039e9 x 0.85), and twice that at INT8 speed
    assert "about 68 tokens a step" in scope("a100-tp2-fp8")
    assert "a100-tp2-int8 135" in scope("a100-tp2-fp8")


def test_hardware_is_never_called_measured():
    assert hardware_words("a100-tp2-fp8").endswith("; modelled, not measured)")


@pytest.mark.parametrize(
    ("time_scale", "expected"),
    [
        (1.5, "36 s of the engine, 24 s here (1.5 times faster)"),
        (1.0, "36 s of the engine (real time)"),
        (0.5, "36 s of the engine, 72 s here (2 times slower)"),
    ],
)
def test_a_duration_is_told_by_both_clocks(time_scale, expected):
    assert lasting(36.0, time_scale) == expected
