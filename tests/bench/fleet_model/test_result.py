"""A result on disk: comes back as it was, one row a line, and says what it is not."""

import json

import pytest

from breakeven_bench.fleet_model.outcome import Outcome
from breakeven_bench.fleet_model.result import decode, encode, row_of, together
from tests.bench.fleet_model.studies import WON, row, study


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not a result"),
        (b"[]", "not a result"),
        (encode(WON).replace(b'"schema": 1', b'"schema": 99'), "schema 99"),
    ],
)
def test_what_is_no_result_is_refused_in_one_line(data, message):
    with pytest.raises(ValueError, match=message) as refused:
        decode(data)
    assert "\n" not in str(refused.value)


def test_a_result_comes_back_as_it_was():
    assert decode(encode(WON)) == WON


def test_every_row_stands_on_a_line_of_its_own():
    text = encode(WON).decode()
    lines = [json.loads(line.strip(" ,")) for line in text.splitlines() if line.startswith("    [")]
    assert lines == [*json.loads(text)["rows"], *json.loads(text)["capacities"]]


def test_rows_are_found_by_place_rate_and_arm():
    assert WON.places() == [("pair", "falls", "mixed")]
    assert WON.of("pair", "falls", "mixed")[4.0]["told"].mean_s == 4.0
    assert WON.of("pair", "flat", "mixed") == {}
    assert WON.capacity_of("pair", "falls")["breakeven"] == 8.0


def test_a_row_keeps_no_more_digits_than_it_is_worth_and_unknown_stays_unknown():
    outcome = Outcome(1.23456789, 0.987654, 0.0123456, False, 0, {})
    kept = row_of(("p", "w", "mixed"), 2.0, "a", outcome)
    assert (kept.mean_s, kept.within, kept.growth, kept.stable) == (1.2346, 0.9877, 0.0123, True)
    assert row_of(("p", "w", "mixed"), 2.0, "a", Outcome(None, 0.0, 0.0, True, 0, {})).mean_s is None


def test_results_of_several_commands_become_one_unless_they_say_different_things_of_one_place():
    other = study(row(1.0, "threshold", 2.0, world="flat"), extra="another")
    both = together([WON, other])
    assert both.places() == [*WON.places(), *other.places()]
    assert len(both.provenance) == 2
    assert both.titles["extra"] == "another"
    assert both.capacities == WON.capacities
    with pytest.raises(ValueError, match="two results have figures of pair, falls, mixed"):
        together([WON, WON])
