"""The texts: long enough, different from each other, and of the kinds that they claim to be."""

import pytest

from breakeven_bench.workloads import prompts

ALL = (
    *prompts.SHORT_QA,
    *prompts.CODE,
    *prompts.CREATIVE,
    *prompts.TRANSLATION,
    *prompts.STRUCTURED,
    *prompts.SUMMARISATION,
)


def test_no_text_is_empty_or_occurs_twice():
    assert all(ALL)
    assert len(set(ALL)) == len(ALL)


@pytest.mark.parametrize(
    ("text", "words"), list(zip(prompts.SUMMARISATION, (500, 600, 700, 800, 900, 1000), strict=True))
)
def test_a_document_to_summarise_has_the_length_of_its_place(text, words):
    assert words <= len(text.split()) <= words + 60


def test_documents_do_not_repeat_a_sentence():
    for text in prompts.SUMMARISATION:
        parts = [part for part in text.split("In part ") if part]
        assert len({part.split(", ", 1)[1] for part in parts[1:]}) == len(parts) - 1


def test_translations_go_both_ways():
    directions = {text.split(":", 1)[0] for text in prompts.TRANSLATION}
    assert directions == {"Translate into Korean", "Translate into English"}


def test_one_piece_of_code_to_refactor_keeps_its_indentation():
    assert any("\n        for b in items:\n" in text for text in prompts.CODE)
