"""`breakeven.shadow`: other policies decide too, and nothing of it reaches traffic."""

import logging
from collections.abc import Callable

import pytest

from breakeven.fleet import PoolSpec
from breakeven.metric_table import SHADOW_DECISIONS, SHADOW_REGRET, SHADOW_REGRET_KNOWN, SHADOW_SECONDS
from breakeven.metrics import Metrics
from breakeven.shadow import DECISION_S, RECENT, TURN_S, WAITING_MAX, Shadows
from breakeven_policies.breakeven import Breakeven
from breakeven_policies.decision import Decision, Reason, Refusal, Refuse, Route, Target
from breakeven_policies.pinned import Pinned
from breakeven_policies.policy import Policy
from breakeven_policies.request import RequestView
from breakeven_policies.snapshot import FleetSnapshot, PoolKind
from breakeven_policies.threshold import Threshold
from tests.policies.fleets import pair, request
from tests.policies.learned_fleets import learned_pair

POOLS = (PoolSpec("baseline", PoolKind.PLAIN, "none", 0, ("base-0",)),)
TO_BASE = Route((Target("baseline", "base-0"),), Reason.PINNED, "other")


class Answers:
    """A policy that answers what the test says, or raises it, and takes so long."""

    name = "answers"

    def __init__(self, stage: "Stage", answer: object, takes_s: float = 0.0) -> None:
        self.stage, self.answer, self.takes_s, self.asked = stage, answer, takes_s, 0

    def decide(self, request: RequestView, fleet: FleetSnapshot) -> Decision:
        self.asked += 1
        self.stage.now_s += self.takes_s
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[return-value]  # it may be anything


class Stage:
    """Time stands still unless somebody takes some; the next turn comes when the test says."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.turns: list[Callable[[], None]] = []
        self.metrics = Metrics(POOLS)

    def shadows(self, *policies: Policy) -> Shadows:
        return Shadows(policies, self.metrics, lambda: self.now_s, lambda work: self.turns.append(work))

    def turn(self) -> None:
        turns, self.turns = self.turns, []
        for work in turns:
            work()

    def counted(self) -> dict[tuple[str, ...], float]:
        counts = self.metrics.counted(SHADOW_DECISIONS)
        return {labels: number for labels, (number,) in counts.items() if number}


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize("answer", [RuntimeError("boom"), Route((), Reason.PINNED, "x")])
def test_a_policy_that_fails_is_logged_once_and_counted_each_time(
    stage: Stage, caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    shadows = stage.shadows(Answers(stage, answer), Threshold())
    for _ in range(3):
        shadows.consider(request(0.7), pair(), TO_BASE)
    stage.turn()
    assert stage.counted() == {
        ("answers", "failed", "none"): 3,
        ("threshold", "other_pool", "speculative"): 3,
    }
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == "shadow policy answers failed; further failures are only counted"
    assert record.exc_info


def test_nothing_is_decided_before_the_request_has_gone_its_way(stage: Stage) -> None:
    asked = Answers(stage, TO_BASE)
    shadows = stage.shadows(asked)
    shadows.consider(request(), pair(), TO_BASE)
    assert (asked.asked, len(stage.turns)) == (0, 1)
    shadows.consider(request(), pair(), TO_BASE)
    assert len(stage.turns) == 1
    stage.turn()
    assert (asked.asked, stage.turns) == (2, [])
    assert stage.counted() == {("answers", "same", "baseline"): 2}


def test_one_that_waits_for_a_place_is_compared_when_it_is_decided(stage: Stage) -> None:
    shadows = stage.shadows(Threshold())
    shadows.consider(request(), pair(), Refuse(Refusal.AT_CAPACITY, "other"))
    assert stage.turns == []
    shadows.consider(request(), pair(), Refuse(Refusal.NO_READY_BACKEND, "other"))
    stage.turn()
    assert stage.counted() == {("threshold", "other_refusal", "speculative"): 1}


def test_a_turn_of_the_loop_works_no_longer_than_it_may(stage: Stage) -> None:
    shadows = stage.shadows(slow := Answers(stage, TO_BASE, takes_s=TURN_S))
    for _ in range(2):  # few enough not to be sampled yet
        shadows.consider(request(ticket=0.0), pair(), TO_BASE)
    stage.turn()
    assert (slow.asked, len(stage.turns)) == (1, 1)
    stage.turn()
    assert (slow.asked, stage.turns) == (2, [])


def test_a_policy_whose_decisions_take_long_is_asked_about_a_share_of_the_requests(stage: Stage) -> None:
    shadows = stage.shadows(slow := Answers(stage, TO_BASE, takes_s=10 * DECISION_S))
    tickets = [number / 1000 for number in range(1000)]
    for ticket in tickets:
        shadows.consider(request(ticket=ticket), pair(), TO_BASE)
        while stage.turns:
            stage.turn()
    assert slow.asked == pytest.approx(100, rel=0.2)
    assert stage.counted()["answers", "skipped", "none"] == 1000 - slow.asked
    assert sum(sum(numbers[:-1]) for numbers in stage.metrics.counted(SHADOW_SECONDS).values()) == slow.asked


def test_it_is_asked_about_all_again_once_it_is_fast_again(stage: Stage) -> None:
    shadows = stage.shadows(policy := Answers(stage, TO_BASE, takes_s=2 * DECISION_S))
    for number in range(2 * RECENT):
        shadows.consider(request(ticket=number / 10), pair(), TO_BASE)
        stage.turn()
    policy.takes_s, policy.asked = DECISION_S / 10, 0
    for number in range(100):
        shadows.consider(request(ticket=number / 100), pair(), TO_BASE)
        stage.turn()
    assert policy.asked > 90


def test_one_slow_decision_makes_no_policy_slow(stage: Stage) -> None:
    shadows = stage.shadows(policy := Answers(stage, TO_BASE))
    for number in range(100):
        policy.takes_s = 100 * DECISION_S if number % RECENT == 0 else DECISION_S / 10
        shadows.consider(request(ticket=number / 100), pair(), TO_BASE)
        stage.turn()
    assert policy.asked == 100


def test_what_comes_faster_than_it_can_be_compared_is_passed_over_and_counted(stage: Stage) -> None:
    shadows = stage.shadows(Threshold())
    for _ in range(WAITING_MAX + 5):
        shadows.consider(request(0.7), pair(), TO_BASE)
    assert stage.counted() == {("threshold", "skipped", "none"): 5}
    while stage.turns:
        stage.turn()
    assert stage.counted()["threshold", "other_pool", "speculative"] == WAITING_MAX


def test_every_series_that_is_likely_starts_at_zero(stage: Stage) -> None:
    stage.shadows(Threshold())
    assert ("threshold", "same", "none") in stage.metrics.counted(SHADOW_DECISIONS)
    assert list(stage.metrics.counted(SHADOW_SECONDS)) == [("threshold",)]


def test_what_is_lost_by_what_was_done_is_summed_where_the_shadow_knows(stage: Stage) -> None:
    shadows = stage.shadows(Breakeven(explores=False))
    shadows.consider(request(0.7), pair(), TO_BASE)  # of which it knows nothing
    shadows.consider(request(0.7), learned_pair(), TO_BASE)
    shadows.consider(request(0.7), learned_pair(), Pinned("speculative").decide(request(0.7), learned_pair()))
    stage.turn()
    assert stage.metrics.counted(SHADOW_REGRET_KNOWN) == {("breakeven",): [2.0]}
    ((lost,),) = stage.metrics.counted(SHADOW_REGRET).values()
    prediction = Breakeven(explores=False).decide(request(0.7), learned_pair()).prediction
    assert lost == pytest.approx(prediction.runner_up_total - prediction.total)
