"""The record of a request: nothing has happened until it is said to have."""

import re

import pytest
from msgspec.structs import fields

from breakeven.record import ENDED_BY, Outcome, RequestRecord, judged


def test_what_has_not_happened_is_unknown_rather_than_zero() -> None:
    record = RequestRecord("id", "chat.completions", 12.5)
    unknown = {field.name for field in fields(record) if getattr(record, field.name) is None}
    assert {"pool", "outcome", "status", "decided_s", "first_token_s", "finished_s", "completion_tokens"} <= unknown
    assert (record.received_s, record.attempts, record.bytes_out) == (12.5, 0, 0)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_fit_for_a_label(outcome: Outcome) -> None:
    assert re.fullmatch(r"[a-z_]+", outcome)


def test_every_outcome_says_who_brought_it_about() -> None:
    assert set(ENDED_BY) == set(Outcome)


@pytest.mark.parametrize(
    ("status", "failed_inside", "outcome"),
    [
        (200, True, Outcome.UPSTREAM_ERROR),
        (500, False, Outcome.UPSTREAM_ERROR),
        (499, False, Outcome.REJECTED_BY_ENGINE),
        (400, False, Outcome.REJECTED_BY_ENGINE),
        (399, False, Outcome.COMPLETED),
        (None, False, Outcome.COMPLETED),
    ],
)
def test_a_complete_answer_is_judged_by_its_status_and_by_what_is_inside(
    status: int | None, failed_inside: bool, outcome: Outcome
) -> None:
    assert judged(status, failed_inside=failed_inside) is outcome
