"""The file of a measured table: what is refused and where, its hash, its schema, and the tables that ship."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import breakeven_policies
from breakeven_policies.measured import (
    CELLS_MAX,
    TableError,
    TableKind,
    encode_table,
    parse_table,
    problems,
    schema,
    short_hash,
)
from breakeven_policies.prior import PRIOR, expected_acceptance_length
from tests.policies.tables import DOCUMENT, document, table, written

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()

FOLDER = Path(breakeven_policies.__file__).parent / "tables"
SHIPPED = sorted(path for path in FOLDER.glob("*.json") if path.name != "table.schema.json")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "input data was truncated"),
        (b"\xff", "JSON is malformed"),
        (b"[" * 100_000, "expected object, got array"),
        (b'{"format": 1' + b"[" * 100_000, "JSON is malformed"),
        (b'{"name": ' + b'"\xff"}', "invalid UTF-8"),
        (written(kind="guessed"), "kind: invalid enum value 'guessed'"),
        (written(provenance__gpu=...), "provenance: missing required field gpu"),
        (written(provenance__gpus=8), "provenance: contains unknown field gpus"),
        (written(cells=[]), "cells: expected array of length >= 1"),
        (written(cells__2__step_time_ms__mean=0), "cells[2].step_time_ms.mean: must be > 0"),
        (written(cells__2__running=-1), "cells[2].running: must be > 0"),
        (written(cells__2__running="8"), "cells[2].running: expected float, got str"),
        (written(cells__2__accepted_per_position=[1.5]), "cells[2].accepted_per_position[0]: must be <= 1"),
        (written(setups__1__speculative_tokens=True), "setups[1].speculative_tokens: expected int, got bool"),
    ],
)
def test_what_is_no_table_is_refused_with_its_place(data, told):
    with pytest.raises(TableError) as error:
        parse_table(data)
    assert str(error.value).startswith(told)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"format": 2}, "format: must be 1, the only one that this version reads; found 2"),
        ({"provenance__expires_on": ...}, "provenance.expires_on: a measured table needs it"),
        ({"provenance__measured_on": ...}, "provenance.measured_on: a measured table needs it"),
        ({"provenance__repeats": ...}, "provenance.repeats: a measured table needs it"),
        ({"provenance__commit": ...}, "provenance.commit: a measured table needs it"),
        ({"provenance__expires_on": "2026-11-01"}, "provenance.expires_on: must be later than measured_on"),
        ({"setups__1__name": "plain"}, "setups[1].name: 'plain' is there twice"),
        ({"setups__0__method": "eagle3"}, "setups[0]: a plain setup drafts nothing"),
        ({"setups__0__drafting": "greedy"}, "setups[0]: a plain setup drafts nothing"),
        ({"setups__0__prefill_ms_per_prompt_token__low": 0.1}, "setups[0].prefill_ms_per_prompt_token: low and high"),
        ({"setups__1__method": "unknown"}, "setups[1].method: a speculative setup needs one, such as eagle3"),
        ({"setups__1__speculative_tokens": 0}, "setups[1].speculative_tokens: must be >= 1"),
        ({"cells__1__setup": "k4"}, "cells[1].setup: there is no setup 'k4'; there are: plain, k3"),
        ({"cells__1__running": 1}, "cells[1]: cells[0] is about the same setup, workload, temperature and batch"),
        ({"cells__2": DOCUMENT["cells"][1] | {"running": 2}}, "setups[1]: no cell is about 'k3'"),
        ({"cells__1__step_time_ms": ...}, "cells[1]: says neither step_time_ms nor"),
        ({"cells__0__step_time_ms__mean": 30}, "cells[0].step_time_ms: the mean lies outside its interval"),
        ({"cells__0__step_time_ms__low": ...}, "cells[0].step_time_ms: low and high go together"),
        ({"cells__0__acceptance_length": {"mean": 1}}, "cells[0]: 'plain' is plain, so nothing is accepted there"),
        ({"cells__2__acceptance_length": {"mean": 4.1}}, "cells[2].acceptance_length.mean: must be from 1 to 4, "),
        ({"cells__2__accepted_per_position": [0.9, 0.3, 0.2, 0.1]}, "cells[2].accepted_per_position: 4 positions"),
        ({"cells__2__accepted_per_position": [0.4, 0.9, 0.6]}, "cells[2].accepted_per_position: must not rise"),
        ({"cells__2__accepted_per_position": [0.9, 0.3, 0.1]}, "cells[2].accepted_per_position: adds up to a length"),
    ],
)
def test_what_contradicts_itself_is_refused_with_its_place(changes, told):
    with pytest.raises(TableError) as error:
        table(**changes)
    assert str(error.value).startswith(told)


def test_a_table_with_more_cells_than_anybody_measures_is_refused():
    with pytest.raises(TableError, match=f"cells: expected array of length <= {CELLS_MAX}"):
        table(cells=[DOCUMENT["cells"][0]] * (CELLS_MAX + 1))


def refusal(data):
    """Why it is no table; nothing where it is one."""
    try:
        parse_table(data)
    except TableError as error:
        return str(error)
    return ""


@given(st.data())
def test_whatever_stands_in_a_table_it_is_read_or_refused_in_one_line(data):
    mutant = document()
    place = mutant
    while True:  # somewhere in the document something else
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2), max_leaves=3))
        break
    assert refusal(json.dumps(mutant).encode()).count("\n") == 0


def test_several_problems_are_all_found():
    stray = replace(table().cells[1], setup="k4")
    assert list(problems(replace(table(), format=9, cells=(stray, stray)))) == [
        "format: must be 1, the only one that this version reads; found 9",
        "cells[0].setup: there is no setup 'k4'; there are: plain, k3",
        "cells[1].setup: there is no setup 'k4'; there are: plain, k3",
        "setups[0]: no cell is about 'plain'",
        "setups[1]: no cell is about 'k3'",
    ]


def test_positions_that_are_not_all_known_are_not_added_up():
    assert table(cells__2__accepted_per_position=[0.9]).cells[2].accepted_per_position == (0.9,)


def test_a_length_may_be_unknown():
    assert table(cells__2__acceptance_length=...).cells[2].acceptance_length is None


def test_a_prior_needs_no_date():
    prior = table(kind="prior, unverified", provenance__measured_on=..., provenance__expires_on=...)
    assert prior.provenance.measured_on is None


def test_the_hash_is_of_what_the_table_says_not_of_how_it_is_written():
    reordered = json.dumps(dict(reversed(document().items())), indent=4).encode()
    assert parse_table(reordered).digest() == table().digest()
    assert table(cells__0__temperature=None).digest() == table().digest()


def test_another_figure_is_another_hash():
    assert table(cells__0__step_time_ms__mean=20.001).digest() != table().digest()


def test_the_short_hash_begins_the_long_one():
    assert table().digest().startswith(short_hash(table()))
    assert len(short_hash(table())) == 12


def test_a_written_table_reads_as_the_same_table():
    assert parse_table(encode_table(table())) == table()


def test_the_schema_file_is_made_from_the_types():
    assert json.loads((FOLDER / "table.schema.json").read_text(encoding="utf-8")) == json.loads(json.dumps(schema()))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_tables_are_valid_by_types_and_by_schema(path):
    assert parse_table(path.read_bytes()).name == path.stem
    jsonschema.Draft202012Validator(schema()).validate(json.loads(path.read_bytes()))


@pytest.mark.parametrize("changes", [{"kind": "guessed"}, {"cells__2__running": 0}, {"provenance__gpu": ...}])
def test_the_schema_refuses_what_the_types_refuse(changes):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema()).validate(document(**changes))


def test_the_users_table_ships_as_a_prior_and_says_what_the_prior_says():
    shipped = parse_table((FOLDER / "user-prior-eagle3-k5.json").read_bytes())
    assert shipped.kind is TableKind.PRIOR
    assert "UNVERIFIED" in shipped.provenance.note
    assert [cell.temperature for cell in shipped.cells] == [point.temperature for point in PRIOR]
    for cell, point in zip(shipped.cells, PRIOR, strict=True):
        assert cell.acceptance_length.mean == pytest.approx(expected_acceptance_length(point.acceptance, 5), abs=0.0001)
        assert cell.accepted_per_position[0] == point.acceptance
