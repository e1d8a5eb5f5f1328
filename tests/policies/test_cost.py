"""The cost of one request on one backend."""

from breakeven_policies.cost import Job, terms
from breakeven_policies.curve import FLAT, profile_of


def test_a_flat_curve_harms_nobody() -> None:
    found = terms(profile_of(FLAT, FLAT, None, 0.001), 2.0, Job(100.0, 10.0, 10.0), 3.0, 0.0)
    assert (found.decode_s, found.decode_harm_s, found.prefill_s) == (5.0, 0.0, 0.1)
