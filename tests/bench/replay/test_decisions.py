"""`breakeven_bench.replay.decisions`: every line is decided again, and who wrote it agrees with himself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven_bench.replay.decisions import WRITERS_MAX, WRITTEN, Contestant, Replay, Writers
from breakeven_policies.agreement import Agreement
from breakeven_policies.breakeven import Breakeven
from breakeven_policies.decision import Decision, Reason
from breakeven_policies.least_loaded import LeastLoaded
from breakeven_policies.pinned import Pinned
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot
from breakeven_policies.threshold import Threshold
from tests.bench.replay.journals import entry, written
from tests.policies.fleets import fleets, request, requests
from tests.policies.test_laws import EVERY_POLICY

REPEATABLE = [policy for policy in EVERY_POLICY if not getattr(policy, "learns", False)]
"""What the others learned is not in the journal, only what they learned it from."""


class Broken:
    name = "broken"

    def decide(self, asked: RequestView, fleet: FleetSnapshot) -> Decision:
        raise KeyError(asked.model)


def replayed(lines: list[bytes], *policies: Policy | Writers) -> Replay:
    replay = Replay(tuple(map(Contestant, policies)))
    assert list(replay.run(lines)) == list(range(1, replay.entries + 1))
    return replay


def test_lines_that_cannot_be_read_are_passed_over_and_the_first_is_kept() -> None:
    good, *_ = written([entry()])
    replay = replayed([b"{}", good, good[:-30], good.replace(b'{"v":1', b'{"v":7')], Threshold())
    assert (replay.entries, replay.unreadable) == (1, 3)
    assert replay.first_error.startswith("line 1: not a line of a journal")


def test_a_policy_that_fails_is_counted_and_the_others_go_on() -> None:
    replay = replayed(written([entry(), entry()]), Broken(), LeastLoaded())
    broken, least = (contestant.tally for contestant in replay.contestants)
    assert (broken.failed, broken.first_failure, broken.total.requests) == (2, "KeyError: 'm'", 0)
    assert least.total.requests == 2


@pytest.mark.slow
@settings(max_examples=40)
@given(
    cases=st.lists(st.tuples(requests(), fleets(), st.sampled_from(REPEATABLE)), min_size=1, max_size=5),
    as_written=st.booleans(),
)
def test_under_the_policy_that_wrote_it_every_line_is_decided_the_same(
    cases: list[tuple[RequestView, FleetSnapshot, Policy]], as_written: bool
) -> None:
    """In any order of policies: by name for each line, and by one policy for all lines that are its own."""
    policy = cases[0][2]
    entries = [entry(seen, state, each if as_written else policy) for seen, state, each in cases]
    replay = replayed(written(entries), Writers(1.0) if as_written else policy)
    ((contestant,),) = [replay.contestants]
    assert contestant.tally.results == {Agreement.SAME: len(cases)}
    assert contestant.tally.failed == 0


def test_a_journal_of_a_policy_that_is_not_here_says_so_and_agrees_with_nobody() -> None:
    own = [
        line.replace(b'"policy":"least_loaded"', b'"policy":"my_own"')
        for line in written([entry(policy=LeastLoaded())])
    ]
    replay = replayed(own, Writers(1.0))
    (contestant,) = replay.contestants
    assert (contestant.name, contestant.tally.failed) == (WRITTEN, 1)
    assert "unknown policy 'my_own'" in contestant.tally.first_failure


def test_policies_that_a_journal_names_are_bounded() -> None:
    writers = Writers(1.0)
    for number in range(WRITERS_MAX):
        writers.of(entry(policy=Threshold(name=f"threshold:{number / 100:g}")))
    with pytest.raises(ValueError, match="names more than"):
        writers.of(entry(policy=Threshold(name="threshold:1.9")))
    assert writers.of(entry(policy=Threshold(name="threshold:0.5"))).temperature_max == 0.5


def test_a_threshold_without_an_argument_is_the_one_that_is_given() -> None:
    lines = written([entry(request(0.9), policy=Threshold(0.8)) for _ in range(3)])
    for threshold, result in ((0.8, Agreement.SAME), (1.0, Agreement.OTHER_POOL)):
        (contestant,) = replayed(lines, Writers(threshold)).contestants
        assert contestant.tally.results == {result: 3}


@pytest.mark.slow
def test_a_policy_that_learns_decides_by_what_had_happened_by_then() -> None:
    """Twice the same journal of a slow plain and a fast drafting pool, whoever is asked beside it."""
    happened = {"completion_tokens": 101, "first_token_s": 0.1, "prompt_tokens": 50}
    entries = []
    for number in range(300):
        temperature = 1.5 if number % 2 else 0.2
        token_s = 0.03 if temperature > 1.0 else 0.01
        entries.append(entry(request(temperature, ticket=0.99), at_s=float(number), token_s=token_s, **happened))
    replay = replayed(written(entries), Breakeven(), Pinned("baseline"))
    learning, pinned = (contestant.tally for contestant in replay.contestants)
    assert replay.learned
    assert learning.reasons[Reason.UNMEASURED] > 30
    assert learning.total.requests == 300
    assert pinned.ways == {("speculative", "baseline"): 150}
    alone = replayed(written(entries), Breakeven()).contestants[0].tally
    assert alone == learning


def test_the_times_of_the_lines_are_kept() -> None:
    replay = replayed(written([entry(at_s=20.0), entry(at_s=10.0)]), Threshold())
    assert (replay.first_time, replay.last_time) == ("2026-12-01T12:00:10+00:00", "2026-12-01T12:00:20+00:00")
    assert not replay.learned
