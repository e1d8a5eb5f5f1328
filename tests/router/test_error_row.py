"""Errors in a row: when the engine is to blame for them rather than the requests."""

import pytest

from breakeven.error_row import EDGE_BYTES, SPAN_S, ErrorRow, fingerprint


def row(*errors: tuple[int, float]) -> ErrorRow:
    """Errors of requests by number, at seconds."""
    made = ErrorRow(errors[0][1])
    for request, now_s in errors:
        made.add(request, now_s)
    return made


@pytest.mark.parametrize(
    ("errors", "blamed"),
    [
        ([(1, 0.0), (2, 1.0), (3, 2.0), (4, SPAN_S)], True),
        ([(1, 0.0), (2, 1.0), (3, SPAN_S)], False),
        ([(1, 0.0), (1, 1.0), (2, 2.0), (2, SPAN_S)], False),
        ([(1, 0.0), (2, 0.1), (3, 0.2), (4, 0.3)], False),
    ],
    ids=["enough", "too few", "hardly different ones", "all at once"],
)
def test_an_engine_is_blamed_for_many_errors_of_different_requests_over_a_while(
    errors: list[tuple[int, float]], blamed: bool
) -> None:
    assert row(*errors).blames(4) is blamed


def test_a_limit_below_three_needs_no_more_requests_than_it_counts() -> None:
    assert row((1, 0.0), (2, SPAN_S)).blames(2)
    assert row((1, 0.0), (1, SPAN_S)).blames(1)


def test_bodies_are_told_apart_by_their_ends_and_their_length() -> None:
    middle = b"x" * (3 * EDGE_BYTES)
    bodies = [b"", b"a", b"b" + middle, b"c" + middle, middle + b"c", middle, middle + b"x"]
    assert len({fingerprint(body) for body in bodies}) == len(bodies)
    assert fingerprint(b"same") == fingerprint(b"same")
