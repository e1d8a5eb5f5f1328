"""How long answers get, and how many tokens a prompt has."""

import pytest

from breakeven_policies.lengths import PROMPT_TOKENS, TOKENS_PER_BYTE, Lengths


def test_without_answers_lengths_are_unknown_and_prompts_are_as_usual() -> None:
    lengths = Lengths()
    assert (lengths.mean, lengths.by_class()) == (None, {})
    assert (lengths.prompt_length, lengths.tokens_per_byte) == (PROMPT_TOKENS, TOKENS_PER_BYTE)


def test_an_answer_that_nobody_counted_is_not_one_of_no_tokens() -> None:
    lengths = Lengths()
    lengths.observe("a", None, None, None, 0.0)
    lengths.observe("a", 0, None, None, 0.0)
    assert lengths.mean is None


def test_a_class_that_was_seen_seldom_leans_on_all_others() -> None:
    lengths = Lengths()
    for _ in range(99):
        lengths.observe("long", 500, None, None, 0.0)
    lengths.observe("short", 10, None, None, 0.0)
    by_class = lengths.by_class()
    assert lengths.mean == pytest.approx(495.1)
    assert by_class["long"] == pytest.approx(500, rel=0.01)
    assert by_class["short"] == pytest.approx((10 + 5 * 495.1) / 6)


def test_tokens_of_a_prompt_come_from_the_engine_else_from_its_bytes() -> None:
    lengths = Lengths()
    lengths.observe("a", None, 1000, 500, 0.0)
    assert (lengths.tokens_per_byte, lengths.prompt_length) == (0.5, 500.0)
    lengths.observe("a", None, 3000, None, 0.0)
    assert lengths.prompt_length == 1000.0


def test_no_byte_has_more_than_one_token() -> None:
    lengths = Lengths()
    lengths.observe("a", None, 10, 500, 0.0)
    assert lengths.tokens_per_byte == 1.0


def test_a_body_without_a_size_tells_nothing_of_prompts() -> None:
    lengths = Lengths()
    lengths.observe("a", 5, None, None, 0.0)
    assert lengths.prompt_length == PROMPT_TOKENS
