"""The checker must see a name that nobody exports, whichever way the query is written."""

import pytest

from tests.house.promql import Selector, grouping_labels, selectors, unknown_names

EXPORTED = {"requests_total": {"pool", "reason"}, "latency_seconds_bucket": {"pool", "le"}, "ready": {"pool"}}
TARGET = frozenset({"instance", "job"})


@pytest.mark.parametrize("text", ["requests_total{pool='a'", "rate(requests_total[5m]) ? 1", "sum by (pool", "@end"])
def test_what_cannot_be_read_is_an_error_and_never_passed(text):
    with pytest.raises(ValueError, match=r"not PromQL|no '.'"):
        unknown_names(text, EXPORTED, TARGET)


def test_a_function_that_prometheus_does_not_have_is_an_error():
    with pytest.raises(ValueError, match="unknown function 'rates'"):
        list(selectors("rates(requests_total[5m])"))


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("rate(request_total[5m])", "no series request_total"),
        ("sum(ready) / sum(redy)", "no series redy"),
        ('requests_total{poool="a"}', "requests_total has no label poool"),
        ("sum by (reasn) (rate(requests_total[5m]))", "requests_total has no label reasn"),
        ("requests_total > 0 and on (reason) ready == 1", "ready has no label reason"),
    ],
)
def test_a_misspelt_name_is_found(query, problem):
    assert unknown_names(query, EXPORTED, TARGET) == [problem]


@pytest.mark.parametrize(
    "query",
    [
        'histogram_quantile(0.95, sum by (pool, le) (rate(latency_seconds_bucket{pool=~"$pool"}[$__rate_interval])))',
        'sum by (job) (rate(requests_total{reason=~"a|b", pool!=""}[5m])) / sum by (job) (rate(ready[5m])) > 0.05',
        "max(ready) == 0",
        "ready offset 5m unless ready",
    ],
)
def test_a_query_for_what_is_exported_passes(query):
    assert unknown_names(query, EXPORTED, TARGET) == []


def test_matchers_and_groupings_belong_to_labels_not_to_series():
    query = 'sum by (a, b) (x{c="1", d=~"2"}) + ignoring (e) group_left (f) y'
    assert list(selectors(query)) == [Selector("x", frozenset("cd")), Selector("y", frozenset())]
    assert grouping_labels(query) == frozenset("abef")
