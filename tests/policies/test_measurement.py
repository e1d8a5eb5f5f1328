"""What a table says about one pool: between its cells, beyond them, and where it says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_policies.measured import short_hash
from breakeven_policies.measurement import Point, Reading, measurement_of, rising
from tests.policies.tables import table


def of(setup, **changes):
    made = table(**changes)
    return measurement_of(made, made.setups[setup])


def cell(running, mean=None, n=None, **fields):
    made = {"setup": "k3", "workload": "*", "running": running, **fields}
    return made if mean is None else made | {"acceptance_length": {"mean": mean, "n": n}}


def speculative(*cells):
    plain = {"setup": "plain", "workload": "*", "running": 1, "step_time_ms": {"mean": 1}}
    return of(1, cells=[plain, *cells])


def test_a_setup_without_times_has_no_step_time():
    assert speculative(cell(1, 2.0)).step_time_ms(1) is None


def test_a_class_of_which_no_cell_speaks_has_no_acceptance():
    assert of(1).acceptance_length("chat", 0.0, 8) is None


def test_cells_without_a_length_say_nothing_of_acceptance():
    assert speculative(cell(1, step_time_ms={"mean": 5})).acceptance_length("chat", 0.0, 1) is None


def test_it_knows_which_table_it_is_from():
    assert of(0).table == "llama-on-a100"
    assert of(0).hash == short_hash(table())


def test_step_time_is_linear_between_two_batches():
    assert of(0).step_time_ms(3) == Reading(22.0, inside=True, n=10)


def test_a_measured_batch_gives_what_was_measured():
    assert of(0).step_time_ms(9) == Reading(28.0, inside=True, n=10)


def test_below_the_smallest_batch_its_step_time_holds_and_that_is_said():
    assert of(0).step_time_ms(0.5) == Reading(20.0, inside=False, n=30)


def test_above_the_largest_batch_the_step_time_goes_on_as_it_rose_last_and_that_is_said():
    assert of(0).step_time_ms(19) == Reading(38.0, inside=False, n=10)


def test_a_single_batch_holds_everywhere_and_that_is_said():
    assert of(1).step_time_ms(20) == Reading(30.0, inside=False)


def test_noise_never_makes_a_larger_batch_faster():
    assert rising([Point(4, 9.0, 10), Point(1, 10.0, 10), Point(8, 20.0, 10)]) == (
        Point(1, 9.5, 20),
        Point(4, 9.5, 20),
        Point(8, 20.0, 10),
    )


def test_points_weigh_by_their_observations():
    assert rising([Point(1, 10.0, 30), Point(2, 6.0, 10)])[0] == Point(1, 9.0, 40)


def test_points_of_one_batch_are_one_point():
    assert rising([Point(1, 10.0, None), Point(1, 20.0, 3)]) == (Point(1, 17.5, None),)


@given(st.lists(st.tuples(st.integers(1, 6), st.floats(0.1, 100), st.integers(1, 50)), min_size=1))
def test_the_curve_rises_keeps_its_weighted_mean_and_has_each_batch_once(points):
    fitted = rising(Point(x, value, n) for x, value, n in points)
    assert [point.x for point in fitted] == sorted({x for x, _, _ in points})
    values = [point.value for point in fitted]
    assert values == sorted(values)
    weight = {x: sum(n for at, _, n in points if at == x) for x, _, _ in points}
    given_total = sum(value * n for _, value, n in points)
    assert sum(point.value * weight[point.x] for point in fitted) == pytest.approx(given_total)


def test_a_plain_pool_makes_one_token_per_step():
    assert of(0).acceptance_length("code", 1.5, 80) == Reading(1.0, inside=True)


def test_the_cells_of_a_class_come_before_those_over_any():
    measured = speculative(cell(1, 2.0), cell(1, 3.0, workload="code"))
    assert measured.acceptance_length("code", 0.0, 1).value == 3.0
    assert measured.acceptance_length("chat", 0.0, 1).value == 2.0


def test_acceptance_is_linear_in_temperature_and_then_in_the_batch():
    measured = speculative(
        cell(1, 3.0, 40, temperature=0),
        cell(1, 2.0, 10, temperature=1),
        cell(9, 2.0, 40, temperature=0),
        cell(9, 1.0, 40, temperature=1),
    )
    assert measured.acceptance_length("chat", 0.5, 5) == Reading(2.0, inside=True, n=10)


def test_beyond_the_measured_temperatures_the_nearest_holds_and_that_is_said():
    assert speculative(cell(1, 3.0, temperature=0)).acceptance_length("chat", 0.7, 1) == Reading(3.0, inside=False)


def test_beyond_the_measured_batches_the_nearest_acceptance_holds_and_that_is_said():
    assert speculative(cell(4, 3.0)).acceptance_length("chat", 0.7, 40) == Reading(3.0, inside=False)


def test_a_cell_without_temperature_holds_at_each():
    assert speculative(cell(1, 3.0)).acceptance_length("chat", 1.3, 1) == Reading(3.0, inside=True)


TOKEN = {"time_per_output_token_ms": {"mean": 10, "n": 7}}


def test_without_step_times_they_follow_from_the_time_per_token():
    assert speculative(cell(1, 2.5, **TOKEN)).step_time_ms(1) == Reading(25.0, inside=True, n=7)
    assert of(0, cells__0__step_time_ms=..., cells__0__time_per_output_token_ms={"mean": 20}).steps[0].value == 20.0


def test_the_acceptance_of_another_batch_at_the_same_temperature_will_do_for_that():
    measured = speculative(cell(1, temperature=1, **TOKEN), cell(16, 1.5, temperature=1), cell(16, 3.0, temperature=0))
    assert measured.step_time_ms(1) == Reading(15.0, inside=True, n=7)


def test_that_of_another_temperature_does_not():
    assert speculative(cell(1, temperature=1, **TOKEN), cell(16, 3.0, temperature=0)).step_time_ms(1) is None


def test_where_k_follows_the_batch_that_of_another_batch_does_not_either():
    changes = {"setups__1__speculative_tokens_per_batch_size": [[1, 8, 3], [9, 64, 0]]}
    plain = {"setup": "plain", "workload": "*", "running": 1, "step_time_ms": {"mean": 1}}
    measured = of(1, cells=[plain, cell(1, **TOKEN), cell(16, 3.0)], **changes)
    assert measured.step_time_ms(1) is None


def test_prefill_is_in_seconds_and_may_be_unknown():
    assert of(0).prefill_s_per_prompt_token == pytest.approx(0.00025)
    assert of(1).prefill_s_per_prompt_token is None
