"""`breakeven_policies.journal`: a line says all that was decided upon, and never more than it may."""

import json
import re
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from breakeven_policies import journal
from breakeven_policies.decision import AcceptanceSource, Prediction, Reason, Refuse, Route, Target
from breakeven_policies.journal import (
    MODEL_CHARACTERS_MAX,
    Considered,
    Encoder,
    Entry,
    Happened,
    _Backend,
    decode,
    is_sampled,
    readable,
)
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import BackendView, EngineSignals, FleetSnapshot, Health, PoolView
from breakeven_policies.threshold import Threshold
from tests.house.tree import read
from tests.policies.fleets import backend, fleet, fleets, pair, plain, request, requests
from tests.policies.test_laws import EVERY_POLICY, every_policy

NOW = datetime(2026, 11, 30, 12, 0, 0, 123_456, tzinfo=UTC)
HAPPENED = Happened(outcome="completed", pool="speculative", backend="spec-0", attempts=1, finished_s=1.5)


def entry(seen: RequestView, state: FleetSnapshot, policy: Policy = Threshold()) -> Entry:  # noqa: B008  # it is frozen
    return Entry(NOW, "id-1", Considered(seen, state, policy.decide(seen, state)), HAPPENED)


def line(seen: RequestView, state: FleetSnapshot) -> bytes:
    return Encoder().encode(entry(seen, state))


GOOD = line(request(), pair())


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\n",
        b"[1]",
        b'{"time":"x"}',
        b'{"v":"1"}',
        b'{"v":1}',
        b"[" * 100_000,
        b'{"v":1,"model":"\xff"}',
        GOOD[:-20],
        GOOD.replace(b'"reason":"temperature_within_threshold"', b'"reason":"because"'),
        GOOD.replace(b'"reason":"temperature_within_threshold",', b""),
        GOOD.replace(b'"ranking":["spec-0","base-0"]', b'"ranking":["spec-0","gone-0"]'),
    ],
)
def test_what_is_no_line_is_refused_with_one_kind_of_error(broken: bytes) -> None:
    with pytest.raises(ValueError, match="not a line of a journal"):
        decode(broken)


def test_a_line_of_another_version_says_so() -> None:
    with pytest.raises(ValueError, match="a journal line of version 2; this release reads version 1"):
        decode(GOOD.replace(b'{"v":1', b'{"v":2'))


def test_what_a_later_release_added_is_passed_over() -> None:
    assert decode(GOOD.replace(b'{"v":1,', b'{"v":1,"prediction":{"seconds":2},')) == decode(GOOD)


@pytest.mark.slow
@settings(max_examples=30)
@given(seen=requests(), state=fleets(), policy=st.sampled_from(EVERY_POLICY))
def test_a_line_that_was_read_is_written_the_same_again(
    seen: RequestView, state: FleetSnapshot, policy: Policy
) -> None:
    written = Encoder().encode(entry(seen, state, policy))
    read = decode(written)
    assert Encoder().encode(read) == written
    assert read.considered.request == seen
    assert read.considered.decision == policy.decide(seen, state)
    assert read.happened == HAPPENED


@pytest.mark.slow
@every_policy
@settings(max_examples=30)
@given(seen=requests(), state=fleets())
def test_every_policy_decides_the_same_from_a_line_as_from_the_fleet(
    policy: Policy, seen: RequestView, state: FleetSnapshot
) -> None:
    considered = decode(line(seen, state)).considered
    read = replace(considered.fleet, learned=state.learned)  # which is learned again, not written
    assert policy.decide(considered.request, read) == policy.decide(seen, state)


def test_every_member_of_what_a_policy_sees_is_thought_of() -> None:
    """Who adds one decides whether the journal carries it (in `Encoder` and `_pool`), and then names it here."""
    assert [field.name for field in fields(BackendView)] == [
        "name", "health", "in_flight", "signals", "scraped_at_s", "in_flight_at_scrape", "models", "in_flight_max",
        "suspicion", "draining",
    ]  # fmt: skip
    assert [field.name for field in fields(PoolView)] == ["name", "kind", "backends", "method", "speculative_tokens"]
    # What was learned is learned again from a journal's own outcomes: it is not written.
    assert [field.name for field in fields(FleetSnapshot)] == ["now_s", "pools", "learned", "replicas"]
    assert [field.name for field in fields(RequestView)] == [  # all of them are written: none may be a secret
        "model", "endpoint", "stream", "temperature", "temperature_defaulted", "top_p", "top_k", "min_p",
        "has_logit_bias", "prompt_bytes", "max_output_tokens", "sequences", "ticket", "sampled",
        "structured", "has_tools", "workload_name",
    ]  # fmt: skip


def test_a_backend_in_the_usual_state_takes_one_line_of_a_few_words() -> None:
    written = json.loads(line(request(), fleet(plain(backend("base-0", 2)))))
    assert written["pools"] == [
        {"name": "baseline", "kind": "plain", "backends": [{"name": "base-0", "in_flight": 2}]}
    ]  # fmt: skip


def test_figures_are_those_of_the_last_scrape_with_its_moment() -> None:
    signals = EngineSignals(running=3.0, waiting=0.0, accepted_tokens_per_position=(5.0, 2.0))
    state = fleet(plain(backend("base-0", signals=signals, scraped_at_s=99.25)))
    encoder = Encoder()
    for _ in range(2):
        (pool,) = json.loads(encoder.encode(entry(request(), state)))["pools"]
        (shown,) = pool["backends"]
        assert shown["scraped_at_s"] == 99.25
        assert shown["signals"] == {"running": 3.0, "waiting": 0.0, "accepted_tokens_per_position": [5.0, 2.0]}
    (read,) = decode(encoder.encode(entry(request(), state))).considered.fleet.pools
    assert (read.backends[0].signals, read.backends[0].scraped_at_s) == (signals, 99.25)


def test_figures_that_are_new_are_written_anew() -> None:
    encoder = Encoder()
    for running in (1.0, 2.0):
        state = fleet(plain(backend("base-0", signals=EngineSignals(running=running), scraped_at_s=99.0)))
        (pool,) = decode(encoder.encode(entry(request(), state))).considered.fleet.pools
        assert pool.backends[0].signals == EngineSignals(running=running)


def test_a_refusal_is_written_with_its_word() -> None:
    read = decode(line(request(model="nobody's"), pair()))
    assert isinstance(read.considered.decision, Refuse)
    assert json.loads(line(request(model="nobody's"), pair()))["decision"] == {
        "policy": "threshold", "refusal": "unknown_model",
    }  # fmt: skip


@pytest.mark.parametrize("model", ["\ud83d\n\x00é" + "x" * 10_000, "\x1b[2J\x7f\x9b", "\x7f" * 201, ""])
def test_any_model_name_gives_one_bounded_line_of_ascii(model: str) -> None:
    written = line(replace(request(max_output_tokens=10**4000), model=model), pair())
    assert written[:-1].decode("ascii").isprintable()
    assert written.endswith(b"\n")
    assert json.loads(written)["request"]["model"] == model[:MODEL_CHARACTERS_MAX].replace("\ud83d", "?")


@pytest.mark.parametrize("model", ["\ud83d\n\x00é", "\x7f" * 201, ""])
def test_a_line_can_be_read_whatever_the_model_is_called(model: str) -> None:
    read = decode(line(request(model=model, max_output_tokens=10**30), pair())).considered.request
    assert read.model == model[:MODEL_CHARACTERS_MAX].replace("\ud83d", "?")
    assert readable("llama") == "llama"


def test_what_was_decided_is_kept_in_the_words_of_the_policy() -> None:
    decision = decode(GOOD).considered.decision
    assert isinstance(decision, Route)
    assert decision.reason is Reason.TEMPERATURE_WITHIN


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_share_of_all_tickets_is_sampled_wherever_they_lie(share: float) -> None:
    for low in (0.0, 0.05, 0.9):
        tickets = [low + 0.05 * number / 2000 for number in range(2000)]
        assert abs(sum(is_sampled(ticket, share) for ticket in tickets) / 2000 - share) < 0.03
    assert is_sampled(0.3, share) is is_sampled(0.3, share)


def test_the_documentation_names_every_member_in_its_order() -> None:
    section = read("docs/logs.md").partition("## Journal of decisions")[2]
    first, second, third = (table.partition("\n\n")[0] for table in section.split("|---|---|")[1:])

    def named(table: str) -> list[str]:
        rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
        return [name for row in rows for name in re.findall(r"`(\w+)`", row)]

    assert named(first) == list(json.loads(GOOD))
    assert named(second) == [field.name for field in fields(_Backend)]
    assert named(third) == [field.name for field in fields(Happened)]


def test_what_did_not_change_is_written_from_memory_and_what_did_is_not() -> None:
    encoder = Encoder()
    figures = EngineSignals(running=2.0)
    idle, busy = backend("base-0", signals=figures), backend("base-0", 3, signals=figures)
    backends = [(idle, "m"), (idle, "m"), (idle, "other"), (busy, "m"), (busy, "m"), (idle, "m")]
    for pool, model in [(plain(each), model) for each, model in backends]:
        seen, state = request(model=model), fleet(pool)
        for _ in range(2):
            assert encoder.encode(entry(seen, state)) == line(seen, state)


@pytest.mark.parametrize(
    "change",
    [
        {"health": Health.LOADING},
        {"in_flight": 3},
        {"signals": EngineSignals(running=5.0)},
        {"scraped_at_s": 8.0},
        {"in_flight_at_scrape": 7},
        {"models": frozenset({"other"})},
        {"in_flight_max": 9},
        {"draining": True},
    ],
)
def test_what_changes_of_a_backend_is_in_the_next_line(change: dict[str, object]) -> None:
    before = backend("base-0", 2)
    after = replace(before, **change)
    encoder = Encoder()
    encoder.encode(entry(request(), fleet(plain(before))))
    changed = encoder.encode(entry(request(), fleet(plain(after))))
    assert changed == line(request(), fleet(plain(after)))
    assert changed != line(request(), fleet(plain(before)))


def test_replicas_and_what_a_policy_predicted_come_back() -> None:
    choice = Target("speculative", "spec-0")
    predicted = Prediction(3, 0.01, 2.5, AcceptanceSource.TABLE, 1.0, 0.5, 1.5, Target("baseline", "base-0"), 2.0)
    fleet_of_two = replace(pair(), replicas=2.0)
    encoder = Encoder()
    for prediction in (None, predicted, None):
        considered = Considered(request(), fleet_of_two, Route((choice,), Reason.PINNED, "p", prediction))
        read_back = decode(encoder.encode(Entry(NOW, "id-1", considered, HAPPENED))).considered
        assert (read_back.decision, read_back.fleet.replicas) == (considered.decision, 2.0)


def test_routes_that_never_come_again_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "ROUTES_MAX", 2)
    encoder = Encoder()
    for number in range(5):
        route = Route((Target("baseline", "base-0"),), Reason.PINNED, f"p{number}")
        assert (
            decode(encoder.encode(Entry(NOW, "id", Considered(request(), pair(), route), HAPPENED))).considered.decision
            == route
        )
    assert len(encoder._routes) <= 2
