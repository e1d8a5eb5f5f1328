"""`breakeven_bench.replay.report`: the figures of a replay for people and for programs."""

import json

import pytest
from msgspec.structs import replace

from breakeven_bench.replay.decisions import Contestant, Replay, Writers
from breakeven_bench.replay.report import agreement_share, to_json, to_markdown
from breakeven_bench.replay.tally import Tally
from breakeven_policies.breakeven import Breakeven
from breakeven_policies.pinned import Pinned
from breakeven_policies.policy import Policy
from breakeven_policies.threshold import Threshold
from tests.bench.replay.journals import entry, written
from tests.bench.replay.test_decisions import Broken
from tests.policies.fleets import request
from tests.policies.learned_fleets import learned_pair


def replayed(lines: list[bytes], *policies: Policy | Writers) -> Replay:
    replay = Replay(tuple(map(Contestant, policies)))
    list(replay.run(lines))
    return replay


LINES = written([entry(request(temperature)) for temperature in (0.1, 0.5, 1.5)])


def test_without_a_line_nothing_agrees_and_the_page_says_so() -> None:
    replay = replayed([b"?"], Threshold())
    assert agreement_share(Tally(), of_pools=True) is None
    page = to_markdown(replay)
    assert "No line could be read. 1 lines could not be read; the first: line 1: not a line" in page
    assert "| threshold | - | - |" in page
    assert json.loads(to_json(replay))["policies"][0]["agreement"] is None


def test_lines_without_a_decision_count_as_disagreement() -> None:
    replay = replayed(LINES, Broken())
    assert agreement_share(replay.contestants[0].tally, of_pools=True) == 0.0
    assert "`broken` failed 3 times, first with: KeyError: 'm'" in to_markdown(replay)


def test_who_agrees_with_every_line_has_one_row_and_nothing_else() -> None:
    page = to_markdown(replayed(LINES, Writers(1.0)))
    assert "| as written | 100.0 % | 100.0 % | 0 | 0 | 0 | not known |" in page
    assert "differs" not in page
    assert "learn" not in page


def test_where_a_policy_differs_is_told_by_pool_class_load_and_reason() -> None:
    page = to_markdown(replayed(LINES, Pinned("baseline")))
    assert "| pinned:baseline | 33.3 % | 33.3 % | 2 | 0 | 0 | not known |" in page
    assert "## Where `pinned:baseline` differs" in page
    assert "| speculative | baseline | 2 |" in page
    assert "| t1/short/free | 1 | 0.0 % |" in page
    assert "| 0 to 1 | 3 | 33.3 % |" in page
    assert "| pinned | 3 |" in page


@pytest.mark.slow
def test_nearly_all_is_not_all() -> None:
    lines = written([entry() for _ in range(1999)] + [entry(request(0.9))])
    assert "| threshold:0.8 | 99.9 % |" in to_markdown(replayed(lines, Threshold(0.8, "threshold:0.8")))


def test_predictions_and_regret_are_shown_where_there_are_any() -> None:
    (contestant,) = (replay := Replay((Contestant(Breakeven(explores=False)),))).contestants
    served = entry(request(0.7), policy=Pinned("speculative"), token_s=0.01)
    state = replace(served.considered.fleet, learned=learned_pair().learned, now_s=100.0)
    contestant.decide(replace(served, considered=replace(served.considered, fleet=state)))
    replay.entries = 1
    page = to_markdown(replay, tables=True)
    assert "| breakeven | 100.0 % | 100.0 % | 0 | 0 | 0 | 0 each of 1 |" in page
    assert "## Predicted against observed" in page
    assert "| breakeven | time per token | 1 | " in page
    assert "began with nothing but the given tables" in page
    document = json.loads(to_json(replay))["policies"][0]
    assert document["forecasts"]["token_time"]["requests"] == 1
    assert document["regret"] == 0.0


def test_the_document_holds_every_figure() -> None:
    document = json.loads(to_json(replayed([*LINES, b"x"], Pinned("baseline"))))
    assert (document["report_version"], document["lines"], document["unreadable"]) == (1, 3, 1)
    assert document["from"] == "2026-12-01T12:00:10+00:00"
    (policy,) = document["policies"]
    assert policy["agreement"] == pytest.approx(1 / 3)
    assert policy["results"] == {"same": 1, "other_backend": 0, "other_pool": 2, "other_refusal": 0}
    assert policy["elsewhere"] == [{"from": "speculative", "to": "baseline", "requests": 2}]
    assert policy["by_class"]["t4/short/free"] == {"requests": 1, "same": 1, "same_pool": 1}
    assert policy["regret"] is None
