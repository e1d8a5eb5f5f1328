"""What was measured on real engines as a measured table; the one that ships is made from the result that is kept."""

from dataclasses import replace
from datetime import date

import pytest

from breakeven_bench.real_curve.result import BASELINE, DIRECT, GREEDY, PROBABILISTIC, decode
from breakeven_bench.real_curve.table import length_of, table_of
from breakeven_policies.measured import Drafting, Estimate, encode_table, parse_table, problems
from breakeven_policies.measurement import measurement_of
from tests.bench.real_curve.results import RESULT, acceptance, samples
from tests.house.tree import ROOT

SHIPPED = ROOT / "policies/breakeven_policies/tables/smollm2-eagle3-cpu.json"


def made(**changes):
    return table_of(replace(RESULT, **changes), "mine", "0123abc", "smollm2", "head")


def test_the_table_that_ships_is_made_from_the_result_that_is_kept():
    result = decode((ROOT / "docs/data/real-pair.json").read_bytes())
    table = table_of(result, SHIPPED.stem, "6025c5b", "smollm2", "smollm2-eagle3")
    assert encode_table(table) == SHIPPED.read_bytes()
    assert parse_table(SHIPPED.read_bytes()) == table


@pytest.mark.parametrize(
    ("lengths", "estimate"),
    [
        ((2.0,), Estimate(1.5, n=100)),
        ((1.0, 1e9), Estimate(1.5, n=100)),  # they differ too much to say
        ((1.5, 1.5, 1.5), Estimate(1.5, 1.5, 1.5, 100)),
        ((3.0, 3.0, 3.0), Estimate(1.5, 1.5, 3.0, 100)),  # the whole is inside in any case
    ],
)
def test_an_interval_comes_from_how_much_the_answers_differ(lengths, estimate):
    assert length_of(acceptance(lengths=lengths)) == estimate


def test_a_table_of_any_result_is_sound():
    assert list(problems(made())) == []


def test_provenance_says_on_which_engines_and_until_when_it_counts():
    source = made().provenance
    assert (source.engine_version, source.measured_on, source.expires_on) == (
        "0.32.0",
        date(2026, 11, 30),
        date(2027, 5, 29),
    )
    assert (source.repeats, source.commit, source.gpu) == (RESULT.extent.rounds, "0123abc", "none: A processor")


def test_setups_differ_in_their_drafting():
    table = made(acceptance=(acceptance(), acceptance(engine=PROBABILISTIC)))
    assert [(setup.name, setup.speculative_tokens, setup.drafting) for setup in table.setups] == [
        (BASELINE, 0, None),
        (GREEDY, 3, Drafting.GREEDY),
        (PROBABILISTIC, 3, Drafting.PROBABILISTIC),
    ]


def test_times_of_engines_met_directly_count_before_those_through_the_router():
    by_router = samples(BASELINE, [10.0, 12.0, 14.0])
    directly = samples(BASELINE, [1.0, 2.0, 3.0], path=DIRECT)
    for taken, time in (([*by_router], Estimate(12.0, 10.0, 14.0, 3)), ([*by_router, *directly], Estimate(2, 1, 3, 3))):
        (cell,) = [cell for cell in made(samples=tuple(taken)).cells if cell.setup == BASELINE]
        assert (cell.running, cell.temperature, cell.time_per_output_token_ms) == (1.0, 0.0, time)


def test_acceptance_and_times_of_one_place_are_one_cell():
    together = RESULT.extent.acceptance_streams
    times = samples(GREEDY, [20.0, 30.0, 40.0], path=DIRECT, concurrency=together)
    plain = samples(BASELINE, [10.0, 10.0, 10.0], path=DIRECT)
    table = made(samples=(*plain, *times), acceptance=(acceptance(),))
    (cell,) = [cell for cell in table.cells if cell.setup == GREEDY]
    assert (cell.acceptance_length.mean, cell.accepted_per_position) == (1.5, (0.25, 0.25, 0.0))
    assert measurement_of(table, table.setups[1]).step_time_ms(together).value == 45.0
