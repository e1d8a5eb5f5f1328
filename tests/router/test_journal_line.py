"""`breakeven.journal_line`: what came of a decision, from the record of its request."""

import json
from datetime import UTC, datetime

import pytest
from msgspec.structs import fields

from breakeven.journal_line import is_wanted, journal_lines
from breakeven.record import Outcome, RequestRecord
from breakeven_policies.journal import Considered, Happened, decode, is_sampled
from breakeven_policies.threshold import Threshold
from tests.policies.fleets import pair, request

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


def record(ticket: float = 0.5, **changes: object) -> RequestRecord:
    made = RequestRecord("id-1", "chat.completions", received_s=100.0)
    seen = request(ticket=ticket)
    made.considered = Considered(seen, pair(), Threshold().decide(seen, pair()))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def happened(finished: RequestRecord) -> Happened:
    return decode(journal_lines()(NOW, finished)).happened


def test_what_was_never_decided_has_no_line() -> None:
    undecided = RequestRecord("id-1", "none", received_s=100.0)
    assert journal_lines()(NOW, undecided) == b""
    assert not is_wanted(1.0)(undecided)


def test_what_never_happened_is_left_out() -> None:
    written = json.loads(journal_lines()(NOW, record(outcome=Outcome.REFUSED, status=503, finished_s=100.25)))
    assert written["happened"] == {"outcome": "refused", "status": 503, "finished_s": 0.25}


def test_every_member_of_what_happened_comes_from_the_record() -> None:
    finished = record(
        outcome=Outcome.COMPLETED, pool="p", backend="b", reason="r", status=200, attempts=2, prompt_tokens=5,
        completion_tokens=5, bytes_out=7, decided_s=101.0, waited_s=0.75, sent_s=102.0, first_byte_s=103.0,
        first_token_s=104.0,
        finished_s=106.0,
    )  # fmt: skip
    assert happened(finished) == Happened(
        "completed", "p", "b", "r", 200, 2, 5, 5, 7, 1.0, 0.75, 2.0, 3.0, 4.0, 0.5, 6.0
    )
    assert all(getattr(happened(finished), field.name) for field in fields(Happened))


@pytest.mark.parametrize("missing", [{"completion_tokens": 1}, {"first_token_s": None}, {"finished_s": None}])
def test_the_time_per_token_is_unknown_where_there_is_no_second_token_or_no_time(missing: dict[str, object]) -> None:
    known = {"completion_tokens": 5, "first_token_s": 104.0, "finished_s": 106.0}
    assert happened(record(**known)).token_s == 0.5
    assert happened(record(**(known | missing))).token_s is None


def test_a_line_joins_the_access_log_by_its_id_and_time() -> None:
    entry = decode(journal_lines()(NOW, record()))
    assert (entry.request_id, entry.time) == ("id-1", NOW)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_share_is_picked_by_the_ticket(share: float) -> None:
    tickets = [number / 100 for number in range(100)]
    assert [is_wanted(share)(record(ticket)) for ticket in tickets] == [is_sampled(each, share) for each in tickets]
