"""Which requests are of one class."""

from breakeven_policies.workload import workload_of
from tests.policies.fleets import request


def test_a_high_temperature_with_one_candidate_is_greedy() -> None:
    assert workload_of(request(1.5, top_k=1)) == workload_of(request(0.0))
