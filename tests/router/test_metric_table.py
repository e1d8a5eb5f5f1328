"""`breakeven.metric_table`: the conventions that Prometheus and its users rely on."""

import re

import pytest

from breakeven import metric_table
from breakeven.metric_table import TABLE, Metric, MetricKind


@pytest.mark.parametrize("metric", TABLE, ids=lambda metric: metric.name)
def test_a_metric_follows_the_conventions(metric: Metric) -> None:
    assert re.fullmatch(r"breakeven_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert bool(metric.buckets) == (metric.kind is MetricKind.HISTOGRAM)
    assert list(metric.buckets) == sorted(set(metric.buckets))
    assert metric.help.endswith(".")
    if metric.kind is MetricKind.HISTOGRAM:
        assert metric.name.endswith("_seconds")


def test_no_label_takes_its_values_from_a_client() -> None:
    labels = {label for metric in TABLE for label in metric.labels}
    assert labels == {
        "pool",
        "backend",
        "reason",
        "outcome",
        "result",
        "health",
        "policy",
        "version",
        "side",
        "log",
        "why",
        "cause",
        "wanted",
        "table_hash",
        "setting",
    }


def test_every_metric_of_the_module_is_in_the_table_once() -> None:
    defined = [value for value in vars(metric_table).values() if isinstance(value, Metric)]
    assert sorted(metric.name for metric in defined) == sorted(metric.name for metric in TABLE)
