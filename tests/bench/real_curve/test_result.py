"""The file of a measurement holds what was counted, comes back as it went, and says when it is none."""

from dataclasses import replace

import orjson
import pytest

from breakeven_bench.real_curve.result import SCHEMA_VERSION, decode, encode
from tests.bench.real_curve.results import RESULT, acceptance


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"schema_version": "one"}', b"\xff"])
def test_what_is_no_result_is_refused(data):
    with pytest.raises(ValueError, match="no result of real-curve"):
        decode(data)


def test_a_result_of_another_schema_is_refused():
    with pytest.raises(ValueError, match=f"schema version 99, this reader knows {SCHEMA_VERSION}"):
        decode(encode(replace(RESULT, schema_version=99)))


def test_a_result_comes_back_as_it_went():
    assert decode(encode(RESULT)) == RESULT


def test_the_file_is_json_with_a_line_for_every_value_and_an_end():
    data = encode(RESULT)
    assert orjson.loads(data)["provenance"]["seed"] == 1
    assert data.endswith(b"}\n")
    assert data.count(b"\n") > 100


def test_the_figures_of_a_point_are_vllms_definitions():
    point = acceptance(accepted=50, drafts=100)
    assert (point.length, point.rate) == (1.5, pytest.approx(50 / 300))
    assert point.per_position == (0.25, 0.25, 0.0)
    assert 1.0 + sum(point.per_position) == pytest.approx(point.length)
