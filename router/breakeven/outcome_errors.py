"""What the router itself says to a client whose request ended badly, by how it ended."""

from collections.abc import Mapping

from breakeven.errors import ApiError, no_backend, shutting_down, total_timeout, upstream_error, upstream_timeout
from breakeven.record import Outcome

ERRORS: Mapping[Outcome, ApiError] = {
    Outcome.REFUSED: no_backend("No engine that can serve this request is reachable."),
    Outcome.UPSTREAM_ERROR: upstream_error(),
    Outcome.UPSTREAM_TIMEOUT: upstream_timeout("The engine was silent for too long."),
    Outcome.TOTAL_TIMEOUT: total_timeout(),
    Outcome.CUT_BY_DRAIN: shutting_down(),
}
"""What the router says itself where a request ends so."""
