"""Where two greedy answers part, and whether rounding can be the reason."""

import pytest

from breakeven_bench.real_curve.greedy import SHOWN_TOKENS, Divergence, NoAnswerError, Token, divergence, tokens_of


def said(*texts, **at):
    """An answer of these tokens, each far ahead of the others; `at` gives others by position: p2=("x", -0.7)."""
    rivals = {int(name[1:]): rival for name, rival in at.items()}
    return [Token(text, -0.1, *rivals.get(place, ("?", -9.0))) for place, text in enumerate(texts)]


def answer(*tokens):
    return {"choices": [{"logprobs": {"content": list(tokens)}}]}


def entry(text, logprob, *others):
    top = [{"token": text, "logprob": logprob}, *({"token": name, "logprob": value} for name, value in others)]
    return {"token": text, "logprob": logprob, "top_logprobs": top}


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": []},
        {"error": "no"},
        {"choices": [{"logprobs": None}]},
        {"choices": [{"logprobs": {"content": None}}]},
        {"choices": [{"logprobs": {"content": [{"token": "a"}]}}]},
    ],
)
def test_an_answer_without_the_probabilities_of_its_tokens_is_refused(odd):
    with pytest.raises(NoAnswerError, match="without the log-probabilities"):
        tokens_of(odd)


def test_a_token_knows_the_strongest_of_the_others():
    (token,) = tokens_of(answer(entry("a", -0.5, ("b", -2.0), ("c", -1.0))))
    assert token == Token("a", -0.5, "c", -1.0)


def test_a_token_without_others_has_none():
    assert tokens_of(answer(entry("a", -0.5))) == (Token("a", -0.5, None, None),)


def test_equal_answers_do_not_part():
    assert divergence("p", said("a", "b"), said("a", "b")) is None
    assert divergence("p", [], []) is None


def test_they_part_at_the_first_token_that_differs_and_both_continuations_are_shown():
    plain, other = said("a", "b", "c", "d", p1=("x", -0.1)), said("a", "x", "c", "e")
    assert divergence("p", plain, other) == Divergence(
        prompt_id="p",
        position=1,
        plain="bcd",
        speculative="xce",
        plain_lead=0.0,
        is_runner_up=True,
    )


def test_a_choice_that_led_clearly_or_another_token_than_the_runner_up_shows_as_such():
    found = divergence("p", said("a", p0=("y", -4.1)), said("x"))
    assert found is not None
    assert found.plain_lead == pytest.approx(4.0)
    assert not found.is_runner_up


def test_a_lead_that_was_not_told_is_unknown():
    found = divergence("p", [Token("a", -0.1, None, None)], said("x"))
    assert found is not None
    assert (found.plain_lead, found.is_runner_up) == (None, False)


def test_an_answer_that_ends_early_parts_where_it_ends():
    shorter = divergence("p", said("a"), said("a", "b"))
    longer = divergence("p", said("a", "b"), said("a"))
    assert shorter is not None
    assert longer is not None
    assert (shorter.position, shorter.plain, shorter.speculative, shorter.plain_lead) == (1, "", "b", None)
    assert (longer.position, longer.plain, longer.speculative, longer.is_runner_up) == (1, "b", "", False)


def test_a_continuation_is_shown_up_to_its_bound():
    found = divergence("p", said("a", *"0123456789"), said("x"))
    assert found is not None
    assert found.plain == "a0123456"
    assert len(found.plain) == SHOWN_TOKENS
