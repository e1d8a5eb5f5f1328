"""`breakeven_bench.replay.relearn`: what a journal teaches, and nothing before it was known."""

import pytest
from msgspec.structs import replace

from breakeven_bench.replay import relearn
from breakeven_bench.replay.order import ended_s
from breakeven_bench.replay.relearn import Relearned, observation, table_prior
from breakeven_policies.learned import ENOUGH
from breakeven_policies.measured import parse_table
from breakeven_policies.snapshot import EngineSignals, FleetSnapshot
from tests.bench.replay.journals import entry
from tests.house.tree import read
from tests.policies.fleets import backend, fleet, pair, plain, request, speculative

TABLE = parse_table(read("policies/breakeven_policies/tables/user-prior-eagle3-k5.json").encode())
ANSWERED = {"completion_tokens": 101, "token_s": 0.02, "first_token_s": 0.3, "prompt_tokens": 50}


@pytest.mark.parametrize("changes", [{"outcome": "cut"}, {"outcome": None}, {"attempts": 2}, {"pool": None}])
def test_a_request_that_was_not_served_at_once_and_to_its_end_teaches_nothing(changes: dict[str, object]) -> None:
    assert observation(entry(**{**ANSWERED, **changes})) is None
    assert observation(entry(request(sampled=False), **ANSWERED)) is None


def test_a_served_request_teaches_its_times_and_lengths_and_what_is_unknown_is_none() -> None:
    state = fleet(plain(backend("base-0")), speculative(backend("spec-0", 3)))
    seen = observation(entry(request(0.7, sequences=2), state, at_s=5, took_s=3, **ANSWERED))
    assert seen is not None
    assert (seen.pool, seen.workload, seen.batch) == ("speculative", "t2/short/free", 5)
    assert (seen.decode_s, seen.ttft_s, seen.completion_tokens, seen.prompt_tokens) == (2.0, 0.3, 101, 50)
    bare = observation(entry(backend="gone"))
    assert bare is not None
    assert (bare.batch, bare.decode_s, bare.ttft_s, bare.completion_tokens) == (None, None, None, None)


def teach(relearned: Relearned, requests: int) -> None:
    for number in range(requests):
        for temperature in (0.7, 1.5):
            relearned.note(entry(request(temperature), at_s=number, took_s=0.5, **ANSWERED))


def test_nothing_is_known_before_it_has_happened() -> None:
    relearned = Relearned()
    teach(relearned, 100)
    assert relearned.at(entry(at_s=0.0, took_s=1.0)).pools == {}
    known = relearned.at(entry(at_s=201.0, took_s=100.0)).pools
    assert known["baseline"].observations > ENOUGH


def test_what_was_learned_is_as_old_as_it_was_on_the_clock_of_the_fleet() -> None:
    relearned = Relearned()
    teach(relearned, 100)
    late = entry(at_s=160.0, took_s=1.0)
    assert late.considered.fleet.now_s - relearned.at(late).now_s == pytest.approx(159.0 - 99.0)


def test_outcomes_that_are_noted_out_of_their_order_are_learned_in_it() -> None:
    relearned = Relearned()
    ends = [3.0, 1.0, 2.0]
    for at_s in ends:
        relearned.note(entry(at_s=at_s, took_s=0.5, **ANSWERED))
    first = ended_s(entry(at_s=0.0))
    assert [at_s - first for at_s, *_ in relearned._pending] == [1.0, 2.0, 3.0]


def test_outcomes_that_are_not_due_yet_are_bounded_and_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relearn, "PENDING_MAX", 2)
    relearned = Relearned()
    for at_s in (1.0, 2.0, 3.0, 2.5):
        relearned.note(entry(at_s=at_s, took_s=0.5, **ANSWERED))
    relearned.note(entry(outcome="cut"))
    assert [at_s - ended_s(entry(at_s=0.0)) for at_s, *_ in relearned._pending] == [2.0, 3.0]


def scraped(running: float, steps: float, at_s: float) -> FleetSnapshot:
    signals = EngineSignals(running=running, engine_steps=steps, generation_tokens=steps)
    one = backend("base-0", signals=signals, scraped_at_s=at_s)
    return fleet(plain(one), speculative(backend("spec-0")))


def test_scrapes_teach_step_times_until_an_engine_begins_anew() -> None:
    relearned = Relearned()
    for number in range(60):
        relearned.at(entry(state=scraped(4.0, number * 50.0, number), at_s=number))
        relearned.at(entry(state=scraped(4.0, number * 50.0, number), at_s=number))
    profile = relearned.at(entry(state=scraped(4.0, 0.0, 60.0), at_s=60)).pools["baseline"]
    assert profile.step_s[4] == pytest.approx(0.02, rel=0.05)
    again = relearned.at(entry(state=scraped(4.0, 1.0, 61.0), at_s=61)).pools["baseline"]
    assert again.step_s[4] == pytest.approx(0.02, rel=0.05)


def drafting(steps: float, at_s: float, in_flight: int = 4) -> FleetSnapshot:
    signals = EngineSignals(running=4.0, engine_steps=steps, drafts=steps, accepted_tokens=steps)
    scraped_then = {"signals": signals, "scraped_at_s": at_s, "in_flight_at_scrape": in_flight}
    return fleet(plain(backend("base-0")), speculative(backend("spec-0", in_flight, **scraped_then)))


def test_how_many_steps_a_drafting_engine_made_for_a_stream_is_what_its_counter_tells_for_that_time() -> None:
    """50 steps a second and 100 tokens: two tokens a step."""
    relearned = Relearned()
    for number in range(60):
        state = drafting(number * 50.0, float(number))
        relearned.note(entry(state=state, at_s=number, took_s=0.5, **{**ANSWERED, "token_s": 0.01}))
        profile = relearned.at(entry(state=state, at_s=number + 0.6, took_s=0.5)).pools.get("speculative")
    assert profile is not None
    assert profile.known
    assert profile.step_s[5] == pytest.approx(0.02, rel=0.05)
    assert profile.acceptance["t2/short/free"].length == pytest.approx(2.0, rel=0.05)


def test_few_steps_between_two_scrapes_tell_no_time_and_an_engine_that_began_anew_none_of_before() -> None:
    relearned = Relearned()
    for steps, expected in ((0.0, {}), (4.0, {}), (54.0, {"spec-0": 0.02}), (10.0, {})):
        relearned.at(entry(state=drafting(steps, steps / 50 if steps != 10.0 else 3.0), at_s=steps + 1))
        assert relearned._step_s == pytest.approx(expected)


def test_an_idle_engine_tells_no_time_of_a_step() -> None:
    relearned = Relearned()
    for steps in (0.0, 50.0):
        state = drafting(steps, steps)
        idle = replace(state.pools[1].backends[0], signals=EngineSignals(running=0.0, engine_steps=steps))
        relearned.at(entry(state=replace(state, pools=(replace(state.pools[1], backends=(idle,)),)), at_s=steps))
    assert relearned._step_s == {}


def test_who_else_was_there_is_counted_at_the_beginning_and_at_the_end() -> None:
    relearned = Relearned()
    seen = observation(entry(state=drafting(0.0, 0.0), **ANSWERED))
    assert seen is not None
    at_the_end = drafting(0.0, 0.0, in_flight=10)
    assert relearned._completed(seen, "spec-0", at_the_end).batch == (5 + 11) / 2
    assert relearned._completed(seen, "gone", at_the_end).batch == 5
    assert relearned._completed(seen, None, at_the_end).events is None


def test_pools_that_come_later_or_become_others_are_learned_anew() -> None:
    relearned = Relearned()
    teach(relearned, 100)
    assert "baseline" in relearned.at(entry(at_s=200.0)).pools
    other = replace(pair(), pools=(replace(pair().pools[0], speculative_tokens=3), pair().pools[1]))
    assert "baseline" not in relearned.at(entry(state=other, at_s=201.0)).pools


def test_a_table_speaks_of_pools_of_its_kind_and_length_of_drafts() -> None:
    (plain_pool, drafting), tables = pair().pools, (TABLE,)
    known = {setup.method for setup in TABLE.setups}
    assert "eagle3" in known
    assert table_prior((), drafting) is None
    assert table_prior(tables, replace(drafting, speculative_tokens=4)) is None
    assert table_prior(tables, replace(drafting, method="ngram")) is None
    assert table_prior(tables, drafting) == table_prior(tables, replace(drafting, method="unknown"))
    assert table_prior(tables, plain_pool) == table_prior((TABLE, TABLE), plain_pool)
