"""The held-out prompts: fifty, short, all different, none of the demo's, and mixed from the first on."""

from collections import Counter

from breakeven_bench.workloads import prompts
from breakeven_bench.workloads.held_out import KINDS, held_out

ALL = list(held_out())


def test_there_are_fifty_ten_of_each_kind():
    assert Counter(kind for _, kind, _ in ALL) == {kind: 10 for kind, _ in KINDS}


def test_no_prompt_and_no_id_occurs_twice():
    assert len({prompt_id for prompt_id, _, _ in ALL}) == len({text for _, _, text in ALL}) == len(ALL) == 50


def test_no_prompt_is_one_of_the_mixed_workload():
    others = {*prompts.SHORT_QA, *prompts.CODE, *prompts.CREATIVE, *prompts.STRUCTURED, *prompts.TRANSLATION}
    assert others.isdisjoint(text for _, _, text in ALL)


def test_every_prompt_is_short_and_one_line_of_english():
    assert [
        text for _, _, text in ALL if not (2 < len(text.split()) <= 30 and text.isascii() and text.isprintable())
    ] == []


def test_the_kinds_take_turns_so_that_any_first_part_is_mixed():
    kinds = [kind for kind, _ in KINDS]
    assert [kind for _, kind, _ in ALL] == kinds * 10
    assert [prompt_id for prompt_id, _, _ in ALL[:6]] == [f"{kind}-0" for kind in kinds] + [f"{kinds[0]}-1"]
