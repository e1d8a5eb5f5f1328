"""`breakeven.equivalence`: one divergence means nothing, a share does, and nothing where the control parts as well."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.equivalence import PROMPTS, Answer, Equivalence, Finding, Rule, parted_at

RULE = Rule(window=4, divergence_max=0.5)


def after(*pairs, rule=RULE):
    """What is found after answers that parted, each beside the control's."""
    equivalence = Equivalence(rule)
    for parted, control in pairs:
        finding = equivalence.compared("spec-0", "plain-0", parted, control)
    return equivalence, finding


def test_answers_that_begin_alike_and_end_sooner_part_at_the_end():
    assert parted_at(Answer("one"), Answer("one two")) == 3
    assert parted_at(Answer("", ()), Answer("", ())) is None


def test_ids_decide_where_both_tell_them_and_the_text_where_one_does_not():
    assert parted_at(Answer("same", (1, 2, 3)), Answer("same", (1, 9, 3))) == 1
    assert parted_at(Answer("same", (1, 2, 3)), Answer("same")) is None
    assert parted_at(Answer("sane", (1,)), Answer("same")) == 2


@given(st.lists(st.integers(0, 3), max_size=6), st.lists(st.integers(0, 3), max_size=6))
def test_answers_are_the_same_before_the_place_where_they_part(one, other):
    place = parted_at(Answer("", tuple(one)), Answer("", tuple(other)))
    if place is None:
        assert one == other
    else:
        assert one[:place] == other[:place]
        assert one[place : place + 1] != other[place : place + 1]


def test_before_the_window_is_full_nobody_is_judged():
    _, finding = after((3, None), (0, None), (1, None))
    assert finding == Finding(share=1.0, answers=3, parted_at=1, broken=False)


def test_more_than_the_share_that_may_differ_is_broken():
    assert not after((3, None), (0, None), (None, None), (None, None))[1].broken
    assert after((3, None), (0, None), (5, None), (None, None))[1] == Finding(0.75, 4, 3, broken=True)


def test_where_the_plain_engine_parts_from_itself_as_often_nothing_follows():
    assert not after(*[(1, 1)] * 4)[1].broken
    assert after(*[(1, None)] * 3, (1, 1))[1].broken


def test_an_engine_that_answers_well_again_is_no_longer_broken():
    equivalence, _ = after(*[(1, None)] * 4)
    for _ in range(2):
        finding = equivalence.compared("spec-0", "plain-0", None, None)
    assert finding == Finding(0.5, 4, 1, broken=False)


def test_an_engine_that_never_differs_parted_nowhere():
    assert after((None, None))[1] == Finding(0.0, 1, None)


def test_both_are_found_the_plain_one_by_its_control():
    equivalence, _ = after((None, 2))
    assert equivalence.findings() == {"plain-0": Finding(1.0, 1, 2), "spec-0": Finding(0.0, 1)}


def test_who_is_forgotten_begins_anew():
    equivalence, _ = after(*[(1, None)] * 4)
    equivalence.forget(["spec-0", "never-seen"])
    assert list(equivalence.findings()) == ["plain-0"]
    assert equivalence.compared("spec-0", "plain-0", 1, None) == Finding(1.0, 1, 1)


@pytest.mark.parametrize(("window", "answers"), [(2, 2), (100, 4)])
def test_another_window_keeps_the_last_answers_as_far_as_it_reaches(window, answers):
    equivalence, _ = after(*[(1, None)] * 4)
    equivalence.reconfigure(Rule(window, 0.5))
    assert equivalence.found("spec-0").answers == answers


def test_every_prompt_is_another_one_and_one_pass_is_the_usual_window():
    assert len(set(PROMPTS)) == len(PROMPTS) == 20
