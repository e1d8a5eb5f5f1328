"""Reading an engine's metrics page: sums over label sets, and a refusal of pages that are not an engine's."""

import pytest

from breakeven_bench.engine_page import EnginePage, StepCounts, read_engine_page, time_scale_on

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 2.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
"""

SIMULATED = (
    PAGE + "breakeven_sim_steps_total 1204.0\nbreakeven_sim_steps_late_total 7.0\nbreakeven_sim_steps_created 1.7e+09\n"
)


@pytest.mark.parametrize("page", ["", "<html>not found</html>", "vllm:num_requests_waiting 3.0\n"])
def test_a_page_without_the_running_requests_is_refused(page):
    with pytest.raises(ValueError, match="num_requests_running"):
        read_engine_page(page)


def test_a_real_engine_counts_no_steps_of_its_own():
    assert read_engine_page(PAGE) == EnginePage(requests=9, counts=None)


def test_a_simulated_engine_counts_its_steps_and_its_late_ones():
    assert read_engine_page(SIMULATED) == EnginePage(requests=9, counts=StepCounts(1204, 7))


def test_an_engine_that_reports_nothing_waiting_is_idle_when_nothing_runs():
    assert read_engine_page("vllm:num_requests_running 0.0\n").requests == 0


@pytest.mark.parametrize(("counts", "expected"), [(StepCounts(0, 0), 0.0), (StepCounts(200, 11), 0.055)])
def test_the_share_of_late_steps_is_of_all_steps(counts, expected):
    assert counts.late_share == expected


def test_counts_add_over_engines_and_subtract_over_time():
    assert StepCounts(10, 1) + StepCounts(5, 2) - StepCounts(4, 1) == StepCounts(11, 2)


def test_only_a_simulated_engine_has_a_time_scale():
    assert time_scale_on(PAGE) is None
    assert time_scale_on(SIMULATED + 'breakeven_sim_time_scale{engine="0"} 2.5\n') == 2.5
