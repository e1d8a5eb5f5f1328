"""Answers: how long, how they end, and that text and JSON say the same however they are cut into events."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven_bench.engine.acceptance import Workload
from breakeven_bench.engine.answers import (
    BOOK_TOKENS,
    NATURAL_LENGTHS,
    Ending,
    answer,
    natural_length,
    write_book,
)

BOOK = write_book()
KEYS = st.integers(0, 2**64 - 1)
ENDINGS = st.builds(Ending, st.integers(1, 60), st.integers(1, 60), tokens_min=st.just(0), ignore_eos=st.booleans())


def whole(made):
    return made.text(0, made.tokens)


def test_an_answer_that_the_limit_cuts_ends_by_length_and_speaks_to_its_last_token():
    made = answer(BOOK, 5, Ending(natural_tokens=10, tokens_max=4))
    assert (made.tokens, made.finish_reason, made.stop_reason) == (4, "length", None)
    assert whole(made) == "".join(BOOK.words[5:9])


def test_an_answer_that_ends_by_itself_counts_a_last_token_that_says_nothing():
    made = answer(BOOK, 5, Ending(natural_tokens=4, tokens_max=10))
    assert (made.tokens, made.finish_reason) == (4, "stop")
    assert whole(made) == "".join(BOOK.words[5:8])
    assert made.text(3, 1) == ""
    assert made.json_text(3, 1) == b""


def test_an_answer_whose_natural_end_is_the_limit_ends_by_itself():
    assert answer(BOOK, 5, Ending(natural_tokens=4, tokens_max=4)).finish_reason == "stop"


def test_ignoring_the_end_of_text_goes_on_to_the_limit():
    made = answer(BOOK, 5, Ending(natural_tokens=4, tokens_max=10, ignore_eos=True))
    assert (made.tokens, made.finish_reason) == (10, "length")


def test_an_answer_does_not_end_before_the_least_number_of_tokens():
    made = answer(BOOK, 5, Ending(natural_tokens=2, tokens_max=10, tokens_min=6))
    assert (made.tokens, made.finish_reason) == (7, "stop")


def test_a_stop_string_ends_the_answer_before_it_and_is_named():
    words = BOOK.words[5:15]
    stop = words[3]
    made = answer(BOOK, 5, Ending(natural_tokens=50, tokens_max=50, stop=("\x00", stop)))
    before = "".join(BOOK.words[5:55]).split(stop)[0]
    assert (whole(made), made.finish_reason, made.stop_reason) == (before, "stop", stop)


def test_a_stop_string_over_two_words_is_found_where_it_is_complete():
    words = BOOK.words[5:15]
    stop = words[3][-1] + words[4][:2]
    made = answer(BOOK, 5, Ending(natural_tokens=50, tokens_max=50, stop=(stop,)))
    text = "".join(words)
    assert whole(made) == text[: text.find(stop)]
    assert made.tokens <= 5


def test_of_two_stop_strings_the_one_that_is_complete_first_counts():
    words = BOOK.words[5:15]
    made = answer(BOOK, 5, Ending(natural_tokens=50, tokens_max=50, stop=(words[6], words[2])))
    assert made.stop_reason == words[2]


def test_a_stop_string_before_the_least_number_of_tokens_is_passed_over():
    made = answer(BOOK, 5, Ending(natural_tokens=50, tokens_max=50, tokens_min=3, stop=(" ",)))
    assert whole(made) == "".join(BOOK.words[5:8])
    assert made.tokens == 4


def test_a_stop_string_that_never_comes_changes_nothing():
    ending = Ending(natural_tokens=20, tokens_max=10)
    assert answer(BOOK, 5, Ending(20, 10, stop=("\x00",))) == answer(BOOK, 5, ending)


@given(KEYS, ENDINGS)
def test_an_answer_has_at_least_one_token_and_never_more_than_allowed(key, ending):
    made = answer(BOOK, key, ending)
    assert 1 <= made.tokens <= ending.tokens_max
    assert (made.finish_reason == "stop") == (not ending.ignore_eos and ending.natural_tokens <= ending.tokens_max)


@pytest.mark.slow
@given(KEYS, ENDINGS, st.lists(st.integers(1, 7), max_size=80))
def test_events_of_any_size_add_up_to_the_whole_answer(key, ending, sizes):
    made = answer(BOOK, key, ending)
    pieces, at = [], 0
    for size in [*sizes, made.tokens]:
        count = min(size, made.tokens - at)
        if count:
            text = made.text(at, count)
            assert json.loads(b'"' + made.json_text(at, count) + b'"') == text
            pieces.append(text)
            at += count
    assert "".join(pieces) == whole(made)


def test_the_book_begins_again_at_its_end():
    made = answer(BOOK, BOOK_TOKENS - 2, Ending(1, 2 * BOOK_TOKENS + 5, ignore_eos=True))
    twice_and_more = [*BOOK.words[-2:], *BOOK.words, *BOOK.words, *BOOK.words[:3]]
    assert whole(made) == "".join(twice_and_more)


def test_the_book_is_the_same_every_time_and_holds_what_json_must_escape_and_utf8_must_encode():
    assert write_book() == BOOK
    assert len(BOOK.words) == BOOK_TOKENS
    text = "".join(BOOK.words)
    for awkward in ("\n\n", "é", "강물", "—", "{key}"):
        assert awkward in text


@given(st.sampled_from(Workload), KEYS)
def test_an_answer_is_naturally_as_long_as_its_kind_is_expected_to_be(workload, key):
    low, high = NATURAL_LENGTHS[workload]
    assert low <= natural_length(workload, key) <= high
