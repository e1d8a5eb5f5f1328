"""The tables of the README: their rows, and how they are put into the page."""

import pytest

from breakeven_bench.vllm.facts import BASELINE, EAGLE3, GONE, METHODS, SUFFIX
from breakeven_bench.vllm.launch_tables import (
    MEMORY_COLUMNS,
    TABLES,
    break_even_table,
    edge,
    gone_table,
    markdown,
    memory_cells,
    memory_groups,
    memory_table,
    methods_table,
    tokens,
    with_tables,
)
from breakeven_bench.vllm.machines import FLEETS, SPLIT_70B

PAGE = "".join(
    f"before {name}\n<!-- written by breakeven-bench launch-files: {name} -->\nold\n<!-- end of {name} -->\nafter\n"
    for name in TABLES
)


def rows(table):
    """The cells below the header."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


@pytest.mark.parametrize("mark", ["<!-- written by breakeven-bench launch-files: memory -->", "<!-- end of memory -->"])
def test_a_page_without_the_place_of_a_table_is_refused_by_name(mark):
    with pytest.raises(ValueError, match="no place for the table memory"):
        with_tables(PAGE.replace(mark, ""))


def test_the_tables_replace_what_stood_between_their_marks_and_nothing_else():
    page = with_tables(PAGE)
    assert "old" not in page
    for name, render in TABLES.items():
        assert f"before {name}\n<!-- written by" in page
        assert f"-->\n\n{render()}\n<!-- end of {name} -->\nafter\n" in page


def test_a_page_that_has_its_tables_stays_as_it_is():
    page = with_tables(PAGE)
    assert with_tables(page) == page


def test_a_table_has_a_line_below_its_header():
    assert markdown(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def test_a_break_even_out_of_reach_is_told_as_a_bound():
    assert (edge(None), edge(0), edge(89)) == ("> 256", "0", "89")


def test_every_method_has_a_row_with_its_k():
    assert {row[0]: row[3] for row in rows(methods_table())} == {
        "`baseline.sh`": "-",
        "`speculative.sh`": "3",
        "`draft-model.sh`": "3",
        "`ngram.sh`": "3",
        "`suffix.sh`": "8",
        "`dynamic.sh`": "3",
    }


@pytest.mark.parametrize(("method", "drafts"), [(BASELINE, None), (EAGLE3, 3), (SUFFIX, 8)])
def test_the_default_k_of_a_method_is_that_of_its_configuration(method, drafts):
    assert tokens(method) == drafts


def test_engines_that_need_the_same_memory_share_a_row():
    groups = memory_groups(SPLIT_70B, SPLIT_70B.weights[0])
    assert [scripts for scripts, _ in groups] == ["baseline, ngram, suffix", "speculative, dynamic", "draft-model"]


def test_a_row_of_memory_has_a_cell_for_each_column_and_a_dash_for_no_drafter():
    (_, plain), (_, speculative), _ = memory_groups(SPLIT_70B, SPLIT_70B.weights[0])
    cells = memory_cells("baseline", plain)
    assert cells == ("baseline", "36.3 GB", "-", "163,840 B", "220,710", "6.7", "1,724")
    assert len(cells) == len(MEMORY_COLUMNS)
    assert memory_cells("speculative", speculative)[2] == "1.6 GB"


def test_the_memory_of_every_fleet_is_in_the_table():
    shown = {row[0].strip("`"): set() for row in rows(memory_table())}
    for fleet, scripts, *_ in rows(memory_table()):
        shown[fleet.strip("`")] |= set(scripts.split(", "))
    assert shown == {fleet.name: {method.script for method in METHODS} for fleet in FLEETS}


def test_break_even_falls_with_temperature_in_every_row():
    for row in rows(break_even_table()):
        batches = [257 if cell.startswith(">") else int(cell) for cell in row[3:]]
        assert batches == sorted(batches, reverse=True)


def test_a_profile_that_two_fleets_share_has_its_rows_once():
    assert [(row[0], row[1]) for row in rows(break_even_table())] == [
        (f"`{name}`", k) for name in ("a100-tp2-int8", "a100-tp2-fp8", "a100-tp4-bf16") for k in ("3", "5")
    ]


def test_what_is_gone_is_listed_with_what_to_write_instead():
    assert [row[0] for row in rows(gone_table())] == [f"`{each.name}`" for each in GONE]
    assert all(row[2] for row in rows(gone_table()))
