"""`breakeven.log_line`: what a line of the access log says, and that docs/logs.md says the same."""

import json
import re
from datetime import UTC, datetime

import msgspec
import pytest
from msgspec.structs import fields

from breakeven.log_line import LogLine, log_line
from breakeven.record import Outcome, Party, RequestRecord
from breakeven.trace_context import TraceParent
from breakeven_policies.journal import MODEL_CHARACTERS_MAX
from tests.house.tree import read

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)


def record(request_id: str = "id-1", **changes: object) -> RequestRecord:
    made = RequestRecord(request_id, "chat.completions", received_s=100.0)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_refused_request_says_so_and_leaves_what_never_happened_unknown() -> None:
    line = json.loads(
        log_line(NOW, record(outcome=Outcome.REFUSED, status=503, reason="no_backend", finished_s=100.25))
    )
    assert line["time"] == "2026-11-30T12:00:00.123456Z"
    assert (line["outcome"], line["status"], line["reason"], line["pool"]) == ("refused", 503, "no_backend", None)
    assert (line["finished_s"], line["sent_s"], line["first_token_s"]) == (0.25, None, None)


def test_durations_count_from_the_complete_request() -> None:
    finished = record(decided_s=100.0000123, sent_s=100.001, first_byte_s=100.5, first_token_s=100.75, finished_s=103.0)
    line = json.loads(log_line(NOW, finished))
    names = ("decided_s", "sent_s", "first_byte_s", "first_token_s", "finished_s")
    assert [line[name] for name in names] == [1.2e-05, 0.001, 0.5, 0.75, 3.0]


def test_any_model_name_gives_one_bounded_line_of_ascii() -> None:
    for model in ("\ud83d\n\x00é" + "x" * 10_000, "\x1b[2J\x7f\x9b" + "x" * 10_000, "\x7f" * 201):
        line = log_line(NOW, record(model=model, temperature=1e300))
        assert line[:-1].decode("ascii").isprintable()
        assert line.endswith(b"\n")
        assert json.loads(line)["model"] == model[:MODEL_CHARACTERS_MAX].replace("\ud83d", "?")
        assert msgspec.json.decode(line)["model"] == json.loads(line)["model"]  # a reader that is stricter


def test_every_field_of_a_line_has_the_value_of_its_name() -> None:
    finished = record(
        method="PUT", model="m", stream=True, temperature=0.5, pool="p", backend="b", reason="r", policy="y",
        outcome=Outcome.COMPLETED, status=200, attempts=2, bytes_in=3, bytes_out=4, prompt_tokens=5,
        completion_tokens=6, client_key="k", waited_s=0.25, decided_s=101.0, sent_s=102.0, first_byte_s=103.0,
        first_token_s=104.0,
        finished_s=105.0,
        trace=TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", sampled=False),
    )  # fmt: skip
    assert list(json.loads(log_line(NOW, finished)).items()) == [
        ("time", "2026-11-30T12:00:00.123456Z"), ("request_id", "id-1"), ("method", "PUT"),
        ("endpoint", "chat.completions"), ("model", "m"), ("stream", True), ("temperature", 0.5), ("pool", "p"),
        ("backend", "b"), ("reason", "r"), ("policy", "y"), ("outcome", "completed"),
        ("ended_by", "engine"), ("status", 200), ("attempts", 2),
        ("bytes_in", 3), ("bytes_out", 4), ("prompt_tokens", 5), ("completion_tokens", 6), ("decided_s", 1.0),
        ("waited_s", 0.25), ("sent_s", 2.0), ("first_byte_s", 3.0), ("first_token_s", 4.0), ("finished_s", 5.0),
        ("client_key", "k"), ("trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"),
    ]  # fmt: skip


def test_a_method_that_was_never_read_is_unknown() -> None:
    assert json.loads(log_line(NOW, record(method="")))["method"] is None


@pytest.mark.parametrize(
    ("outcome", "party"),
    [
        (Outcome.CLIENT_CLOSED, Party.CLIENT),
        (Outcome.UPSTREAM_ERROR, Party.ENGINE),
        (Outcome.UPSTREAM_TIMEOUT, Party.ROUTER),
        (Outcome.CUT_BY_DRAIN, Party.ROUTER),
    ],
)
def test_a_line_says_who_ended_the_request(outcome: Outcome, party: Party) -> None:
    assert json.loads(log_line(NOW, record(outcome=outcome)))["ended_by"] == party


def test_a_request_that_has_not_ended_was_ended_by_nobody() -> None:
    assert json.loads(log_line(NOW, record()))["ended_by"] is None


def test_the_table_in_the_documentation_names_every_field_in_its_order() -> None:
    section = read("docs/logs.md").partition("## Access log")[2].partition("## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row)] == [field.name for field in fields(LogLine)]


def test_the_documentation_names_every_outcome() -> None:
    assert set(Outcome) <= set(re.findall(r"`(\w+)`", read("docs/logs.md")))
