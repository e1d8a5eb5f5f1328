"""The record of a request: nothing has happened until it is said to have."""

import re

import pytest
from msgspec.structs import fields

from breakeven.record import ENDED_BY, Outcome, RequestRecord


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
