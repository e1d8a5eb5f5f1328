"""Engines die, freeze, restart and slow down at random under mixed load: `make chaos` for minutes, here for seconds.

The judge is judged too: each of its rules finds what it is there to find.
"""

import pytest

from tests.system.chaos.fates import Fate, Wish, digest, read_answer
from tests.system.chaos.plan import Harm, Outage, blows
from tests.system.chaos.run import LIMITS, grown, run
from tests.system.chaos.verdict import DIED, NOBODY, SILENT, SUSPECT, TIMED_OUT, Evidence, judge, read_journals

ENGINES = ("baseline-0", "baseline-1", "speculative-0", "speculative-1")
SEED = 41
SECONDS = 11.5
REST_S = (0.2, 2.0)
"""Less than in a long run, so that every harm comes in seconds."""


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_whatever_happens_to_engines_every_request_has_one_outcome_and_every_failure_a_reason(tmp_path):
    told = []
    verdict = await run(SECONDS, SEED, tmp_path, told.append, rest_s=REST_S)
    assert verdict.faults == [], "\n".join(told)
    assert verdict.outcomes["served"] > 60
    assert {blow.harm for blow in blows(SEED, ENGINES, SECONDS, REST_S)} == set(Harm)


def test_a_seed_makes_the_same_plan_again_and_every_harm_comes_to_every_engine():
    plan = blows(3, ENGINES, 120)
    assert plan == blows(3, ENGINES, 120) != blows(4, ENGINES, 120)
    assert {(blow.engine, blow.harm) for blow in plan} == {(engine, harm) for engine in ENGINES for harm in Harm}


# -- the judge


def wish(**other):
    usual = {"token": "t", "kind": "short stream", "temperature": 0.7, "only_plain": False, "events": 3}
    rest = {"gap_ms": 10, "filler_bytes": 4, "prompt_bytes": 60, "leaves_after": -1}
    return Wish(**{**usual, **rest, **other})


def fate(*numbers, says="t", engine="speculative-0", wished=None, **other):
    """A stream that was served, unless `other` says something else."""
    wished = wished or wish()
    usual = {"sent_s": 10.0, "ended_s": 12.0, "status": 200, "backend": "speculative-0", "whole": True, "done": True}
    events = [(says, engine, 7, number) for number in numbers]
    return Fate(wished, digest(wished.body()), events=events, **{**usual, **other})


def journal(said=3, *, ended=True, engine="speculative-0", body=None):
    lines = [f"asked t 7 {body or digest(wish().body())}", *(f"said t 7 {number}" for number in range(said))]
    return {engine: "\n".join([*lines, *(["ended t 7"] if ended else [])])}


def verdict_of(one, pages, *outages, outcome="completed", attempts=1, lines=1, took_s=60.0):
    line = {"outcome": outcome, "attempts": attempts, "backend": one.backend or "speculative-0", "finished_s": took_s}
    logged = {"t": [line] * lines}
    plain = frozenset(engine for engine in ENGINES if engine.startswith("baseline"))
    return judge(Evidence([one], read_journals(pages), list(outages), logged, plain, frozenset(ENGINES)), LIMITS)


BROKEN = {"done": False, "error": "upstream_error"}
REFUSED = {"status": 503, "done": False, "error": "no_backend", "backend": None}
KILLED = Outage("speculative-0", Harm.KILL, 11.9, 13.0)


def test_a_stream_that_came_whole_is_no_fault():
    assert verdict_of(fate(0, 1, 2), journal()).faults == []


@pytest.mark.parametrize(
    ("one", "pages", "what"),
    [
        (fate(0, 1, 2, says="u"), journal(), "got the answer of"),
        (fate(0, 2, 1), journal(), "events out of order"),
        (fate(0, 1, 1, 2), journal(4), "events out of order"),
        (fate(0, 1), journal(), "whole after 2 events of 3 said"),
        (fate(0, 1, 2), journal(2), "3 events came, 2 were said"),
        (fate(0, 1, 2), journal(ended=False), "whole after 3 events"),
        (fate(0, 1, 2, backend="baseline-0"), journal(), "the header names baseline-0"),
        (fate(0, 1, 2), journal(body="other"), "another body"),
        (fate(0, 1, 2), journal() | journal(0, engine="baseline-0"), "had not died"),
        (fate(0, 1, 2, engine="baseline-0", backend="baseline-0"), journal(0) | journal(engine="baseline-0"), None),
        (fate(0, 1, 2), {"speculative-0": "\n".join([*journal().values(), *journal(0).values()])}, "more than once"),
        (fate(lost="TimeoutError", done=False), journal(), "no proper end"),
        (fate(**BROKEN), journal(3, ended=False), "3 events were said and 0 came"),
    ],
)  # fmt: skip
def test_what_is_mixed_up_lost_or_doubled_is_found(one, pages, what):
    faults = verdict_of(one, pages, KILLED, outcome="completed" if one.done else "upstream_error").faults
    assert [fault for fault in faults if what in fault] if what else faults == []


@pytest.mark.parametrize(("outcome", "lines"), [("completed", 0), ("completed", 2), ("upstream_error", 1)])
def test_an_outcome_that_is_missing_double_or_wrong_is_found(outcome, lines):
    assert verdict_of(fate(0, 1, 2), journal(), outcome=outcome, lines=lines).faults != []


def test_a_broken_stream_is_explained_by_the_death_of_its_own_engine_only():
    pages = journal(1, ended=False)
    assert verdict_of(fate(0, **BROKEN), pages, KILLED, outcome="upstream_error").explained == {DIED: 1}
    other = Outage("speculative-1", Harm.KILL, 11.9, 13.0)
    for outages in ((), (other,), (Outage("speculative-0", Harm.SLOW, 11.9, 13.0),)):
        assert "without a reason" in verdict_of(fate(0, **BROKEN), pages, *outages, outcome="upstream_error").faults[0]


def test_what_a_slow_reader_hears_late_is_explained_by_the_moment_of_its_end():
    one = fate(0, **BROKEN, wished=wish(kind="slow reader"), ended_s=30.0)
    pages = journal(3, ended=False)
    assert verdict_of(one, pages, KILLED, outcome="upstream_error", took_s=2.0).explained == {DIED: 1}
    assert verdict_of(one, pages, KILLED, outcome="upstream_error", took_s=9.0).faults != []


def test_a_silent_stream_is_explained_by_a_freeze_that_lasts():
    one = fate(0, done=False, error="upstream_timeout", ended_s=14.0)
    pages = journal(1, ended=False)
    frozen = Outage("speculative-0", Harm.FREEZE, 10.5, 17.0)
    assert verdict_of(one, pages, frozen, outcome="upstream_timeout").explained == {SILENT: 1}
    hiccup = Outage("speculative-0", Harm.HICCUP, 13.0, 13.5)
    assert verdict_of(one, pages, hiccup, outcome="upstream_timeout").faults != []


def test_a_time_out_is_explained_as_long_as_the_router_could_not_know():
    def one(sent_s):
        late = sent_s + LIMITS.first_byte_s
        return fate(status=504, done=False, error="upstream_timeout", sent_s=sent_s, ended_s=late)

    frozen = Outage("speculative-0", Harm.FREEZE, 10.0, 30.0)
    within, beyond = 10.0 + LIMITS.taken_out_s - 0.1, 10.0 + LIMITS.taken_out_s + 0.1
    assert verdict_of(one(within), {}, frozen, outcome="upstream_timeout").explained == {TIMED_OUT: 1}
    assert verdict_of(one(beyond), {}, frozen, outcome="upstream_timeout").faults != []


def test_a_refusal_is_explained_only_where_everybody_eligible_was_out_at_the_same_moment():
    all_out = [Outage(engine, Harm.KILL, 9.0, 11.0) for engine in ENGINES]
    assert verdict_of(fate(**REFUSED), {}, *all_out, outcome="refused").explained == {NOBODY: 1}
    assert verdict_of(fate(**REFUSED), {}, *all_out[1:], outcome="refused").faults != []
    plain = fate(wished=wish(only_plain=True), **REFUSED)
    assert verdict_of(plain, {}, *all_out[:2], outcome="refused").explained == {NOBODY: 1}
    one_after_the_other = [
        Outage(engine, Harm.KILL, at_s, at_s + 0.1) for engine, at_s in zip(ENGINES, (0, 4, 8, 11.5), strict=True)
    ]
    assert verdict_of(fate(**REFUSED), {}, *one_after_the_other, outcome="refused").faults != []


def test_three_attempts_are_all_that_a_request_gets():
    three_out = [Outage(engine, Harm.KILL, 9.0, 11.0) for engine in ENGINES[1:]]
    assert verdict_of(fate(**REFUSED), {}, *three_out, outcome="refused", attempts=3).explained == {NOBODY: 1}


def test_a_request_with_which_two_engines_died_is_given_up():
    lost = fate(status=502, done=False, error="upstream_error", backend=None)
    died = [Outage(engine, Harm.KILL, at_s, 20.0) for engine, at_s in zip(ENGINES, (10.5, 11.5), strict=False)]
    assert verdict_of(lost, {}, *died, outcome="upstream_error", attempts=2).explained == {SUSPECT: 1}
    assert verdict_of(lost, {}, *died[1:], outcome="upstream_error", attempts=2).faults != []


def test_a_piece_of_an_event_is_no_end_of_a_stream():
    one = fate()
    read_answer(one, b'data: {"choices":[{"delta":{"content":"t e 7 0 "},"finish_reason":null}]}\n\ndata: {"cho')
    assert one.events == [("t", "e", 7, 0)]
    assert "a piece of an event" in one.lost


def test_memory_that_grows_is_measured_between_the_first_and_the_last_third_of_the_warm_part():
    assert grown([(float(at), 0) for at in range(100)])[0] == pytest.approx(50)
    assert grown([(50.0, 0)] * 20)[0] == 0
