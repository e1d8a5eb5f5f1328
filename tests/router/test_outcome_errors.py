"""Whoever's fault it was, the client hears whether to come again."""

from breakeven.outcome_errors import ERRORS
from breakeven.record import Outcome


def test_every_end_that_the_router_has_to_tell_of_has_its_own_status() -> None:
    assert {outcome: error.status for outcome, error in ERRORS.items()} == {
        Outcome.REFUSED: 503,
        Outcome.UPSTREAM_ERROR: 502,
        Outcome.UPSTREAM_TIMEOUT: 504,
        Outcome.TOTAL_TIMEOUT: 504,
        Outcome.CUT_BY_DRAIN: 503,
    }
